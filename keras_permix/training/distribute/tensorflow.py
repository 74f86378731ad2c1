"""TensorFlow, through `tf.distribute`: a replica on each device of one process, or processes.

Keras' trainer fails with the strategy for processes. What adds up over them is taken from it alone.
"""

import contextlib
import json
import os
from typing import Any

import numpy as np
import tensorflow as tf

from keras_permix._typing import Model, Tensor
from keras_permix.training.distribute.distribution import Distribution
from keras_permix.training.distribute.processes import Processes

HINT = "See the devices with `tf.config.list_logical_devices()`, and `TF_CONFIG` for processes."


def start(kind: str) -> Distribution:
    """Take the GPUs of this process; without any, its logical CPUs."""
    if kind == "model":
        raise ValueError(
            "`distribute='model'` needs Keras on JAX; TensorFlow has \"data\". "
            "Received: distribute='model' on tensorflow"
        )
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    tasks = [
        (kind, number)
        for kind in ("chief", "worker")
        for number, _ in enumerate(config.get("cluster", {}).get(kind, []))
    ]
    if len(tasks) > 1:
        return Workers(config["task"], tasks)
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return Replicas(tf.distribute.MirroredStrategy([device.name for device in devices]))


class Replicas(Distribution):
    """One process; each device has the whole model and its part of each batch.

    Args:
        strategy: A `tf.distribute.MirroredStrategy`.
    """

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy
        self.devices = strategy.num_replicas_in_sync

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        return self.strategy.scope()

    def prepare(self, model: Model) -> None:
        self.refuse_batch_norms(model)


class Workers(Processes):
    """The processes that `TF_CONFIG` names, as TensorFlow has it.

    Args:
        task: Which of them this is: a dict of "type" and "index".
        tasks: The type and index of each.

    Raises:
        ValueError: where this is none of them, or has more than one device.
    """

    def __init__(self, task: dict[str, Any], tasks: list[tuple[str, int]]) -> None:
        own = task["type"], int(task["index"])
        if own not in tasks:
            raise ValueError(
                "`distribute` on TensorFlow takes the tasks \"chief\" and \"worker\" of TF_CONFIG. "
                f"Received: task {own[0]!r} {own[1]} of {len(tasks)}"
            )
        super().__init__(tasks.index(own), len(tasks))
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy()
        device, *others = self._strategy.extended.worker_devices
        if others:
            raise ValueError(
                "`distribute` on TensorFlow takes one device for each process of TF_CONFIG; start "
                "more processes, each with a CUDA_VISIBLE_DEVICES of its own. "
                f"Received: {1 + len(others)} devices in process {self.index}"
            )
        self._device = device

    def prepare(self, model: Model) -> None:
        super().prepare(model)
        model.jit_compile = False  # XLA has no part for what adds up over processes

    def add_up(self, vector: Tensor) -> Tensor:
        total = self._total if tf.inside_function() else tf.function(self._total)
        return total(vector)

    def _total(self, vector):
        with tf.device(self._device):
            vector = tf.identity(vector)
        add = tf.distribute.ReduceOp.SUM
        return self._strategy.run(
            lambda: tf.distribute.get_replica_context().all_reduce(add, vector)
        )

    def broadcast(self, content: bytes) -> bytes:
        size = int(self.add_up(tf.constant([len(content) if self.is_chief else 0], "int64"))[0])
        words = np.zeros(-(-size // 4), "int32")
        if self.is_chief:
            words.view("uint8")[:size] = np.frombuffer(content, "uint8")
        return self.add_up(tf.constant(words)).numpy().tobytes()[:size]

    def wait(self) -> None:
        self.add_up(tf.zeros(1))

    def lost(self, error: Exception) -> bool:
        return isinstance(error, tf.errors.OpError) and "Collective ops is aborted" in str(error)
