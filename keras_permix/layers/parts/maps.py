"""Maps (batch, rows, columns, channels), which mixers take as tokens in rows."""

from math import prod

from keras import ops

from keras_permix.layers.parts.masks import of_each_sample


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
    mask = of_each_sample(mask, inputs)
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
