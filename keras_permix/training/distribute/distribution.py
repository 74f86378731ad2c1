"""What a run asks of the devices and processes that share its work."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import keras

from keras_permix._typing import Model

LOST = (
    "Another process of this run has ended or is out of reach; what it said last tells why. Start "
    "all of them again: the run goes on from its last checkpoint."
)


class Distribution:
    """One device of one process; what shares the work of a run derives from it.

    Attributes:
        index: Number of this process, from 0.
        count: Number of processes.
        devices: Number of devices that share the work.
        fuses_steps: Whether several training steps may be one program (`steps_per_execution`).
        stream: What tells random numbers that a layer draws here from those of other processes.

    Example:

    >>> from keras_permix.training.distribute import Distribution
    >>> alone = Distribution()
    >>> alone.is_chief, alone.shard, alone.from_chief(max, [3, 5])
    (True, (0, 1), 5)
    """

    index = 0
    count = 1
    devices = 1
    fuses_steps = True
    stream: tuple[int, ...] = ()

    @property
    def is_chief(self) -> bool:
        """Whether this is the process that writes and speaks for all."""
        return self.index == 0

    @property
    def parts(self) -> int:
        """Number of parts that a batch is computed in."""
        return self.devices

    @property
    def shard(self) -> tuple[int, int]:
        """`(index, count)`, as `Pipeline` takes it."""
        return self.index, self.count

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Where models are made, compiled and trained."""
        return contextlib.nullcontext()

    def prepare(self, model: Model) -> None:
        """Make a compiled model train in step with those of the other processes."""

    def draw_apart(self, model: Model) -> None:
        """Give the devices of this process random numbers of their own, when an epoch begins."""

    def broadcast(self, content: bytes) -> bytes:
        """The bytes that the chief gives, in all processes."""
        return content

    def wait(self) -> None:
        """Go on when all processes are here."""

    def lost(self, error: Exception) -> bool:
        """Whether an error says that another process is gone."""
        return False

    def said(self, error: Exception) -> str:
        """The line of an error that says what it is."""
        return (str(error).strip() or type(error).__name__).splitlines()[0]

    def close(self) -> None:
        """End what was begun with the distribution."""

    def from_chief(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function gives in the chief, which alone calls it; JSON must hold it.

        Raises:
            Exception: the function's own, in the chief.
            ConnectionError: with the same words, in the others.
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
        """Raise if a model normalizes by what a device sees alone of a batch.

        Raises:
            ValueError: for a `BatchNormalization` on several devices.
        """
        kind = keras.layers.BatchNormalization
        found = [layer.path for layer in model._flatten_layers() if isinstance(layer, kind)]
        if found and self.devices > 1:
            raise ValueError(
                "`distribute` must be None for a model with BatchNormalization, but on JAX: each "
                f"device would normalize by its own part of a batch. Received: {found[:3]}"
            )

    def check_steps(self, steps_per_execution: int) -> None:
        """Raise if several training steps are to be one program, and may not.

        Raises:
            ValueError: for more than one.
        """
        if steps_per_execution > 1 and not self.fuses_steps:
            raise ValueError(
                "`steps_per_execution` must be 1 in several processes, but on JAX. "
                f"Received: steps_per_execution={steps_per_execution}, {self.count} processes"
            )

    def check_batch_size(self, size: int) -> None:
        """Raise unless each device gets as much of a batch as the others.

        Raises:
            ValueError: if `size` is no multiple of the devices.
        """
        if size % self.parts:
            raise ValueError(
                "`batch_size` must be a multiple of the number of devices that share each batch. "
                f"Received: batch_size={size}, {self.parts} devices"
            )
