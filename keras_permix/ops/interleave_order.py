"""Choose the channels that a Sliceformer layer sorts in descending order."""

import numpy as np

from keras_permix.utils.checks import check_choice, check_integer, check_layer_index

KINDS = ("interleave", "interleave_haar")


def interleave_order(
    kind: str, channels: int, *, layer_index: int, num_layers: int, head_dim: int | None = None
) -> np.ndarray:
    """Compute the sorting order of every channel of a layer.

    `"interleave"` is the paper's rule over all channels. Channel i (from 1) of layer n (from 1) is
    ascending if `sin(2 ** (num_layers - n) * pi * i / channels) >= 0`, evaluated in integers.
    `"interleave_haar"` is the released code's rule, per head: runs of
    `head_dim // 2 ** layer_index` channels alternate, starting with an ascending run. The first
    layer is all ascending.

    Args:
        kind: `"interleave"` or `"interleave_haar"`.
        channels: Number of channels that are sorted.
        layer_index: Index of the layer, from 0.
        num_layers: Number of layers.
        head_dim: Channels per head, for `"interleave_haar"`; all channels by default.

    Returns:
        A boolean NumPy array of shape (channels,), True for descending channels. Pass it to
        `slice_sort` as `descending`.

    Raises:
        ValueError: for an unknown kind, a layer outside the model, or heads that do not fill
            the channels.

    Example:
        >>> from keras_permix.ops import interleave_order
        >>> interleave_order("interleave_haar", 4, layer_index=1, num_layers=2).tolist()
        [False, False, True, True]

    Reference: Yuan & Xu, "Sliceformer", 2023, arXiv:2310.17683, equations (5) and (6), and its
    released code.
    """
    check_choice("kind", kind, KINDS)
    check_layer_index(layer_index, num_layers)
    channels = check_integer("channels", channels)
    head_dim = channels if head_dim is None else check_integer("head_dim", head_dim)
    if channels % head_dim:
        raise ValueError(f"`head_dim` must divide `channels`. Received: {head_dim=}, {channels=}")
    if kind == "interleave":
        frequency = 2 ** (num_layers - 1 - layer_index)
        angles = [frequency * i % (2 * channels) for i in range(1, channels + 1)]
        return np.array([angle > channels for angle in angles])
    return np.tile(_haar_descending(head_dim, 2**layer_index), channels // head_dim)


def _haar_descending(channels, runs):
    interval = max(1, channels // runs)
    pairs = channels // (2 * interval)
    channel = np.arange(channels)
    descending = (channel // interval % 2 == 1) & (channel < 2 * pairs * interval)
    if pairs:
        # In the released code, the rest after the last pair begins one channel early.
        descending |= channel >= (2 * pairs + 1) * interval - 1
    return descending
