"""Distribute a run on TensorFlow over the devices of a process, or over processes."""

import contextlib
import json
import os
from typing import Any

import numpy as np
import tensorflow as tf

from keras_permix._typing import Model, Tensor
from keras_permix.training.distribute.distribution import Distribution, Processes, SummedGradients

ROLES = ("chief", "worker")
ABORTED = "Collective ops is aborted"


def start(kind: str) -> Distribution:
    """Use the processes of `TF_CONFIG`, else the GPUs or logical CPUs of this process."""
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    cluster = config.get("cluster", {})
    tasks = [(role, str(i)) for role in ROLES for i, _ in enumerate(cluster.get(role, []))]
    if len(tasks) > 1:
        return Workers(config.get("task", {}), tasks)
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return Replicas(tf.distribute.MirroredStrategy([device.name for device in devices]))


class Replicas(Distribution):
    """Run on devices that each hold the whole model and compute a part of each batch."""

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy
        self.devices = strategy.num_replicas_in_sync

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        return self.strategy.scope()

    def prepare(self, model: Model) -> None:
        self.refuse_batch_norms(model)
        inner = getattr(model.optimizer, "inner_optimizer", model.optimizer)
        if steps := inner.gradient_accumulation_steps:
            rule = "`gradient_accumulation_steps` must be None on several devices of TensorFlow"
            raise ValueError(f"{rule}. Received: {steps}")
        model.optimizer = SummedGradients(model.optimizer, _sums_of_replicas)

    def draw_apart(self, model: Model) -> None:
        for layer in model._flatten_layers():
            for generator in layer._seed_generators:
                copies = self.strategy.experimental_local_results(generator.state.value)
                for index, copy in enumerate(copies):
                    copy.assign(copy + tf.cast([index, 0], copy.dtype))


def _sums_of_replicas(gradients, variables):
    """Return the sums in the first replica and zeros in the others, since Keras sums again."""
    context = tf.distribute.get_replica_context()
    dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
    is_first = tf.equal(context.replica_id_in_sync_group, 0)
    sums = context.all_reduce(tf.distribute.ReduceOp.SUM, dense)
    # A product keeps NaN and infinity in all replicas, which must agree on the scale of the loss.
    return [total * tf.cast(is_first, total.dtype) for total in sums]


class Workers(Processes):
    """Run on the processes of `TF_CONFIG`, without XLA, which cannot sum over them.

    Only sums come from `MultiWorkerMirroredStrategy`, since Keras' trainer does not support it.
    `task` holds the "type" and "index" of this process, `tasks` those of each process.
    """

    def __init__(self, task: dict[str, Any], tasks: list[tuple[str, str]]) -> None:
        own = task.get("type"), str(task.get("index"))
        if own not in tasks:
            raise ValueError(f"`TF_CONFIG` must have a `task` of its cluster. Received: {task=}")
        super().__init__(tasks.index(own), len(tasks))
        gpus = len(tf.config.get_visible_devices("GPU"))
        if gpus > 1:
            raise ValueError(f"CUDA_VISIBLE_DEVICES must name 1 GPU per process. Received: {gpus}")
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy()
        (self._device,) = self._strategy.extended.worker_devices
        self._traced = tf.function(self._total, reduce_retracing=True)

    def prepare(self, model: Model) -> None:
        super().prepare(model)
        model.jit_compile = False

    def add_up(self, vector: Tensor) -> Tensor:
        return self._total(vector) if tf.inside_function() else self._traced(vector)

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
        return isinstance(error, tf.errors.OpError) and ABORTED in str(error)
