"""The product with a matrix of weights, as Keras has it."""

from keras import ops

from keras_permix.ops.reference.precision import matmul


def dense(x, kernel, bias, mask):
    """`x @ kernel + bias`, or without the bias where it is None."""
    product = matmul(x, kernel)
    return product if bias is None else ops.add(product, bias)
