"""What tests of kernels share."""

import pytest


@pytest.fixture
def triton_launches(monkeypatch):
    """The names of the Triton kernels that are launched, in order."""
    from tests.accelerators.triton_ahead import KERNELS

    names = []
    for kernel in KERNELS:
        monkeypatch.setattr(kernel, "run", _recorded(kernel, names))
    return names


def _recorded(kernel, names):
    run = kernel.run

    def recorded(*args, **kwargs):
        names.append(kernel.__name__)
        return run(*args, **kwargs)

    return recorded
