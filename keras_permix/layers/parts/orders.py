"""Directions in which channels are sorted, by name."""

from keras_permix.ops import interleave_order

ORDERS = ("ascend", "descend", "interleave", "interleave_haar")


def order_to_descending(order, channels, *, layer_index, num_layers, head_dim=None):
    """Whether to sort descending: one bool, or a bool array `(channels,)`.

    Args:
        order: One of `ORDERS`.
        channels, layer, layers, head_dim: See `keras_permix.ops.interleave_order`.
    """
    if order.startswith("interleave"):
        return interleave_order(
            order, channels, layer_index=layer_index, num_layers=num_layers, head_dim=head_dim
        )
    return order == "descend"
