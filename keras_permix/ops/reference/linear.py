"""Share matrix products, Toeplitz matrices and Sinkhorn iterations of the references."""

from keras import backend, ops


def full_precision(dtype):
    """Return float64 for float64, else float32; Keras' `result_type` loses float64 on PyTorch."""
    return "float64" if backend.standardize_dtype(dtype) == "float64" else "float32"


def matmul(x, y):
    """Return `ops.matmul` of tensors of one dtype, and keep the dtype."""
    return x @ y if full_precision(x.dtype) == "float64" else ops.matmul(x, y)


def dense(x, kernel, bias, mask):
    """Return `x @ kernel + bias`, or `x @ kernel` if `bias` is None."""
    product = matmul(x, kernel)
    return product if bias is None else ops.add(product, bias)


def toeplitz(diagonals):
    """Make matrices from diagonals: `out[…, i, j] = diagonals[…, size - 1 + j - i]`.

    The last axis of `diagonals` runs from the lower left to the upper right. Uses only copies and
    slices, so that the gradient is a sum instead of a scatter-add.
    """
    *outer, length = ops.shape(diagonals)
    size = (length + 1) // 2
    filled = ops.pad(diagonals, [(0, 0)] * len(outer) + [(0, 1)])
    rows = ops.broadcast_to(filled[..., None, :], (*outer, size, length + 1))
    # Reshaped with one column less, every row starts one position earlier than the row above.
    skewed = ops.reshape(rows, (*outer, size * (length + 1)))[..., : size * length]
    return ops.reshape(skewed, (*outer, size, length))[..., size - 1 :]


def sinkhorn(scores, mask, *, iterations, temperature, loop=None):
    """Normalize rows and columns, in a `loop` like `jax.lax.fori_loop` or unrolled."""
    precise = full_precision(scores.dtype)
    logits = ops.cast(scores, precise) / ops.cast(temperature, precise)
    logits = (loop or _unrolled)(0, iterations, _normalize, logits)
    return ops.cast(ops.exp(logits), scores.dtype)


def _unrolled(start, stop, step, value):
    for index in range(start, stop):
        value = step(index, value)
    return value


def _normalize(_, logits):
    logits = logits - ops.logsumexp(logits, axis=-1, keepdims=True)
    return logits - ops.logsumexp(logits, axis=-2, keepdims=True)
