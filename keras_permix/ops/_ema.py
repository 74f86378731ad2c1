"""The damped EMA of all tokens at once: by chunks, or by one long convolution.

A token of the input still counts `sum(weight * exp(lag * log_decay))` in the output `lag` tokens
later, the tap of that lag. Inside, channels come first and tokens last.
"""

import math
from functools import wraps

import keras
import numpy as np
from keras import ops

from keras_permix.ops._toeplitz import toeplitz

CHUNK = 64  # tokens; products of chunks and what passes between them take about the same time
MANY = 1 << 20  # chunks, more than there are where their number is not known


def as_implementation(average):
    """Make `average(x, weight, log_decay, truncation)` serve calls of `damped_ema`."""

    @wraps(average)
    def serve(x, delta, alpha, beta, gamma, omega, mask, *, truncation):
        inputs, *parameters, omega = in_full_precision(x, delta, alpha, beta, gamma, omega)
        real = inputs
        if mask is not None:
            real = ops.where(ops.cast(mask, "bool")[..., None], inputs, ops.zeros_like(inputs))
        weight, log_decay = coefficients(*parameters)
        averaged = average(real, weight, log_decay, truncation)
        return ops.cast(averaged + omega * inputs, x.dtype)

    return serve


def in_full_precision(*tensors):
    """Cast to float32, or to float64 where the first is: a decay is too near to 1 for less."""
    dtype = keras.backend.result_type(tensors[0].dtype, "float32")
    return tuple(ops.cast(tensor, dtype) for tensor in tensors)


def coefficients(delta, alpha, beta, gamma):
    """The weight of a token and the logarithm of its decay, each (rows, dim)."""
    share = ops.sigmoid(delta)
    lost = ops.minimum(share * ops.sigmoid(alpha), 1 - 2**-24)  # a decay of 0 has no logarithm
    return share * beta * gamma / math.sqrt(delta.shape[-1]), ops.log1p(-lost)


