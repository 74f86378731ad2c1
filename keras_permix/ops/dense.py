"""Multiply channels by a matrix and add a bias."""

from keras import KerasTensor, ops

from keras_permix._typing import Tensor
from keras_permix.ops.dispatch.dispatch import dispatch, op
from keras_permix.ops.reference.linear import dense as dense_reference


@op
def dense(
    x: Tensor, kernel: Tensor, bias: Tensor | None = None, *, implementation: str | None = None
) -> Tensor:
    """Multiply the channels of `x` by a matrix, and add a bias.

    Args:
        x: Tensor of shape (..., channels).
        kernel: Tensor of shape (channels, units), of the dtype of `x`.
        bias: Tensor of shape (units,), or None.
        implementation: Name of an implementation, as printed by `explain`. None selects the first
            that supports the call.

    Returns:
        A tensor of shape (..., units), like `x`.

    Raises:
        ValueError: for shapes that do not match, or an implementation that does not support the
            call.

    Example:

    >>> x, kernel = keras.ops.array([[1.0, 2.0]]), keras.ops.array([[3.0], [4.0]])
    >>> keras.ops.convert_to_numpy(dense(x, kernel, keras.ops.array([5.0]))).tolist()
    [[16.0]]
    """
    x, kernel, bias = (
        t if t is None or isinstance(t, KerasTensor) else ops.convert_to_tensor(t)
        for t in (x, kernel, bias)
    )
    shapes = tuple(x.shape), tuple(kernel.shape), None if bias is None else tuple(bias.shape)
    _check_shapes(*shapes)
    return dispatch(
        "dense",
        dense_reference,
        x,
        kernel,
        bias,
        shape=(*shapes[0][:-1], shapes[1][1]),
        implementation=implementation,
    )


def _check_shapes(x, kernel, bias):
    fits = len(x) >= 2 and len(kernel) == 2 and x[-1] in (None, kernel[0])
    if not fits or bias not in (None, kernel[1:]):
        raise ValueError(
            "`x`, `kernel` and `bias` must have the shapes (..., channels), (channels, units) and "
            f"(units,). Received: x.shape={x}, kernel.shape={kernel}, "
            f"bias.shape={bias}"
        )
