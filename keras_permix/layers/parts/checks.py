"""Checks of constructor arguments and input shapes that layers share."""


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
