"""Test the sorting network of JAX and TensorFlow, which runs on all backends."""

import itertools

import numpy as np
import pytest
from keras import backend, ops

from keras_permix.ops import slice_sort
from keras_permix.ops.reference import network
from tests.oracle import permutations as oracle


@pytest.mark.parametrize("cache", [1, 32, 1 << 21])
@pytest.mark.parametrize("tokens", [1, 2, 4, 8])
def test_sorts_all_binary_sequences(monkeypatch, tokens, cache):
    """A network that sorts all binary sequences sorts any input (0-1 principle, Knuth, 5.3.4)."""
    monkeypatch.setattr(network, "CACHE", cache)
    rows = np.array(list(itertools.product((0, 1), repeat=tokens)), "int32")
    channels = min(len(rows), 2)
    runs = np.moveaxis(rows.reshape(-1, channels, tokens), 1, 2)  # (groups, tokens, channels)
    ordered = ops.convert_to_numpy(network.sort(ops.convert_to_tensor(runs), True))
    np.testing.assert_array_equal(ordered, np.sort(runs, axis=1))


@pytest.mark.parametrize("by_blocks", [True, False])
@pytest.mark.parametrize("dtype", ["int16", "int32"])
def test_sorts_in_blocks(monkeypatch, dtype, by_blocks):
    shapes, take = set(), network._take

    def record(runs, steps):
        shapes.add(tuple(runs.shape))
        return take(runs, steps)

    runs = np.random.default_rng(0).integers(-50, 50, (3, 256, 5)).astype(dtype)
    monkeypatch.setattr(network, "CACHE", 2 * runs[0, :32].nbytes - 1)
    monkeypatch.setattr(network, "_take", record)
    ordered = ops.convert_to_numpy(network.sort(ops.convert_to_tensor(runs), by_blocks))
    np.testing.assert_array_equal(ordered, np.sort(runs, axis=1))
    assert shapes == {(3, 256, 5)} | ({(1, 32, 5)} if by_blocks else set())


@pytest.mark.skipif(backend.backend() == "torch", reason="PyTorch does not use the network")
def test_slice_sort_in_blocks(monkeypatch):
    monkeypatch.setattr(network, "CACHE", 256)
    x = np.random.default_rng(0).normal(size=(2, 301, 7)).astype("float32")
    expected = np.take_along_axis(x, oracle.slice_sort(x), axis=1)
    np.testing.assert_array_equal(ops.convert_to_numpy(slice_sort(x)), expected)
