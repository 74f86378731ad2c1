"""The suite runs on a machine of 7 GB: processes are as many as fit, and forget compiled code."""

import pytest

from tests.__main__ import memory, workers
from tests.backends import BACKEND, compiled, forget_compiled


@pytest.mark.once
def test_workers_have_room():
    assert memory() > 10**9
    machines = {(4, 7): 1, (2, 24): 2, (1, 64): 1, (64, 512): 4, (2, 1): 1}
    assert {m: workers(m[0], m[1] * 10**9) for m in machines} == machines


@pytest.mark.skipif(BACKEND != "jax", reason="of the others nothing outlives its function")
def test_compiled_functions_are_forgotten():
    double = compiled(lambda x: 2 * x)
    double(1.0)
    assert double._cache_size() == 1
    forget_compiled()
    assert double._cache_size() == 0
