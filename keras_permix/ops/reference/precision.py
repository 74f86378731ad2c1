"""The dtype of what float16 and bfloat16 would lose."""

from keras import backend


def full_precision(dtype):
    """float32, or float64 where `dtype` is; Keras' `result_type` knows no float64 on PyTorch."""
    return "float64" if backend.standardize_dtype(dtype) == "float64" else "float32"
