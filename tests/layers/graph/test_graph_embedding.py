"""Test GraphEmbedding against the authors' values."""

import keras
import numpy as np
import pytest

from keras_permix.layers import GraphEmbedding
from tests.data.graphs.graphs import BATCH, MASK
from tests.harness import assert_close, load_golden, to_numpy

GOLDEN = load_golden("graphormer")
TABLES = {
    "feature_table": "atom_table",
    "in_degree_table": "in_degree_table",
    "out_degree_table": "out_degree_table",
    "virtual_node": "graph_token",
}


def test_embedding_matches_authors():
    batch = {name[6:]: array for name, array in GOLDEN.items() if name.startswith("batch_")}
    layer = GraphEmbedding(hidden_dim=8)
    layer.build({name: array.shape for name, array in batch.items()})
    for ours, theirs in TABLES.items():
        table = np.zeros(getattr(layer, ours).shape, "float32")
        table[: len(GOLDEN[theirs])] = GOLDEN[theirs]  # degrees of the golden file end at 15
        getattr(layer, ours).assign(table)
    assert_close(to_numpy(layer(batch)), GOLDEN["node_features"])


@pytest.fixture
def layer():
    layer = GraphEmbedding(hidden_dim=8)
    layer.build({name: array.shape for name, array in BATCH.items()})
    return layer


def test_padding_is_zero_and_masked(layer):
    for weight in layer.weights:
        weight.assign(weight + 1)
    tokens = layer(BATCH)
    assert (to_numpy(tokens)[~MASK] == 0).all() and (to_numpy(tokens)[MASK] != 0).any(-1).all()
    np.testing.assert_array_equal(to_numpy(layer.compute_mask(BATCH)), MASK)
    np.testing.assert_array_equal(to_numpy(tokens._keras_mask), MASK)


def test_shapes_and_dtypes(layer):
    shapes = {name: array.shape for name, array in BATCH.items()}
    assert layer.compute_output_shape(shapes) == layer(BATCH).shape == (3, 24, 8)
    assert layer.compute_output_shape({"x": (None, None, 3)}) == (None, None, 8)
    again = GraphEmbedding.from_config(layer.get_config())
    assert again.hidden_dim == 8
    low = GraphEmbedding(hidden_dim=8, dtype="mixed_bfloat16")(BATCH)
    assert keras.backend.standardize_dtype(low.dtype) == "bfloat16"


def test_floats_raise(layer):
    graphs = {**BATCH, "x": BATCH["x"].astype("float32")}
    with pytest.raises(ValueError, match=r"must hold integers.*float32.*shape=\(3, 23, "):
        layer(graphs)


def test_invalid_argument_raises():
    with pytest.raises(ValueError, match="`hidden_dim` must be a positive integer.*0"):
        GraphEmbedding(0)
