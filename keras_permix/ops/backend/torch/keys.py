"""Values as integers: those of the same bits, and those of the same order."""

import torch

BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes
KEYS = {torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}
WIDER = {torch.int16: torch.int32, torch.int32: torch.int64}


def to_bits(x):
    """The same memory as integers, which NumPy has for every dtype."""
    return x.detach().view(BITS[x.element_size()])


def to_key(x):
    """Signed integers in the order of the values, of 16 or 32 bits."""
    if x.dtype in KEYS:
        return _mirror_negatives(x.contiguous().view(KEYS[x.dtype]))
    return x.to(torch.int16) if x.element_size() == 1 else x


def from_key(key, dtype):
    return _mirror_negatives(key).view(dtype) if dtype in KEYS else key.to(dtype)


def _mirror_negatives(bits):
    """Negative floats ascend as their integers descend; the mapping is its own inverse."""
    sign = bits >> (8 * bits.element_size() - 1)
    return sign.bitwise_and_(torch.iinfo(bits.dtype).max).bitwise_xor_(bits)


def small_integer(size):
    """The smallest type that counts to `size`."""
    types = (torch.uint8, torch.int16, torch.int32)
    return next(dtype for dtype in types if size - 1 <= torch.iinfo(dtype).max)
