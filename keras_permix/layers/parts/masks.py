"""What masks of attention mean to a softmax: one rule for all attentions."""

from keras import ops


def visible_keys(allowed, among=None):
    """Which keys queries attend to: those they may, or all keys where there is none of these.

    A query that may attend to nothing attends as if nothing were masked. So its values and its
    gradient are finite and belong together, also where a backend would add a large negative number
    to all of its scores alike.

    Args:
        allowed: Booleans whose last axis is that of the keys, True where a query may attend.
        among: Booleans like `allowed`, True at the keys that there are for a query without a mask,
            such as those before it; `None`: at all.

    Returns:
        Booleans like `allowed`, of which every row has one that is True.
    """
    blind = ops.logical_not(ops.any(allowed, axis=-1, keepdims=True))
    return ops.logical_or(allowed, blind if among is None else ops.logical_and(blind, among))


def ordinary_padding(x, mask):
    """Put zeros in place of padding that is NaN, infinite or above 1000.

    Such values would reach real tokens and gradients: 0 times NaN is NaN. Others stay as they are.

    Args:
        x: A tensor `(batch, tokens, channels)`.
        mask: Booleans `(batch, tokens)`, True at real tokens, or `None`.
    """
    if mask is None:
        return x
    kept = ops.logical_or(ops.cast(mask, "bool")[..., None], ops.abs(x) < 1000)
    return ops.where(kept, x, ops.zeros_like(x))


def of_each_sample(mask, inputs):
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
