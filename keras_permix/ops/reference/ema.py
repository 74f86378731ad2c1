"""Compute the damped EMA in parallel, by chunks or by one long convolution.

The tap of a lag, `sum(weight * exp(lag * log_decay))`, is the weight of an input token in the
output `lag` tokens later. Internally, channels come first and tokens last.
"""

import math
from functools import wraps

from keras import ops

from keras_permix.ops.reference.linear import full_precision, toeplitz
from keras_permix.ops.reference.packing import cut, join

CHUNK = 64  # tokens; balances the time within chunks and between chunks
RUN = 16  # chunks, or runs, that one product sums
MANY = 1 << 20  # chunks; upper limit if their number is unknown


def as_implementation(average):
    """Turn `average(x, weight, log_decay, …)` into an implementation of `damped_ema`."""

    @wraps(average)
    def serve(x, delta, alpha, beta, gamma, omega, mask, *, truncation):
        inputs, *parameters, omega = in_full_precision(x, delta, alpha, beta, gamma, omega)
        real = inputs
        if mask is not None:
            real = ops.where(ops.cast(mask, "bool")[..., None], inputs, ops.zeros_like(inputs))
        weight, log_decay = coefficients(*parameters)
        averaged = average(real, weight, log_decay, omega, truncation)
        if mask is not None:
            averaged = averaged + omega * (inputs - real)
        return ops.cast(averaged, x.dtype)

    return serve


def in_full_precision(*tensors):
    """Cast to float32, or float64 if the first tensor is; lower precisions round decays to 1."""
    dtype = full_precision(tensors[0].dtype)
    return tuple(ops.cast(tensor, dtype) for tensor in tensors)


def coefficients(delta, alpha, beta, gamma):
    """Return the weight of a token and the logarithm of its decay, each (rows, dim)."""
    share = ops.sigmoid(delta)
    # A decay of 0 has no logarithm. Not `ops.minimum`, which does not keep float64 on PyTorch.
    lost = ops.clip(share * ops.sigmoid(alpha), 0.0, 1 - 2**-24)
    return share * beta * gamma / math.sqrt(delta.shape[-1]), ops.log1p(-lost)


def directions(channels, weight, log_decay):
    """Yield `(weight, log_decay, backward)` of each direction."""
    for backward in range(weight.shape[0] // channels):
        rows = slice(backward * channels, (backward + 1) * channels)
        yield weight[rows], log_decay[rows], bool(backward)


def by_chunks(x, weight, log_decay, omega, truncation):
    """Multiply chunks of tokens by their taps, and pass decaying states from chunk to chunk.

    The cost per token is constant, and no intermediate tensor is larger than `x`.
    """
    tokens = ops.shape(x)[1]
    size = min(CHUNK, x.shape[1] or CHUNK)
    x = cut(ops.transpose(x, (2, 0, 1)), size, 2)
    chunks = x.shape[2] or MANY
    full, partial = _reach(truncation, size, chunks - 1)
    itself = toeplitz(ops.cast(ops.arange(1 - size, size) == 0, x.dtype))
    within, outputs = omega[:, None, None] * itself, 0
    for weight_, log_decay_, backward in directions(x.shape[0], weight, log_decay):
        taps = (weight_, log_decay_, size, truncation, backward)
        within = within + _block(0, *taps)
        for distance in partial:
            moved = cut(_move(join(x, 2), distance * size, backward), size, 2)
            outputs = outputs + _product(moved, _block(distance, *taps))
        if full:
            outputs = outputs + _carried(x, weight_, log_decay_, full, chunks, backward)
    outputs = join(outputs + _product(x, within), 2)
    return ops.transpose(outputs, (1, 2, 0))[:, :tokens]


def _reach(truncation, size, last):
    """Return the distance in chunks up to which all taps count, and those where only some count."""
    if truncation is None:
        return last, ()
    full = max(truncation // size - 1, 0)
    end = (truncation + size - 2) // size  # the farthest chunk with a tap
    return min(full, last), range(full + 1, min(end, last) + 1)


def powers(log_decay, lags):
    """Return the decays after `lags`: (channels, dim, lags)."""
    return ops.exp(log_decay[..., None] * ops.cast(lags, log_decay.dtype))


def _block(distance, weight, log_decay, size, truncation, backward):
    """Return the taps between all tokens of two chunks that are `distance` chunks apart."""
    lags = distance * size + ops.arange(1 - size, size) * (-1 if backward else 1)
    counts = lags >= 0 if truncation is None else (lags >= 0) & (lags < truncation)
    taps = ops.sum(weight[..., None] * powers(log_decay, ops.maximum(lags, 0)), axis=1)
    return toeplitz(taps * ops.cast(counts, taps.dtype))


def _product(x, matrices):
    """Multiply (channels, batch, chunks, n) by one matrix (n, m) per channel."""
    return ops.einsum("abcn,anm->abcm", x, matrices)


def _carried(x, weight, log_decay, reach, most, backward):
    """Return the contribution of the previous `reach` chunks to each chunk, from their states."""
    channels, batch, chunks, size = ops.shape(x)
    dim = weight.shape[1]
    lags = ops.arange(size) if backward else ops.arange(size - 1, -1, -1)
    states = ops.einsum("ans,abcs->anbc", powers(log_decay, lags), x)
    states = ops.reshape(states, (channels * dim, batch, chunks))
    decay = ops.reshape(size * log_decay, (-1, 1))
    past = _move(_sums(states, decay, most, backward), 1, backward)
    if reach < most - 1:
        past = past - ops.exp(reach * decay)[..., None] * _move(past, reach, backward)
    past = ops.reshape(past, (channels, dim, batch, chunks))
    return ops.einsum("anbc,ans->abcs", past, weight[..., None] * powers(log_decay, size - lags))


def _sums(x, log_decay, most, backward):
    """Sum (channels, batch, n) with decay along n, at most `most`; `log_decay` (channels, 1)."""
    count = ops.shape(x)[2]
    x = cut(x, min(RUN, most), 2)
    size = x.shape[3]
    one = ops.ones_like(log_decay)
    sums = _product(x, _block(0, one, log_decay, size, None, backward))
    if most > size:
        runs = -(-most // size)
        sums = sums + _carried(x, one, log_decay, runs, runs, backward)
    return join(sums, 2)[..., :count]


def _move(x, by, backward):
    """Shift the last axis by `by` positions, or back if `backward`, and fill with zeros."""
    count = ops.shape(x)[2]
    by = min(by, count) if isinstance(count, int) else ops.minimum(by, count)
    moved = ops.pad(x, ((0, 0), (0, 0), (0, by) if backward else (by, 0)))
    return moved[..., by:] if backward else moved[..., :count]


def by_fft(x, weight, log_decay, omega, truncation):
    """Convolve the tokens with all taps, as a product of Fourier transforms."""
    tokens = ops.shape(x)[1]
    kernel = ops.pad(omega[:, None], ((0, 0), (0, 2 * tokens - 1)))
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
    """Return taps (channels, tokens) of lags 0 … tokens - 1, as products of long and short lags."""
    long = weight[..., None] * powers(log_decay, CHUNK * ops.arange(-(-tokens // CHUNK)))
    short = powers(log_decay, ops.arange(CHUNK))
    taps = ops.einsum("ans,ant->ast", long, short)  # `matmul` would lose float64 on PyTorch
    taps = ops.reshape(taps, (weight.shape[0], -1))[:, :tokens]
    if truncation is None:
        return taps
    return ops.where(ops.arange(tokens) < truncation, taps, ops.zeros_like(taps))


chunked, fft = as_implementation(by_chunks), as_implementation(by_fft)
