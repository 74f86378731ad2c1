"""Products with a matrix of weights, whose bias is added in the same pass."""

import torch

from keras_permix.ops.reference.dense import dense as dense_by_keras


def dense(x, kernel, bias, mask):
    """`x @ kernel + bias`; as Keras has it where it promotes types."""
    if bias is None or {kernel.dtype, bias.dtype} != {x.dtype}:
        return dense_by_keras(x, kernel, bias, mask)
    return torch.nn.functional.linear(x, kernel.t(), bias)
