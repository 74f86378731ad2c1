"""Run a function or a layer as a training step would: compiled where the backend compiles."""

from collections.abc import Callable
from typing import Any

import keras

from keras_permix._typing import Tensor
from keras_permix.ops.backend import running


def runners(
    function: Callable[[Tensor], Tensor], x: Tensor
) -> tuple[Callable[[], list[Tensor]], Callable[[], list[Tensor]]]:
    """Make two calls to time with `seconds`, which waits until the results are there.

    Args:
        function: A function of one tensor, or a built layer.
        x: What it is called with.

    Returns:
        `(forward, forward_and_backward)`; both take nothing. The first returns a list of the
        result, the second one of the result and the gradients of its sum, for `x` and then for
        the weights of a layer: all, since a compiler leaves out what nobody asks for.
    """
    weights = [weight.value for weight in getattr(function, "trainable_variables", [])]
    return running.module("runtime").make_runners(function, keras.ops.convert_to_tensor(x), weights)


def seconds(call: Callable[[], Any]) -> float:
    """Return the time of a call in seconds, by GPU events on PyTorch, else by wall time."""
    return running.module("runtime").seconds(call)
