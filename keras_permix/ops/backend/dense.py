"""The product with a matrix of weights, as Keras has it."""

from keras import ops


def dense(x, kernel, bias=None):
    """`x @ kernel + bias` for `x` of shape (..., channels) and a kernel of (channels, units)."""
    product = ops.matmul(x, kernel)
    return product if bias is None else ops.add(product, bias)
