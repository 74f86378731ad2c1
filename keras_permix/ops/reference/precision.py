"""Keep the precision of float16, bfloat16 and float64 computations."""

from keras import backend, ops


def full_precision(dtype):
    """Return float64 for float64, otherwise float32.

    Keras' `result_type` does not support float64 on PyTorch.
    """
    return "float64" if backend.standardize_dtype(dtype) == "float64" else "float32"


def matmul(x, y):
    """Multiply tensors of one dtype, and keep the dtype."""
    return x @ y if full_precision(x.dtype) == "float64" else ops.matmul(x, y)
