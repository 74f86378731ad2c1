"""Shapes and masks of tokens and of maps, `(batch, rows, columns, channels)`."""

from math import prod

from keras import ops


def check_tokens(layer, shape):
    """Return `shape` if it is (batch, tokens, channels) with known channels."""
    if len(shape) != 3 or shape[-1] is None:
        raise ValueError(
            f"{layer} takes tokens of shape (batch, tokens, channels) with known channels. "
            f"Received: input_shape={tuple(shape)}"
        )
    return tuple(shape)


def check_blocks(block_size, input_shape, axis=-1):
    """Check that blocks fill an axis of the input, whose size may be unknown unless it is last."""
    size = input_shape[axis]
    if size is None and input_shape[axis:][1:]:
        return
    if not size or size % block_size:
        raise ValueError(
            f"`block_size` must divide the size of axis {axis} of the input, 1 or more. "
            f"Received: block_size={block_size}, input_shape={tuple(input_shape)}"
        )


def visible_keys(allowed, among=None):
    """Return the keys that queries attend to: the allowed ones, or all if no key is allowed.

    A query without allowed keys attends as if nothing were masked. Its values and gradient then are
    finite and consistent, also on backends that add a large negative number to all of its scores.

    Args:
        allowed: Booleans whose last axis is that of the keys, True where a query may attend.
        among: Booleans like `allowed`, True at the keys that there are for a query without a mask,
            such as those before it; `None`: at all.

    Returns:
        Booleans like `allowed`, of which every row has one that is True.
    """
    blind = ops.logical_not(ops.any(allowed, axis=-1, keepdims=True))
    return ops.logical_or(allowed, blind if among is None else ops.logical_and(blind, among))


def clean_padding(x, mask):
    """Put zeros in place of padding that is NaN, infinite or above 1000.

    Such values would reach real tokens and gradients: 0 times NaN is NaN. Others stay as they are.

    Args:
        x: A tensor `(batch, tokens, channels)`.
        mask: Booleans `(batch, tokens)`, True at real tokens, or `None`.
    """
    if mask is None:
        return x
    keep = ops.logical_or(ops.cast(mask, "bool")[..., None], ops.abs(x) < 1000)
    return ops.where(keep, x, ops.zeros_like(x))


def broadcast_mask(mask, inputs):
    """A mask of one sample, which stands for all, as that of every sample; another as it is."""
    if mask is None:
        return None
    mask = ops.convert_to_tensor(mask)
    if mask.shape[0] != 1:
        return mask
    return ops.broadcast_to(mask, (ops.shape(inputs)[0], *ops.shape(mask)[1:]))


def with_first(mask):
    """The mask `(batch, 1 + tokens)` of tokens that follow one that is real, as a class token is.

    It takes no slice: JAX 0.8 cannot rematerialize one in the graph of a Keras model.
    """
    return ops.concatenate([ops.ones_like(ops.any(mask, axis=1, keepdims=True)), mask], axis=1)


def masked_softmax(scores, allowed=None):
    """The softmax of scores over the `visible_keys` of booleans that broadcast to them."""
    if allowed is not None:
        nothing = ops.cast(-float("inf"), scores.dtype)  # which no dtype rounds
        scores = ops.where(visible_keys(allowed), scores, nothing)
    return ops.softmax(scores)


def tokens_shape(layer, shape):
    """The shape (batch, tokens, channels) of tokens or of a map; unknown sizes are None.

    Raises:
        ValueError: for another number of axes, or unknown channels.
    """
    if len(shape) not in (3, 4) or shape[-1] is None:
        raise ValueError(
            f"{layer} takes tokens of shape (batch, tokens, channels), or maps of shape "
            "(batch, rows, columns, channels), with known channels. "
            f"Received: input_shape={tuple(shape)}"
        )
    sides = shape[1:-1]
    return (shape[0], None if None in sides else prod(sides), shape[-1])


def flatten_map(inputs, mask=None):
    """Tokens as they are, those of a map with its rows after each other; and a mask of each."""
    mask = broadcast_mask(mask, inputs)
    if len(inputs.shape) == 3:
        return inputs, mask
    batch, rows, columns, channels = ops.shape(inputs)
    tokens = rows * columns if isinstance(rows, int) and isinstance(columns, int) else -1
    mask = mask if mask is None else ops.reshape(mask, (batch, tokens))
    return ops.reshape(inputs, (batch, tokens, channels)), mask


def unflatten_map(tokens, inputs):
    """Tokens in the shape that `inputs` had before `flatten_map`, with their own channels."""
    if len(inputs.shape) == 3:
        return tokens
    return ops.reshape(tokens, (*ops.shape(inputs)[:3], tokens.shape[-1]))
