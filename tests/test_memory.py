"""Test that the suite fits in 7 GB of memory: number of workers, freed compiled code."""

import pytest

from tests.__main__ import memory, workers
from tests.backends import BACKEND, compiled, forget_compiled


@pytest.mark.once
def test_number_of_workers():
    assert memory() > 10**9
    machines = {(4, 7): 1, (2, 24): 2, (1, 64): 1, (64, 512): 4, (2, 1): 1}
    assert {m: workers(m[0], m[1] * 10**9) for m in machines} == machines


@pytest.mark.skipif(BACKEND != "jax", reason="other backends free compiled code with the function")
def test_forget_compiled_frees_functions():
    double = compiled(lambda x: 2 * x)
    double(1.0)
    assert double._cache_size() == 1
    forget_compiled()
    assert double._cache_size() == 0
