"""Rules about sizes that an exporter of PyTorch traces as tensors."""


def require(x, holds, message, size):
    """`x`, or an error for the sizes that are traced; what is exported checks no others."""
    if not bool(holds):
        raise ValueError(f"{message}{int(size)}")
    return x