def directions(channels, weight, log_decay):
    """Yield `(weight, log_decay, backward)` of the direction or directions that are given."""
    for backward in range(weight.shape[0] // channels):
        rows = slice(backward * channels, (backward + 1) * channels)
        yield weight[rows], log_decay[rows], bool(backward)


def by_chunks(x, weight, log_decay, truncation):
    """Multiply chunks of tokens by their taps, and pass a decaying state from chunk to chunk.

    The cost of a token does not depend on how many there are, and nothing is larger than `x`.
    """
    batch, tokens, channels = ops.shape(x)
    size = min(CHUNK, x.shape[1] or CHUNK)
    chunks = -(-tokens // size)
    x = ops.pad(x, ((0, 0), (0, chunks * size - tokens), (0, 0)))
    x = ops.reshape(ops.transpose(x, (2, 0, 1)), (channels, batch, chunks, size))
    last = chunks - 1 if isinstance(chunks, int) else MANY
    full, partial = _reach(truncation, size, last)
    within, outputs = 0, 0
    for weight_, log_decay_, backward in directions(x.shape[0], weight, log_decay):
        taps = (weight_, log_decay_, size, truncation, backward)
        within = within + _block(0, *taps)
        for distance in partial:
            outputs = outputs + _product(_move(x, distance, backward), _block(distance, *taps))
        if full:
            lags = np.arange(size)[::-1]
            lags = lags[::-1] if backward else lags
            states = _product(x, ops.transpose(_powers(log_decay_, lags), (0, 2, 1)))
            past = _past(states, size * log_decay_, full, backward)
            to_tokens = weight_[..., None] * _powers(log_decay_, size - lags)
            outputs = outputs + _product(past, to_tokens)
    outputs = outputs + _product(x, within)
    outputs = ops.reshape(outputs, (channels, batch, chunks * size))
    return ops.transpose(outputs, (1, 2, 0))[:, :tokens]


def _reach(truncation, size, last):
    """How many chunks away all taps count, and the distances at which only some do."""
    if truncation is None:
        return last, ()
    full = max(truncation // size - 1, 0)
    end = (truncation + size - 2) // size  # the farthest chunk with a token that counts
    return min(full, last), range(full + 1, min(end, last) + 1)


def _powers(log_decay, lags):
    """Decays after some lags: (channels, dim, lags)."""
    return ops.exp(log_decay[..., None] * ops.cast(lags, log_decay.dtype))


def _block(distance, weight, log_decay, size, truncation, backward):
    """Taps from every token of a chunk to every token of one `distance` chunks on."""
    lags = distance * size + np.arange(1 - size, size) * (-1 if backward else 1)
    counts = (lags >= 0) & (lags < (truncation or math.inf))
    powers = _powers(log_decay, np.maximum(lags, 0))
    taps = ops.sum(weight[..., None] * powers, axis=1)
    return toeplitz(taps * ops.cast(counts, taps.dtype))


def _product(x, matrices):
    """Multiply (channels, batch, chunks, n) by one matrix (n, m) a channel."""
    channels, batch, chunks, _ = ops.shape(x)
    rows = ops.reshape(x, (channels, batch * chunks, x.shape[-1]))
    return ops.reshape(ops.matmul(rows, matrices), (channels, batch, chunks, matrices.shape[-1]))


def _past(states, log_decay, reach, backward):
    """Sum the states of the `reach` chunks before each, decayed by their distance less one.

    Runs of 1, 2, 4 … chunks are summed, and those that add up to `reach` are taken.
    """
    chunks = states.shape[2] or MANY
    if reach >= chunks - 1:
        reach = 1 << (chunks - 2).bit_length()  # one run; what it covers too much is empty
    run, length, past, covered = states, 1, 0, 0

    def decayed(x, by):
        return x * ops.exp(by * log_decay)[:, None, None]

    while True:
        if reach & length:
            past = past + decayed(_move(run, covered + 1, backward), covered)
            covered += length
        if covered == reach:
            return past
        run = run + decayed(_move(run, length, backward), length)
        length *= 2


def _move(x, by, backward):
    """Chunks move on `by` places, or back, and zeros come in behind."""
    chunks = ops.shape(x)[2]
    by = min(by, chunks) if isinstance(chunks, int) else ops.minimum(by, chunks)
    padding = (0, by) if backward else (by, 0)
    moved = ops.pad(x, ((0, 0), (0, 0), padding, (0, 0)))
    return moved[:, :, by:] if backward else moved[:, :, :chunks]


def by_fft(x, weight, log_decay, truncation):
    """Convolve the tokens with all taps, as a product of Fourier transforms."""
    tokens, kernel = ops.shape(x)[1], 0
    for weight_, log_decay_, backward in directions(x.shape[2], weight, log_decay):
        taps = ops.pad(_taps(weight_, log_decay_, tokens, truncation), ((0, 0), (0, tokens)))
        kernel = kernel + (ops.roll(ops.flip(taps, axis=1), 1, axis=1) if backward else taps)
    real, imaginary = ops.rfft(ops.transpose(x, (2, 0, 1)), 2 * tokens)
    kernel_real, kernel_imaginary = (part[:, None] for part in ops.rfft(kernel, 2 * tokens))
    product = (
        real * kernel_real - imaginary * kernel_imaginary,
        real * kernel_imaginary + imaginary * kernel_real,
    )
    return ops.transpose(ops.irfft(product, 2 * tokens), (1, 2, 0))[:, :tokens]


def _taps(weight, log_decay, tokens, truncation):
    """Taps of lags 0 … tokens - 1, (channels, tokens), from products of short and long lags."""
    long = weight[..., None] * _powers(log_decay, CHUNK * ops.arange(-(-tokens // CHUNK)))
    short = _powers(log_decay, np.arange(CHUNK))
    taps = ops.matmul(ops.transpose(long, (0, 2, 1)), short)
    taps = ops.reshape(taps, (weight.shape[0], -1))[:, :tokens]
    if truncation is None:
        return taps
    return ops.where(ops.arange(tokens) < truncation, taps, ops.zeros_like(taps))


chunked, fft = as_implementation(by_chunks), as_implementation(by_fft)
