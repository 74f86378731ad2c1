"""Check arguments of the ops. Public functions call these checks once."""

from keras import KerasTensor, ops
from keras.backend import is_float_dtype

from keras_permix.ops.backend import running
from keras_permix.utils.checks import check_integer, fits


def is_empty(x):
    """Return whether a tensor has an axis of size 0; symbolic sizes of exporters are not 0."""
    return any(size == 0 for size in x.shape if isinstance(size, int))


def as_tensor(x):
    """Return `x` as a tensor. Symbolic tensors are unchanged; Keras would add a node to convert."""
    return x if isinstance(x, KerasTensor) else ops.convert_to_tensor(x)


def require(x, holds, message, size):
    """Return `x` if `holds`. TensorFlow checks a tensor when the traced function runs."""
    if ops.is_tensor(holds):
        return running.module("runtime").require(x, holds, message, size)
    if not holds:
        raise ValueError(f"{message}{size}")
    return x


def check_floating(x, name="x"):
    """Check that `x` is floating."""
    if not is_float_dtype(x.dtype):
        raise ValueError(f"`{name}` must be floating. Received: {name}.dtype={x.dtype}")


def check_axes(x, name, axes):
    """Return `x` as a tensor, if it has these axes and the size of the last is known."""
    x = as_tensor(x)
    if len(x.shape) != len(axes) or x.shape[-1] is None:
        rule = f"`{name}` must have the shape ({', '.join(axes)}) with known {axes[-1]}."
        raise ValueError(f"{rule} Received: {name}.shape={tuple(x.shape)}")
    return x


def check_tokens(x):
    """Return `x` as a tensor of shape (batch, tokens, channels)."""
    return check_axes(x, "x", ("batch", "tokens", "channels"))


def check_mask(mask, x, of="x"):
    """Return `mask` as booleans (batch, tokens) for `x`, which errors call `of`."""
    if mask is None:
        return None
    mask = as_tensor(mask)
    if not fits(tuple(mask.shape), tuple(x.shape[:2])):
        rule = f"`mask` must have the shape (batch, tokens) of `{of}`."
        shapes = f"mask.shape={tuple(mask.shape)}, {of}.shape={tuple(x.shape)}"
        raise ValueError(f"{rule} Received: {shapes}")
    return mask if isinstance(mask, KerasTensor) else ops.cast(mask, "bool")


def check_groups(x, group_size, ragged):
    """Return `x` and `group_size` if groups fill the tokens of `x`, or `ragged` is set."""
    if group_size is None:
        return x, x.shape[1]
    group_size = check_integer("group_size", group_size)
    if ragged and isinstance(x.shape[1], int):  # A larger group would be padded.
        return x, min(group_size, max(x.shape[1], 1))
    if ragged or isinstance(x, KerasTensor) and x.shape[1] is None:
        return x, group_size
    tokens = ops.shape(x)[1]
    rule = "`group_size` must divide the number of tokens unless `ragged=True`."
    received = f"{rule} Received: group_size={group_size}, tokens="
    return require(x, tokens % group_size == 0, received, tokens), group_size
