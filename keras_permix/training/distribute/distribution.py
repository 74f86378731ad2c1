"""Define how devices and processes share a run."""

import contextlib
import json
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import keras

from keras_permix._typing import Model, Tensor
from keras_permix.ops.backend import running

LOST = (
    "Another process of this run has ended or cannot be reached; see its last message. Start all "
    "processes again to resume the run from its last checkpoint."
)


class Distribution:
    """Run on one device of one process; base class of all distributions.

    Attributes:
        index: Index of this process, from 0.
        count: Number of processes.
        devices: Number of devices.
        fuses_steps: Whether `steps_per_execution` may exceed 1, except on PyTorch.
        stream: Integers that separate the random numbers of this process from those of others.

    Example:
        >>> from keras_permix.training.distribute import Distribution
        >>> single = Distribution()
        >>> single.is_chief, single.shard, single.from_chief(max, [3, 5])
        (True, (0, 1), 5)
    """

    index = 0
    count = 1
    devices = 1
    fuses_steps = True
    stream: tuple[int, ...] = ()

    @property
    def is_chief(self) -> bool:
        """Return whether this process writes files and prints."""
        return self.index == 0

    @property
    def parts(self) -> int:
        """Return the number of parts that a batch is divided into."""
        return self.devices

    @property
    def shard(self) -> tuple[int, int]:
        """Return `(index, count)` for `Pipeline.shard`."""
        return self.index, self.count

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which to make, compile and train models."""
        return contextlib.nullcontext()

    def prepare(self, model: Model) -> None:
        """Make the optimizer of a compiled model use the gradients of all devices."""

    def sum_metrics(self, model: Model) -> None:
        """Sum the variables of a model's metrics over all processes."""

    def draw_apart(self, model: Model) -> None:
        """Separate the random numbers of this process's devices at the beginning of an epoch."""

    def broadcast(self, content: bytes) -> bytes:
        """Return the bytes of the first process, in all processes."""
        return content

    def wait(self) -> None:
        """Wait for all processes."""

    def lost(self, error: Exception) -> bool:
        """Return whether an error means that another process has ended."""
        return False

    def close(self) -> None:
        """Release the resources of the distribution."""

    def from_chief(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the first process, and return its result in all processes.

        The result must be JSON-serializable.

        Raises:
            Exception: the exception of the function, in the first process.
            ConnectionError: with the same message, in the others.
        """
        if self.count == 1:
            return function(*arguments)
        answer: dict[str, Any] = {}
        if self.is_chief:
            try:
                answer = {"value": function(*arguments)}
            except Exception as error:
                self.broadcast(json.dumps({"error": str(error)}).encode())
                raise
        answer = json.loads(self.broadcast(json.dumps(answer).encode()))
        if "error" in answer:
            raise ConnectionError(f"The first process of the run has stopped. {answer['error']}")
        return answer["value"]

    def refuse_batch_norms(self, model: Model) -> None:
        """Raise a `ValueError` for a model with `BatchNormalization` on several devices."""
        kind = keras.layers.BatchNormalization
        found = [layer.path for layer in model._flatten_layers() if isinstance(layer, kind)]
        if found and self.devices > 1:  # Each device would normalize by its part of a batch.
            rule = "`distribute` must be None for BatchNormalization, except on JAX"
            raise ValueError(f"{rule}. Received: {found[:3]}")

    def check(self, batch_size: int, steps_per_execution: int) -> None:
        """Raise a `ValueError` unless devices share batches evenly, and fuse steps if asked to."""
        if batch_size % self.parts:
            rule = f"`batch_size` must be a multiple of the {self.parts} devices"
            raise ValueError(f"{rule}. Received: {batch_size=}")
        if steps_per_execution > 1 and not (self.fuses_steps and running.fuses_steps()):
            rule = "`steps_per_execution` must be 1 on PyTorch and for processes of TensorFlow"
            raise ValueError(f"{rule}. Received: {steps_per_execution=}")


class Processes(Distribution):
    """Run on processes that each hold the whole model and compute a part of each batch.

    Gradients are averaged over all processes in one message per step and dtype. Metrics are summed
    after the last batch of an epoch.
    """

    fuses_steps = False

    def __init__(self, index: int, count: int) -> None:
        self.index, self.count, self.devices = index, count, count
        self.stream = (index,) if index else ()

    def add_up(self, vector: Tensor) -> Tensor:
        """Return the sum of a vector, which may be overwritten, over all processes.

        All processes must call it.
        """
        raise NotImplementedError

    def prepare(self, model: Model) -> None:
        self.refuse_batch_norms(model)
        model.optimizer = SummedGradients(model.optimizer, self._means)

    def sum_metrics(self, model: Model) -> None:
        variables = model.metrics_variables
        sums = self._sums([variable.value for variable in variables], variables)
        for variable, value in zip(variables, sums, strict=True):
            variable.assign(value)

    def _means(self, gradients, variables):
        return self._sums(gradients, variables, divisor=self.count)

    def _sums(self, tensors, variables, divisor=1):
        """Return the sums of tensors in the shapes of variables, with one message per dtype."""
        sums = list(tensors)
        dtypes: dict[str, list[int]] = {}
        for index, tensor in enumerate(tensors):
            dtypes.setdefault(keras.backend.standardize_dtype(tensor.dtype), []).append(index)
        for indices in dtypes.values():
            # Sparse gradients on TensorFlow become dense.
            parts = [keras.ops.convert_to_tensor(tensors[index]) for index in indices]
            total = self.add_up(keras.ops.concatenate([keras.ops.ravel(part) for part in parts]))
            total, start = total / divisor if divisor > 1 else total, 0
            for index in indices:
                end = start + prod(variables[index].shape)
                sums[index] = keras.ops.reshape(total[start:end], variables[index].shape)
                start = end
        return sums


@keras.saving.register_keras_serializable("keras_permix")
class SummedGradients(keras.optimizers.Optimizer):
    """Sum gradients over devices or processes before another optimizer applies them.

    The other optimizer then clips and checks the whole gradient. Only its state and configuration
    are saved: a saved model loads with the other optimizer. `add_up(gradients, variables)` returns
    a list of summed gradients.
    """

    def __init__(self, optimizer: Any, add_up: Callable[[list[Any], list[Any]], list[Any]]) -> None:
        super().__init__(learning_rate=0.0, name=optimizer.name)
        self.optimizer, self.add_up = optimizer, add_up

    @property
    def inner_optimizer(self) -> Any:
        """Return the optimizer that applies gradients and averages weights."""
        return getattr(self.optimizer, "inner_optimizer", self.optimizer)

    def build(self, variables: Sequence[Any]) -> None:
        if not self.optimizer.built:
            self.optimizer.build(variables)
        super().build(variables)

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        grads, variables = list(grads), list(trainable_variables or self._trainable_variables)
        given = [index for index, gradient in enumerate(grads) if gradient is not None]
        sums = self.add_up([grads[index] for index in given], [variables[index] for index in given])
        for index, total in zip(given, sums, strict=True):
            grads[index] = total
        self.optimizer.apply(grads, variables)

    def scale_loss(self, loss: Tensor) -> Tensor:
        return self.optimizer.scale_loss(loss)

    def finalize_variable_values(self, var_list: Sequence[Any]) -> None:
        self.optimizer.finalize_variable_values(var_list)

    @property
    def variables(self) -> list[Any]:
        return self.optimizer.variables

    @property
    def iterations(self) -> Any:
        return self.optimizer.iterations

    @property
    def learning_rate(self) -> Any:
        return self.optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: Any) -> None:
        self.optimizer.learning_rate = learning_rate

    def get_config(self) -> dict[str, Any]:
        return {"optimizer": keras.saving.serialize_keras_object(self.optimizer)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        return keras.saving.deserialize_keras_object(config["optimizer"], custom_objects)
