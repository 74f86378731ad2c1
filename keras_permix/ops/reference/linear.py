"""Linear maps of the references: matrix products, Toeplitz matrices, Sinkhorn's iteration."""

from keras import backend, ops


def full_precision(dtype):
    """float32, or float64 where `dtype` is; Keras' `result_type` knows no float64 on PyTorch."""
    return "float64" if backend.standardize_dtype(dtype) == "float64" else "float32"


def matmul(x, y):
    """`ops.matmul` of tensors of one dtype, which it keeps."""
    return x @ y if full_precision(x.dtype) == "float64" else ops.matmul(x, y)


def dense(x, kernel, bias, mask):
    """`x @ kernel + bias`, or without the bias where it is None."""
    product = matmul(x, kernel)
    return product if bias is None else ops.add(product, bias)


def toeplitz(diagonals):
    """Make matrices of their diagonals: `out[…, i, j] = diagonals[…, size - 1 + j - i]`.

    Made of copies and slices only, so that the gradient is a sum and no scatter-add.

    Args:
        diagonals: Tensor of shape (…, 2 * size - 1), from the lower left to the upper right.

    Returns:
        A tensor of shape (…, size, size).
    """
    *outer, length = ops.shape(diagonals)
    size = (length + 1) // 2
    filled = ops.pad(diagonals, [(0, 0)] * len(outer) + [(0, 1)])
    rows = ops.broadcast_to(filled[..., None, :], (*outer, size, length + 1))
    # Read with one column less, every row starts one place before the row above it.
    skewed = ops.reshape(rows, (*outer, size * (length + 1)))[..., : size * length]
    return ops.reshape(skewed, (*outer, size, length))[..., size - 1 :]


def sinkhorn_by(repeat):
    """Make `repeat(function, value, times)` serve calls of `sinkhorn`."""

    def serve(scores, mask, *, iterations, temperature):
        precise = backend.result_type(scores.dtype, "float32")
        logits = ops.cast(scores, precise) / ops.cast(temperature, precise)
        return ops.cast(ops.exp(repeat(_normalize, logits, iterations)), scores.dtype)

    return serve


def unrolled(function, value, times):
    for _ in range(times):
        value = function(value)
    return value


def _normalize(logits):
    logits = logits - ops.logsumexp(logits, axis=-1, keepdims=True)
    return logits - ops.logsumexp(logits, axis=-2, keepdims=True)
