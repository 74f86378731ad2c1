"""Check arguments of the ops. Public functions call these checks once."""

from typing import Any

from keras import KerasTensor, ops
from keras.backend import is_float_dtype, standardize_dtype

from keras_permix.ops.backend import running
from keras_permix.utils.checks import check_integer, fits


def is_empty(x):
    """Return whether a tensor has an axis of size 0; symbolic sizes of exporters are not 0."""
    return any(size == 0 for size in x.shape if isinstance(size, int))


def as_tensor(x):
    """Return `x` as a tensor. Symbolic tensors are unchanged; Keras would add a node to convert."""
    return x if isinstance(x, KerasTensor) else ops.convert_to_tensor(x)


def require(x, holds, message, size):
    """Return `x` if `holds`; otherwise raise a `ValueError` with the message and the size.

    If `holds` is a tensor, because TensorFlow traces for any number of tokens, it is checked
    whenever the traced function computes with the result.
    """
    if ops.is_tensor(holds):
        return running.module("runtime").require(x, holds, message, size)
    if not holds:
        raise ValueError(f"{message}{size}")
    return x


def check_floating(x):
    """Check that `x` is floating."""
    if not is_float_dtype(x.dtype):
        raise ValueError(f"`x` must be floating. Received: x.dtype={x.dtype}")


def check_axes(x, name, axes):
    """Return `x` as a tensor, if it has these axes and the size of the last is known."""
    x = as_tensor(x)
    if len(x.shape) != len(axes) or x.shape[-1] is None:
        raise ValueError(
            f"`{name}` must have the shape ({', '.join(axes)}) with known {axes[-1]}. "
            f"Received: {name}.shape={tuple(x.shape)}"
        )
    return x


def check_tokens(x):
    """Return `x` as a tensor of shape (batch, tokens, channels)."""
    return check_axes(x, "x", ("batch", "tokens", "channels"))


def check_sortable(x):
    """Return `x` as a floating or integer tensor of shape (batch, tokens, channels)."""
    x = check_tokens(x)
    dtype = standardize_dtype(x.dtype)
    if not is_float_dtype(dtype) and "int" not in dtype:
        raise ValueError(f"`x` must be floating or integer. Received: x.dtype={dtype}")
    return x


def check_mask(mask, x, of="x"):
    """Return `mask` as booleans (batch, tokens) for `x`, which errors call `of`."""
    if mask is None:
        return None
    mask = as_tensor(mask)
    if not fits(tuple(mask.shape), tuple(x.shape[:2])):
        raise ValueError(
            f"`mask` must have the shape (batch, tokens) of `{of}`. "
            f"Received: mask.shape={tuple(mask.shape)}, {of}.shape={tuple(x.shape)}"
        )
    return mask if isinstance(mask, KerasTensor) else ops.cast(mask, "bool")


def check_groups(x, group_size, ragged):
    """Return `x` and `group_size` if groups fill the tokens of `x`, or `ragged` is set.

    An unknown number of tokens is checked when the compiled function runs.
    """
    if group_size is None:
        return x, x.shape[1]
    group_size = check_integer("group_size", group_size)
    if ragged or isinstance(x, KerasTensor) and x.shape[1] is None:
        return x, group_size
    tokens = ops.shape(x)[1]
    rule = (
        "`group_size` must divide the number of tokens; `ragged=True` allows a shorter last group. "
        f"Received: group_size={group_size}, tokens="
    )
    return require(x, tokens % group_size == 0, rule, tokens), group_size


def check_ema(x, *, omega, **parameters):
    """Return the parameters of an average of `x` as tensors, `omega` last."""
    check_floating(x)
    channels, tensors = x.shape[2], [ops.convert_to_tensor(p) for p in parameters.values()]
    rows = tuple(tensors[0].shape)
    for name, tensor in zip(parameters, tensors, strict=True):
        shape = tuple(tensor.shape)
        if len(shape) != 2 or shape[0] not in (channels, 2 * channels) or shape != rows:
            raise ValueError(
                f"`{name}` must have the shape (channels, dim) or (2 * channels, dim), the same "
                f"as `delta`. Received: {name}.shape={shape}, delta.shape={rows}, "
                f"channels={channels}"
            )
    omega = ops.convert_to_tensor(omega)
    if tuple(omega.shape) != (channels,):
        raise ValueError(
            "`omega` must have the shape (channels,). "
            f"Received: omega.shape={tuple(omega.shape)}, channels={channels}"
        )
    return *tensors, omega


def check_descending(descending: Any, channels: int) -> tuple[bool, ...]:
    """Return `descending` as a tuple of Python booleans, one per channel."""
    given = descending.tolist() if hasattr(descending, "tolist") else descending
    if isinstance(given, (list, tuple)):
        given = tuple(d.item() if hasattr(d, "item") else d for d in given)
    else:
        given = (given,) * channels
    if len(given) != channels or not all(isinstance(d, bool) for d in given):
        raise ValueError(
            "`descending` must be a boolean, or one boolean per channel. "
            f"Received: descending={descending!r}, channels={channels}"
        )
    return given
