"""What attention in chunks still sees of a sequence that comes in pieces: a cache of fixed size.

A token at place `p` of the sequence lies in slot `p % size`, and stays there until the token comes
that is `size` places later. So every slot that a token of the present chunk does not hold is of the
chunk before, or empty, and no query sees it.
"""

from keras import ops


def key_places(position, size, new):
    """Places of the tokens in `size` slots, below 0 where there is none, and of `new` that follow.

    Args:
        position: How many tokens came before, an integer or an integer tensor.
        size: Slots, the tokens of a chunk.
        new: Tokens that come now, at most `size`.

    Returns:
        An int32 tensor of shape (size + new,).
    """
    position = ops.convert_to_tensor(position, "int32")
    follow = position + ops.arange(new, dtype="int32")
    return ops.concatenate([_held(position, size), follow])


def seen_keys(places, new):
    """Which keys the last `new` of the tokens at `places` see, themselves included.

    Returns:
        Booleans (new, tokens): those of the same chunk that are not later.
    """
    size = places.shape[0] - new
    queries = places[size:, None]
    return ops.logical_and(places <= queries, places // size == queries // size)


def renewed(cached, following, places):
    """The cache after the tokens that follow.

    Args:
        cached, following: Tensors of shape (batch, size or new, channels).
        places: `key_places` of both.

    Returns:
        A tensor like `cached`.
    """
    size, new = cached.shape[1], following.shape[1]
    first = places[size]
    held = _held(first + new, size)
    slots = ops.arange(size, dtype="int32")
    index = ops.where(held < first, slots, size + held - first)
    return ops.take(ops.concatenate([cached, following], axis=1), index, axis=1)


def _held(position, size):
    """Places of the tokens that the slots hold after `position` tokens."""
    latest = position - 1
    return latest - (latest - ops.arange(size, dtype="int32")) % size
