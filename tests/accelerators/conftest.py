"""Fixtures for tests of kernels."""

import keras
import pytest

from keras_permix.ops.backend.plan import Hardware


@pytest.fixture
def triton_launches(monkeypatch):
    """Record the names of the launched Triton kernels, in order."""
    from tests.accelerators.triton_ahead import KERNELS

    names = []
    for kernel in KERNELS:
        monkeypatch.setattr(kernel, "run", _recorded(kernel, names))
    return names


@pytest.fixture(params=("v5e:2x2", "v6e:2x2"))
def topology(request, monkeypatch):
    """Describe four TPUs that are not attached."""
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "localhost")
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v5litepod-4")
    monkeypatch.setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    from jax.experimental import topologies

    return topologies.get_topology_desc(platform="tpu", topology_name=request.param)


@pytest.fixture
def one_device(topology, monkeypatch):
    """Return the sharding of one of the TPUs, and make the ops detect this TPU."""
    from jax.sharding import SingleDeviceSharding

    [device, *_] = topology.devices
    hardware = Hardware(device.platform, chip=device, sure=False)
    monkeypatch.setattr("keras_permix.ops.backend.jax.runtime.hardware", lambda x: hardware)
    return SingleDeviceSharding(device)


@pytest.fixture
def distribution(topology):
    """Return a distribution that shards the batch over all TPUs."""
    import numpy as np
    from jax.sharding import Mesh

    devices = np.array(topology.devices)
    mesh = keras.distribution.DeviceMesh(devices.shape, ["batch"], devices)
    mesh._backend_mesh = Mesh(devices, ["batch"])  # Keras finds only attached devices
    return keras.distribution.DataParallel(mesh)


def _recorded(kernel, names):
    run = kernel.run

    def recorded(*args, **kwargs):
        names.append(kernel.__name__)
        return run(*args, **kwargs)

    return recorded
