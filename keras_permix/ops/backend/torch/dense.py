"""The product with a matrix of weights."""

import torch

from keras_permix.ops.backend.dense import dense as dense_by_keras
from keras_permix.ops.backend.torch.tracing import compiling

FAST_CONVOLUTION = torch.backends.mkldnn.is_available()


def dense(x, kernel, bias=None):
    """`x @ kernel + bias`; on a CPU as a convolution by one pixel.

    PyTorch gives oneDNN the convolutions, but the products of float32 matrices to another library,
    which needs up to twice the time on AMD's processors.
    """
    fast = FAST_CONVOLUTION and x.is_cpu and x.dtype == kernel.dtype == torch.float32
    if compiling() or not fast or not x.numel():
        return dense_by_keras(x, kernel, bias)
    pixels = x.reshape(1, -1, 1, x.shape[-1]).permute(0, 3, 1, 2)
    product = torch.nn.functional.conv2d(pixels, kernel.t()[:, :, None, None], bias)
    return product.permute(0, 2, 3, 1).reshape(*x.shape[:-1], -1)
