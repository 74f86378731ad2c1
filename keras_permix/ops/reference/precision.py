"""What float16 and bfloat16 would lose, and what Keras would lose of float64."""

from keras import backend, ops


def full_precision(dtype):
    """float32, or float64 where `dtype` is; Keras' `result_type` knows no float64 on PyTorch."""
    return "float64" if backend.standardize_dtype(dtype) == "float64" else "float32"


def matmul(x, y):
    """`ops.matmul` of tensors of one dtype, which it keeps."""
    return x @ y if full_precision(x.dtype) == "float64" else ops.matmul(x, y)
