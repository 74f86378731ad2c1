"""Run a function or a layer as in a training step, compiled if the backend compiles."""

from collections.abc import Callable
from typing import Any

import keras

from keras_permix._typing import Tensor
from keras_permix.ops.backend import running


def runners(
    function: Callable[[Tensor], Tensor], x: Tensor
) -> tuple[Callable[[], list[Tensor]], Callable[[], list[Tensor]]]:
    """Make two functions to time with `seconds`.

    Args:
        function: Function of one tensor, or a built layer.
        x: Tensor, the argument of `function`.

    Returns:
        `(forward, forward_and_backward)`, functions without arguments. The first returns the result
        in a list. The second adds the gradients of its sum with respect to `x` and the weights of
        the layer, so that the compiler cannot remove them.
    """
    weights = [weight.value for weight in getattr(function, "trainable_variables", [])]
    return running.module("runners").make(function, keras.ops.convert_to_tensor(x), weights)


def seconds(call: Callable[[], Any]) -> float:
    """Return the time of a call in seconds, by GPU events on PyTorch, else by wall time."""
    return running.module("device").seconds(call)
