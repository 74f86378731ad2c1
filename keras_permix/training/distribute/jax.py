"""Distribute a run on JAX over all devices of all processes by `keras.distribution`."""

import contextlib
import os
import re
import warnings
from collections.abc import Sequence
from math import prod
from typing import Any

import jax
import keras
import numpy as np
from jax.experimental import multihost_utils

from keras_permix._typing import Model, Tensor
from keras_permix.training.distribute.distribution import Distribution

SHUTDOWN = 20  # seconds to wait for other processes at the end, after which JAX aborts
SIGNS = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "Gloo", "coordination service")

# End of a weight's path -> axis. Layers that widen a token compute a part of its channels on each
# device; layers that narrow it sum over the devices.
RULES = (
    (r"(mlp_out\w*|token_out|channel_out|mixer/output|attention/output|hidden)/kernel", -2),
    (r"(mlp_in\w*|token_in|channel_in|qkv|query|key|value|gate)/(kernel|bias)", -1),
    (r"(patch_embedding/projection|pooler|head_hidden_\d+|classifier|head)/(kernel|bias)", -1),
    (r"(embeddings|\w*table)", -1),
)


def start(kind: str) -> Distribution:
    """Join the processes of the run, and use all their devices."""
    _join()
    if kind != "model":
        return Devices(keras.distribution.DataParallel(auto_shard_dataset=False))
    if jax.process_count() > 1:
        found = jax.process_count()
        raise ValueError(f"`distribute='model'` requires one process. Received: {found} processes")
    return Devices(DividedWeights())


def _join():
    """Call `jax.distributed.initialize`, which detects TPU pods, Slurm and Open MPI."""
    if jax.distributed.is_initialized():
        return
    addresses, count, index = (
        os.environ.get(f"KERAS_DISTRIBUTION_{name}")
        for name in ("JOB_ADDRESSES", "NUM_PROCESSES", "PROCESS_ID")
    )
    told = addresses or os.environ.get("JAX_COORDINATOR_ADDRESS")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            addresses and addresses.split(",")[0],
            count and int(count),
            index and int(index),
            shutdown_timeout_seconds=SHUTDOWN,
        )
    except ValueError:
        if told:
            raise
    except RuntimeError as error:  # JAX has already computed in this single process.
        if told or "before any JAX" not in str(error):
            raise


class Devices(Distribution):
    """Run one program on all devices; each process feeds its devices."""

    def __init__(self, distribution: Any) -> None:
        self.distribution = distribution
        self.index, self.count = jax.process_index(), jax.process_count()
        self.devices = distribution.device_mesh.devices.size

    @property
    def parts(self) -> int:
        return self.distribution.device_mesh.shape[0]

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        return self.distribution.scope()

    def prepare(self, model: Model) -> None:
        if isinstance(self.distribution, DividedWeights):
            check_divides(model, self.devices)

    def broadcast(self, content: bytes) -> bytes:
        size = np.array(divmod(len(content), 2**30), "int32")  # JAX has no 64 bits without a flag
        blocks, rest = map(int, multihost_utils.broadcast_one_to_all(size))
        padded = np.zeros(blocks * 2**30 + rest, "uint8")
        if self.is_chief:
            padded[:] = np.frombuffer(content, "uint8")
        return np.asarray(multihost_utils.broadcast_one_to_all(padded)).tobytes()

    def wait(self) -> None:
        multihost_utils.sync_global_devices("keras_permix")

    def lost(self, error: Exception) -> bool:
        return (
            self.count > 1
            and isinstance(error, jax.errors.JaxRuntimeError)
            and any(sign in str(error) for sign in SIGNS)
        )


class DividedWeights(keras.distribution.ModelParallel):
    """Divide parameters over all devices of this process by the layouts of the zoo."""

    def __init__(self) -> None:
        devices = keras.distribution.list_devices()
        mesh = keras.distribution.DeviceMesh((1, len(devices)), ("batch", "model"), devices)
        layouts = keras.distribution.LayoutMap(mesh)
        super().__init__(layout_map=layouts, batch_dim_name="batch", auto_shard_dataset=False)

    def get_variable_layout(self, variable: Tensor) -> Any:
        axis = divided_axis(variable.path, variable.shape, self.device_mesh.shape[1])
        if axis is None:
            return super().get_variable_layout(variable)
        axes = ["model" if number == axis else None for number in range(len(variable.shape))]
        return keras.distribution.TensorLayout(axes, self.device_mesh)


def divided_axis(path: str, shape: Sequence[int], devices: int) -> int | None:
    """Return the axis of a weight that is divided among devices.

    It is `None` for a weight that each device holds completely, such as those of normalization,
    biases after a sum, and axes that `devices` does not divide.
    """
    for pattern, axis in RULES:
        if re.search(rf"(^|/){pattern}$", path):
            axis += len(shape)
            return axis if shape[axis] % devices == 0 else None
    return None


def check_divides(model: Model, devices: int) -> None:
    """Warn if less than half of the weights of a model are divided."""
    total = divided = 0
    for weight in model.weights:
        size = prod(weight.shape)
        total += size
        divided += size * (divided_axis(weight.path, weight.shape, devices) is not None)
    if divided < total / 2:
        warnings.warn(
            f"`distribute='model'` divides {divided / total:.0%} of the parameters of this "
            f"{type(model).__name__}; each of the {devices} devices holds all others.",
            stacklevel=2,
        )
