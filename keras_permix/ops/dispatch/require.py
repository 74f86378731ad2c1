"""Rules about sizes that are not known before a compiled function runs."""

from keras import ops

from keras_permix.ops.backend import running


def is_empty(x):
    """Whether a tensor is known to have no values; a size that an exporter leaves free has some."""
    return any(size == 0 for size in x.shape if isinstance(size, int))


def require(x, holds, message, size):
    """Return `x`, tokens or a map, where a rule holds; raise where it does not.

    The rule is checked at once where `holds` is a boolean. Where it is a tensor, since TensorFlow
    traces for any number of tokens, it is checked whenever the traced function runs.

    Args:
        x: Tensor of shape (batch, tokens, channels) or (batch, rows, columns, channels).
        holds: A boolean, or a boolean tensor without axes.
        message: The rule, and what was received but for `size`, which is put behind it.
        size: What was received, an integer or an integer tensor without axes.

    Returns:
        `x`; whatever is computed of it fails where the rule does not hold.

    Raises:
        ValueError: where `holds` is False.
    """
    if ops.is_tensor(holds):
        return running.module("require").require(x, holds, message, size)
    if not holds:
        raise ValueError(f"{message}{size}")
    return x
