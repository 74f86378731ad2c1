"""Compute the multi-dimensional damped exponential moving average along the tokens."""

from keras import ops

from keras_permix._typing import Mask, Tensor
from keras_permix.ops.dispatch.checks import check_floating, check_mask, check_tokens
from keras_permix.ops.dispatch.dispatch import dispatch, op
from keras_permix.ops.reference.ema import (
    CHUNK,
    as_implementation,
    coefficients,
    directions,
    in_full_precision,
    powers,
)
from keras_permix.ops.reference.packing import cut, join
from keras_permix.utils.checks import check_positive_or_none


@op
def damped_ema(
    x: Tensor,
    delta: Tensor,
    alpha: Tensor,
    beta: Tensor,
    gamma: Tensor,
    omega: Tensor,
    *,
    truncation: int | None = None,
    mask: Mask = None,
    implementation: str | None = None,
) -> Tensor:
    """Average every channel over earlier tokens, with `dim` decaying weights.

    With `p = sigmoid(delta)` and `q = 1 - p * sigmoid(alpha)`, each of shape (channels, dim):

        h[t] = q * h[t - 1] + p * beta * x[t]
        out[t] = sum(gamma * h[t]) / sqrt(dim) + omega * x[t]

    Parameters with 2 * channels rows add a second average, over later tokens; the token itself
    counts in both. All implementations compute in float32, or in float64 for a float64 `x`:

    * "chunked" takes time and memory linear in the tokens;
    * "fft" is one long convolution;
    * "reference" is the recurrence above and stores `dim` times the size of its input.

    Args:
        x: Tensor of shape (batch, tokens, channels), floating.
        delta, alpha, beta, gamma: Tensors of shape (channels, dim), or (2 * channels, dim) for
            both directions, the forward rows first.
        omega: Tensor of shape (channels,).
        truncation: Tokens per average and direction, including the token itself. None averages over
            all.
        mask: Boolean tensor of shape (batch, tokens), True for real tokens. Padding counts as 0 in
            the averages, but not in `omega * x`.
        implementation: A name that `explain` lists. None selects the first that supports the call.

    Returns:
        A tensor like `x`.

    Raises:
        ValueError: for shapes that do not fit, `x` that is not floating, a `truncation` below 1,
            or an implementation that does not support the call.

    Example:
        >>> import keras
        >>> from keras_permix.ops import damped_ema
        >>> x = keras.ops.reshape(keras.ops.array([1.0, 0.0, 0.0]), (1, 3, 1))
        >>> zero, one = keras.ops.zeros((1, 1)), keras.ops.ones((1, 1))
        >>> y = damped_ema(x, zero, zero, one, one, keras.ops.zeros(1))  # p = 1/2, q = 3/4
        >>> keras.ops.convert_to_numpy(y).ravel().tolist()
        [0.5, 0.375, 0.28125]

    Reference: Ma et al., "Mega", 2022, arXiv:2209.10655, section 3.1. The factor 1 / sqrt(dim) and
    the sum of both directions follow the released code.
    """
    x = check_tokens(x)
    check_floating(x)
    parameters = [ops.convert_to_tensor(each) for each in (delta, alpha, beta, gamma, omega)]
    channels, shapes = x.shape[2], [tuple(each.shape) for each in parameters]
    dim = parameters[0].shape[-1]
    if shapes not in [[(rows, dim)] * 4 + [(channels,)] for rows in (channels, 2 * channels)]:
        raise ValueError(
            "`delta`, `alpha`, `beta` and `gamma` must have the same shape, (channels, dim) or "
            f"(2 * channels, dim), and `omega` (channels,). Received: {channels=}, {shapes=}"
        )
    return dispatch(
        "damped_ema",
        damped_ema_reference,
        x,
        *parameters,
        mask=check_mask(mask, x),
        implementation=implementation,
        truncation=check_positive_or_none("truncation", truncation),
    )


@as_implementation
def damped_ema_reference(x, weight, log_decay, omega, truncation):
    averaged = omega * x
    for weight_, log_decay_, backward in directions(x.shape[2], weight, log_decay):
        tokens = ops.transpose(x, (1, 0, 2))
        tokens = ops.flip(tokens, axis=0) if backward else tokens
        state = ops.zeros_like(tokens[0][..., None] * weight_)
        outputs = _recur(tokens, weight_, log_decay_, state)
        if truncation is not None:
            gone = ops.pad(tokens, ((truncation, 0), (0, 0), (0, 0)))[: ops.shape(tokens)[0]]
            left = weight_ * ops.exp(truncation * log_decay_)
            outputs = outputs - _recur(gone, left, log_decay_, state)
        outputs = ops.flip(outputs, axis=0) if backward else outputs
        averaged = averaged + ops.transpose(outputs, (1, 0, 2))
    return averaged


def damped_ema_stream(x, state, mask, delta, alpha, beta, gamma, omega):
    """Continue a causal `damped_ema` with more tokens, and return `(outputs, state)`.

    The parameters have one direction. `state`, (batch, channels, dim), is initially zeros.
    """
    inputs, state, *parameters, omega = in_full_precision(
        x, state, delta, alpha, beta, gamma, omega
    )
    outputs = damped_ema(inputs, *parameters, omega, mask=mask)
    if mask is not None:
        inputs = ops.where(ops.cast(mask, "bool")[..., None], inputs, ops.zeros_like(inputs))
    weight, log_decay = coefficients(*parameters)
    tokens = ops.shape(x)[1]
    size = min(CHUNK, x.shape[1] or CHUNK)
    latest_first = cut(ops.flip(inputs, axis=1), size)
    # Split lags into those of chunks and those within, so that no tensor is `dim` times the input.
    long = powers(log_decay, size * ops.arange(ops.shape(latest_first)[1]))
    short = powers(log_decay, ops.arange(size))
    before = (state * weight * ops.exp(log_decay))[..., None] * long
    before = join(ops.einsum("bcdl,cds->blsc", before, short))[:, :tokens]
    new = ops.sum(ops.einsum("blsc,cds->bcdl", latest_first, short) * long, axis=-1)
    state = state * ops.exp(log_decay * ops.cast(tokens, log_decay.dtype)) + new
    return ops.cast(outputs + before, x.dtype), state


def _recur(tokens, weight, log_decay, state):
    """Scan (tokens, batch, channels); on TensorFlow, outputs must have the shape of the state."""
    decay = ops.exp(log_decay)

    def step(state, token):
        state = decay * state + token[..., None]
        return state, state

    _, states = ops.scan(step, state, tokens)
    return ops.sum(weight * states, axis=-1)
