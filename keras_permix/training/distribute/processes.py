"""Train in several processes with one device each, on backends that Keras does not distribute."""

from collections.abc import Sequence
from math import prod
from typing import Any

import keras

from keras_permix._typing import Model, Tensor
from keras_permix.training.distribute.distribution import Distribution


class Processes(Distribution):
    """Run on processes that each hold the whole model and compute a part of each batch.

    Gradients are summed over all processes in one message per step and dtype, before the optimizer
    applies them; metrics are summed when they are read.

    Args:
        index: Index of this process, from 0.
        count: Number of processes.
    """

    fuses_steps = False

    def __init__(self, index: int, count: int) -> None:
        self.index, self.count = index, count
        self.devices = count
        self.stream = (index,) if index else ()

    def add_up(self, vector: Tensor, divisor: int = 1) -> Tensor:
        """Return the sum of a vector over all processes, divided by `divisor`.

        All processes must call it. The content of `vector` is overwritten.
        """
        raise NotImplementedError

    def share(self, variables: Sequence[Any]) -> None:
        """Assign the values of the first process to variables, in all processes."""
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
        """Return the sums of tensors over all processes, divided, in the shapes of `like`.

        `None` is kept. Sparse gradients on TensorFlow become dense.
        """
        sums = list(tensors)
        dtypes: dict[str, list[int]] = {}
        for index, tensor in enumerate(tensors):
            if tensor is not None:
                dtypes.setdefault(keras.backend.standardize_dtype(tensor.dtype), []).append(index)
        for indices in dtypes.values():
            sizes = [prod(like[index].shape) for index in indices]
            rows = [keras.ops.convert_to_tensor(tensors[index]) for index in indices]
            rows = [keras.ops.reshape(x, (size,)) for x, size in zip(rows, sizes, strict=True)]
            total, start = self.add_up(keras.ops.concatenate(rows), divisor), 0
            for index, size in zip(indices, sizes, strict=True):
                sums[index] = keras.ops.reshape(total[start : start + size], like[index].shape)
                start += size
        return sums


def _assign(variables, values):
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
