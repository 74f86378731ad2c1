"""Both layers of Graphormer in a model: graphs of any size, masks, dtypes, files, learning."""

import keras
import numpy as np
import pytest

from keras_permix.layers import GraphormerBias, GraphormerBlock
from tests.data.graphs.graphs import GRAPHS, MASK, TOKENS, graph_inputs
from tests.harness import assert_close, check_extended, check_other_backend, to_numpy


def graph_model(mixer, dtype=None, **arguments):
    """A model of both layers, for graphs of any size, whose mask comes from the tokens."""
    inputs = {}
    for name, array in graph_inputs(GRAPHS).items():
        axes = {"tokens": 1, "x": 1, "in_degree": 1, "out_degree": 1}.get(name, 2)
        shape = (*[None] * axes, *array.shape[1 + axes :])
        inputs[name] = keras.Input(shape, name=name, dtype=array.dtype.name)
    bias = GraphormerBias(num_heads=2, dtype=dtype, **arguments)(inputs)
    tokens = keras.layers.Masking()(inputs["tokens"])
    block = GraphormerBlock(num_heads=2, mixer=mixer, dtype=dtype)
    return keras.Model(inputs, block(tokens, bias))


@pytest.mark.parametrize("edges", ["multi_hop", "single"])
def test_model_takes_graphs_of_any_size(edges, tmp_path):
    model = graph_model("slice_sort", edges=edges)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    everything = model.predict(graph_inputs(GRAPHS), verbose=0)
    np.testing.assert_array_equal(loaded.predict(graph_inputs(GRAPHS), verbose=0), everything)
    for graphs in (GRAPHS[:1], GRAPHS[:2]):
        outputs = model.predict(graph_inputs(graphs), verbose=0)
        for index, graph in enumerate(graphs):
            real = slice(len(graph["x"]) + 1)
            assert_close(outputs[index, real], everything[index, real])


@pytest.mark.parametrize("mixer", ["attention", "slice_sort"])
def test_model_is_extended_saved_and_cloned(mixer):
    check_extended(graph_model(mixer), graph_inputs(GRAPHS))


@pytest.mark.parametrize("mixer", ["attention", "slice_sort"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_stays_close(dtype, mixer):
    model, low = graph_model(mixer), graph_model(mixer, f"mixed_{dtype}")
    low.set_weights(model.get_weights())
    inputs = graph_inputs(GRAPHS)
    outputs = low(inputs)
    assert keras.backend.standardize_dtype(outputs.dtype) == dtype
    assert_close(to_numpy(outputs)[MASK], to_numpy(model(inputs))[MASK], dtype=dtype)


@pytest.mark.parametrize("edges", ["multi_hop", "single"])
def test_model_learns_every_table_but_its_padding(edges):
    model = graph_model("attention", edges=edges)
    bias = next(layer for layer in model.layers if isinstance(layer, GraphormerBias))
    before = {weight.name: to_numpy(weight) for weight in bias.weights}
    model.compile(keras.optimizers.SGD(100.0), "mse")
    model.fit(graph_inputs(GRAPHS), TOKENS, batch_size=3, verbose=0)
    for weight in bias.weights:
        changed = np.any(to_numpy(weight) != before[weight.name], axis=-1)
        assert np.isfinite(to_numpy(weight)).all() and changed.any()
        if weight.name in ("distance_table", "edge_table"):
            assert not changed[0]


def graphs_of_tokens(x):
    """Both layers on tokens that are square, whose values become distances."""
    distance = keras.ops.cast(keras.ops.abs(4 * x), "int32")
    padded = keras.ops.pad(x, ((0, 0), (1, 0), (0, 0)))
    bias = keras.ops.pad(x * 0, ((0, 0), (1, 0), (1, 0)))
    graphs = {"attn_bias": bias, "spatial_pos": distance}
    graphs["attn_edge_type"] = keras.ops.expand_dims(distance, -1)
    bias = GraphormerBias(2, "single")(graphs)
    return GraphormerBlock(2, mixer="slice_sort")(padded, bias)


def test_files_are_read_on_another_backend():
    check_other_backend({"graphormer": (lambda: graphs_of_tokens, (2, 6, 6))})
