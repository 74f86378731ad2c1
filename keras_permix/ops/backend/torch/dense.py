"""Products with a matrix of weights on a CPU, as convolutions by one pixel.

PyTorch gives oneDNN the convolutions, but the products of float32 matrices to another library,
which needs up to twice the time on AMD's processors.
"""

import torch

from keras_permix.ops.reference.dense import dense as dense_by_keras

# Asked once: PyTorch's compiler would stop at the question.
ONEDNN = torch.backends.mkldnn.is_available()


def without_onednn(call):
    """What speaks against it where PyTorch was built without oneDNN."""
    return None if ONEDNN else "it needs oneDNN"


def dense(x, kernel, bias, mask):
    """`x @ kernel + bias`; as Keras has it for a compiler, and where it promotes types."""
    if torch.compiler.is_compiling() or kernel.dtype != x.dtype:
        return dense_by_keras(x, kernel, bias, mask)
    pixels = x.reshape(1, -1, 1, x.shape[-1]).permute(0, 3, 1, 2)
    product = torch.nn.functional.conv2d(pixels, kernel.t()[:, :, None, None], bias)
    return product.permute(0, 2, 3, 1).reshape(*x.shape[:-1], -1)
