"""Processes that train in step, one device each, where Keras has no part for it.

Gradients and metrics are summed over all processes, in one message a step, between Keras' backward
pass and its optimizer.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import keras

from keras_permix._typing import Model, Tensor
from keras_permix.training.distribute.distribution import Distribution


class Processes(Distribution):
    """Each process has the whole model and its part of each batch.

    Args:
        index: Number of this process, from 0.
        count: Number of processes.
    """

    fuses_steps = False

    def __init__(self, index: int, count: int) -> None:
        self.index, self.count = index, count
        self.devices = count
        self.stream = (index,) if index else ()

    def add_up(self, vector: Tensor, divisor: int = 1) -> Tensor:
        """The sum of a vector over all processes, each of which calls this, divided.

        What `vector` holds is lost.
        """
        raise NotImplementedError

    def share(self, variables: Sequence[Any]) -> None:
        """Give variables the values that they have in the chief, to the bit."""
        raise NotImplementedError

    def prepare(self, model: Model) -> None:
        self.refuse_batch_norms(model)
        self.share([*model.variables, *model.optimizer.variables])
        apply, results = model.optimizer.apply, model.get_metrics_result

        def apply_mean(gradients, trainable_variables=None):
            variables = trainable_variables or model.trainable_variables
            return apply(self._sums(gradients, variables, self.count), trainable_variables)

        def results_of_all():
            variables = model.metrics_variables
            own = [keras.ops.copy(variable.value) for variable in variables]
            _assign(variables, self._sums(own, variables))
            summed = keras.tree.map_structure(keras.ops.copy, results())
            _assign(variables, own)
            return summed

        model.optimizer.apply, model.get_metrics_result = apply_mean, results_of_all

    def _sums(self, tensors: Sequence[Any], like: Sequence[Any], divisor: int = 1) -> list[Any]:
        """The sums of tensors over all processes, divided; they have the shapes of `like`.

        `None` stays. Gradients that are sparse on TensorFlow become dense.
        """
        sums = list(tensors)
        dtypes: dict[str, list[int]] = {}
        for place, tensor in enumerate(tensors):
            if tensor is not None:
                dtypes.setdefault(keras.backend.standardize_dtype(tensor.dtype), []).append(place)
        for places in dtypes.values():
            sizes = [prod(like[place].shape) for place in places]
            rows = [keras.ops.convert_to_tensor(tensors[place]) for place in places]
            rows = [keras.ops.reshape(x, (size,)) for x, size in zip(rows, sizes, strict=True)]
            total, start = self.add_up(keras.ops.concatenate(rows), divisor), 0
            for place, size in zip(places, sizes, strict=True):
                sums[place] = keras.ops.reshape(total[start : start + size], like[place].shape)
                start += size
        return sums


def _assign(variables, values):
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
