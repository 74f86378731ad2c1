"""Turn scores into doubly stochastic matrices."""

from numbers import Real

from keras import backend

from keras_permix._typing import Tensor
from keras_permix.ops.dispatch.checks import as_tensor
from keras_permix.ops.dispatch.dispatch import dispatch, op
from keras_permix.ops.reference import linear
from keras_permix.utils.checks import check_integer, check_positive


@op
def sinkhorn(
    scores: Tensor,
    iterations: int = 20,
    temperature: float | Tensor = 1.0,
    *,
    implementation: str | None = None,
) -> Tensor:
    """Turn square scores into nearly doubly stochastic matrices.

    `exp(scores / temperature)` is divided by its row sums, then by its column sums, `iterations`
    times. This is computed in the logarithmic domain, in at least float32. Columns then sum to 1,
    and rows approximately. With a lower temperature, the result approaches the permutation with the
    greatest sum of scores and requires more iterations. The gradient stores the result of every
    iteration. Scores of minus infinity result in 0 if every row and column has a finite score.

    Args:
        scores: Floating tensor of shape (..., tokens, tokens).
        iterations: Number of normalizations of rows and columns.
        temperature: A positive number, or a scalar tensor.
        implementation: A name that `explain` lists. None selects the first that supports the call.

    Returns:
        A tensor like `scores`.

    Raises:
        ValueError: for scores that are not square, `iterations` below 1, or a `temperature` that is
            not positive.

    Example:
        >>> import keras
        >>> from keras_permix.ops import sinkhorn
        >>> scores = keras.ops.convert_to_tensor([[1.0, 2.0], [2.0, 4.0]])
        >>> keras.ops.convert_to_numpy(sinkhorn(scores, 50, 0.1)).round(1).tolist()
        [[1.0, 0.0], [0.0, 1.0]]

    Reference: Yuan & Xu, "Channel-wise Sample Permutation", 2024, arXiv:2410.10914, equation (8).
    """
    scores = as_tensor(scores)
    shape = tuple(scores.shape)
    if len(shape) < 2 or shape[-1] != shape[-2] or not backend.is_float_dtype(scores.dtype):
        received = f"scores.shape={shape}, scores.dtype={scores.dtype}"
        raise ValueError(f"`scores` must be floats (..., tokens, tokens). Received: {received}")
    return dispatch(
        "sinkhorn",
        linear.sinkhorn,
        scores,
        implementation=implementation,
        iterations=check_integer("iterations", iterations),
        temperature=check_temperature(temperature),
    )


def check_temperature(temperature):
    """Return `temperature` if it is a tensor, or a positive number."""
    if hasattr(temperature, "dtype") and not isinstance(temperature, Real):
        return temperature
    return check_positive("temperature", temperature)
