"""Multiply channels by a matrix and add a bias."""

from keras_permix._typing import Tensor
from keras_permix.ops.dispatch.checks import as_tensor
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
        implementation: A name that `explain` lists. None selects the first that supports the call.

    Returns:
        A tensor of shape (..., units), like `x`.

    Raises:
        ValueError: for shapes that do not match, or an implementation that does not support the
            call.

    Example:
        >>> import keras
        >>> from keras_permix.ops import dense
        >>> x, kernel = keras.ops.array([[1.0, 2.0]]), keras.ops.array([[3.0], [4.0]])
        >>> keras.ops.convert_to_numpy(dense(x, kernel, keras.ops.array([5.0]))).tolist()
        [[16.0]]
    """
    x, kernel = as_tensor(x), as_tensor(kernel)
    bias = None if bias is None else as_tensor(bias)
    shapes = [tuple(tensor.shape) for tensor in (x, kernel, bias) if tensor is not None]
    fits = len(shapes[1]) == 2 and shapes[0][-1] in (None, shapes[1][0])
    if not fits or bias is not None and shapes[2] != shapes[1][1:]:
        raise ValueError(f"`x`, `kernel` and `bias` must fit. Received: {shapes=}")
    return dispatch(
        "dense",
        dense_reference,
        x,
        kernel,
        bias,
        shape=(*x.shape[:-1], kernel.shape[-1]),
        implementation=implementation,
    )
