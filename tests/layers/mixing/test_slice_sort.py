"""Test SliceSort against NumPy and the authors' values, and its errors."""

import numpy as np
import pytest

from keras_permix.layers import SliceSort
from tests.harness import assert_close, load_golden, to_numpy
from tests.oracle import permutations as oracle

X = np.random.default_rng(0).normal(size=(3, 11, 8)).astype("float32")
MASK = np.random.default_rng(1).random((3, 11)) < 0.7
EVEN = np.arange(8) % 2 == 0

# With 2 layers, the first alternates in runs of half the channels. The last sorts all channels in
# the same order.
ORDERS = {
    "ascend": (dict(), False),
    "descend": (dict(order="descend"), True),
    "interleave last layer": (dict(order="interleave", layer_index=1, num_layers=2), False),
    "interleave first layer": (
        dict(order="interleave", layer_index=0, num_layers=2),
        np.array([False] * 4 + [True] * 3 + [False]),
    ),
    "haar first layer": (dict(order="interleave_haar", layer_index=0, num_layers=3), False),
    "haar second layer": (
        dict(order="interleave_haar", layer_index=1, num_layers=3, head_dim=4),
        np.array([False, False, True, True] * 2),
    ),
    "haar fine": (dict(order="interleave_haar", layer_index=3, num_layers=4), ~EVEN),
}


def make(**arguments):
    """Return a built layer with nonzero biases."""
    layer = SliceSort(use_value_bias=True, **arguments)
    layer.build(X.shape)
    for weight in layer.weights:
        weight.assign(weight + 0.1)
    return layer


def expected(layer, sources):
    """Return the expected output in float64; `sources` maps values to the oracle's sources."""
    values = X.astype("float64") @ layer.value_dense.kernel.numpy() + layer.value_dense.bias.numpy()
    mixed = oracle.values(values, sources(values))
    return mixed @ layer.output_dense.kernel.numpy() + layer.output_dense.bias.numpy()


@pytest.mark.parametrize("mask", [None, MASK], ids=["plain", "masked"])
@pytest.mark.parametrize("name", ORDERS)
def test_layer_matches_numpy(name, mask):
    arguments, descending = ORDERS[name]
    layer = make(**arguments)
    wanted = expected(layer, lambda values: oracle.slice_sort(values, descending, mask))
    assert_close(to_numpy(layer(X, mask=mask)), wanted)


@pytest.mark.parametrize("mask", [None, MASK], ids=["plain", "masked"])
def test_max_exchange(mask):
    layer = make(order="max_exchange")
    wanted = expected(layer, lambda values: oracle.max_exchange(values, mask))
    assert_close(to_numpy(layer(X, mask=mask)), wanted)


@pytest.mark.parametrize("order", ["ascend", "descend", "max_exchange"])
def test_mix_matches_authors(order):
    golden = load_golden("sliceformer_ops")
    v = golden["v"].astype("float32")
    mixed = to_numpy(SliceSort(order).mix(v))
    np.testing.assert_array_equal(mixed, golden[order].astype("float32"))


@pytest.mark.parametrize("kind", ["paper", "haar"])
@pytest.mark.parametrize("index", range(4))
def test_interleaving_matches_authors(kind, index):
    golden = load_golden("sliceformer_ops")
    v = golden["v"].astype("float32")
    order = "interleave" if kind == "paper" else "interleave_haar"
    layer = SliceSort(order, layer_index=index, num_layers=4)
    wanted = golden[f"{kind}_interleave"][index].astype("float32")
    np.testing.assert_array_equal(to_numpy(layer.mix(v)), wanted)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(order="shuffle"), "`order` must be one of.*'shuffle'"),
        (dict(layer_index=-1), "`layer_index` must be an integer of at least 0.*layer_index=-1"),
        (dict(num_layers=2.0), "`num_layers` must be a positive integer.*num_layers=2.0"),
        (dict(inner_dim=-8), "`inner_dim` must be a positive integer or None.*-8"),
        (dict(dropout=-0.1), r"`dropout` must be in \[0, 1\).*-0.1"),
        (dict(order="interleave_haar", head_dim=3), "`head_dim` must divide.*head_dim=3"),
    ],
)
def test_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        SliceSort(**arguments)(X)
