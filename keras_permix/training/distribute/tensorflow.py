"""TensorFlow: a replica on each device, through `tf.distribute`."""

import contextlib
import json
import os
from typing import Any

import tensorflow as tf

from keras_permix._typing import Model
from keras_permix.training.distribute.distribution import Distribution

HINT = "See the devices with `tf.config.list_logical_devices()`."


def start(kind: str) -> Distribution:
    """Take the GPUs of this process; without any, its logical CPUs."""
    if kind == "model":
        raise ValueError(
            "`distribute='model'` needs Keras on JAX; TensorFlow has \"data\". "
            "Received: distribute='model' on tensorflow"
        )
    workers = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {}).get("worker", [])
    if len(workers) > 1:
        raise ValueError(
            "`distribute` on TensorFlow shares work among the devices of one process. "
            f"Received: TF_CONFIG with {len(workers)} workers"
        )
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
