"""Define how devices and processes share a run."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import keras

from keras_permix._typing import Model

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
        fuses_steps: Whether `steps_per_execution` may exceed 1.
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
        """Whether this process writes files and prints."""
        return self.index == 0

    @property
    def parts(self) -> int:
        """Number of parts that a batch is divided into."""
        return self.devices

    @property
    def shard(self) -> tuple[int, int]:
        """`(index, count)` for `Pipeline.shard`."""
        return self.index, self.count

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which to make, compile and train models."""
        return contextlib.nullcontext()

    def prepare(self, model: Model) -> None:
        """Synchronize a compiled model with those of the other processes."""

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

    def said(self, error: Exception) -> str:
        """Return the line of an error that describes it."""
        return (str(error).strip() or type(error).__name__).splitlines()[0]

    def close(self) -> None:
        """Release the resources of the distribution."""

    def from_chief(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the first process, and return its result in all processes.

        Args:
            function: Function whose result JSON can hold.
            *arguments: Its arguments.

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
        """Check that a model has no batch normalization, which would use a part of each batch.

        Raises:
            ValueError: for a `BatchNormalization` on several devices.
        """
        kind = keras.layers.BatchNormalization
        found = [layer.path for layer in model._flatten_layers() if isinstance(layer, kind)]
        if found and self.devices > 1:
            raise ValueError(
                "`distribute` must be None for a model with BatchNormalization, except on JAX: "
                "each device would normalize by its part of a batch. "
                f"Received: {found[:3]}"
            )

    def check_steps(self, steps_per_execution: int) -> None:
        """Check that `steps_per_execution` is supported.

        Raises:
            ValueError: for several steps in several processes.
        """
        if steps_per_execution > 1 and not self.fuses_steps:
            raise ValueError(
                "`steps_per_execution` must be 1 with several processes, except on JAX. "
                f"Received: steps_per_execution={steps_per_execution}, {self.count} processes"
            )

    def check_batch_size(self, size: int) -> None:
        """Check that the devices share a batch evenly.

        Raises:
            ValueError: if `size` is not a multiple of the number of devices.
        """
        if size % self.parts:
            raise ValueError(
                "`batch_size` must be a multiple of the number of devices that share each batch. "
                f"Received: batch_size={size}, {self.parts} devices"
            )
