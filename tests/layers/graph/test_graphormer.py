"""Test GraphormerBias and GraphormerBlock against the authors' values and NumPy."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_permix.layers import GraphormerBias, GraphormerBlock
from tests.data.graphs.graphs import BATCH, GRAPHS, MASK, SIZES, TOKENS
from tests.harness import assert_close, check_layer, load_golden, to_numpy
from tests.oracle import graph as oracle

BIAS = load_golden("graphormer")
SLICE = load_golden("graphormer_sliceformer")
TABLES = {
    "distance_table": "spatial_table",
    "virtual_distance": "virtual_distance",
    "edge_table": "edge_table",
    "hop_table": "edge_dis_table",
}
DENSES = {"query": "q", "key": "k", "value": "v", "output": "out"}
PARTS = {"mixer_norm": "ln1", "mlp_norm": "ln2", "mlp_in": "fc1", "mlp_out": "fc2"}

BIASES = np.random.default_rng(1).normal(size=(3, 2, 24, 24)).astype("float32")

MIXERS = {
    "attention": "attention",
    "paper": "slice_sort",
    "release": {"name": "slice_sort", "mode": "release"},
    "descend": {"name": "slice_sort", "order": "descend"},
    "interleave": {"name": "slice_sort", "order": "interleave"},
    "haar": {"name": "slice_sort", "mode": "release", "order": "interleave_haar"},
}
# Whether each of 8 channels (2 heads) sorts in descending order, in the second of three layers.
DESCENDING = {
    "descend": [True] * 8,
    "interleave": [False] * 4 + [True] * 3 + [False],
    "haar": [False, False, True, True] * 2,
}


def make_bias(**arguments):
    """Return a built layer with large values in its tables."""
    layer = GraphormerBias(num_heads=2, **arguments)
    layer.build({name: array.shape for name, array in BATCH.items()})
    rng = np.random.default_rng(3)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))
    return layer


def make_block(mixer):
    """Return a built layer with large weights."""
    layer = GraphormerBlock(
        num_heads=2, mlp_dim=12, mixer=MIXERS[mixer], layer_index=1, num_layers=3
    )
    layer.build(TOKENS.shape, BIASES.shape)
    rng = np.random.default_rng(4)
    for weight in layer.weights:
        weight.assign(weight + 0.5 * rng.normal(size=weight.shape))
    return layer


def parts(layer):
    """Return the sublayers of a block that have weights, by name."""
    names = layer.mixer.projections
    return {
        **{name: getattr(layer, name) for name in PARTS},
        **{name: getattr(layer.mixer, f"{name}_dense") for name in names},
    }


def golden_block(golden, prefix, mixer, tokens, bias):
    """Return the output of a block with golden weights for golden tokens."""
    layer = GraphormerBlock(num_heads=2, mixer=mixer)
    layer.build(tokens.shape, bias.shape)
    for name, part in parts(layer).items():
        kinds = ("gamma", "beta") if "norm" in name else ("kernel", "bias")
        short = {**PARTS, **DENSES}[name]
        part.set_weights([golden[f"{prefix}_{short}_{kind}"] for kind in kinds])
    return to_numpy(layer(tokens.astype("float32"), bias.astype("float32")))


def test_bias_matches_authors():
    batch = {name[6:]: array for name, array in BIAS.items() if name.startswith("batch_")}
    layer = GraphormerBias(num_heads=2, hop_tables=16)
    layer.build({name: array.shape for name, array in batch.items()})
    for ours, theirs in TABLES.items():
        getattr(layer, ours).assign(BIAS[theirs])
    assert_close(to_numpy(layer(batch)), BIAS["attn_bias_out"])


def test_blocks_match_authors():
    outputs = golden_block(BIAS, "mha", "attention", BIAS["node_features"], BIAS["attn_bias_out"])
    assert_close(outputs, BIAS["layer_out"])
    for mode in ("paper", "release"):
        mixer = {"name": "slice_sort", "mode": mode}
        outputs = golden_block(SLICE, mode, mixer, SLICE["x"], SLICE["bias"])
        assert_close(outputs, SLICE[f"{mode}_out"])


@pytest.mark.parametrize("arguments", [{}, dict(max_hops=2, hop_tables=7), dict(edges="single")])
def test_bias_of_padded_graphs(arguments):
    layer = make_bias(**arguments)
    tables = {w.name: to_numpy(w).astype("float64") for w in layer.weights}
    arguments = {name: arguments[name] for name in arguments if name != "hop_tables"}
    result = to_numpy(layer(BATCH))
    for index, (graph, size) in enumerate(zip(GRAPHS, SIZES, strict=True)):
        real = slice(size + 1)
        expected = oracle.bias(graph, tables, **arguments)
        assert_close(result[index, :, real, real], expected)
        assert (result[index, :, :, size + 1 :] == -np.inf).all()
        assert np.isfinite(result[index, :, size + 1 :, real]).all()


@pytest.mark.parametrize("mixer", MIXERS)
def test_block_of_padded_graphs(mixer):
    layer = make_block(mixer)
    weights = {name: part.get_weights() for name, part in parts(layer).items()}
    sort = {"attention": None, "release": "release", "haar": "release"}.get(mixer, "paper")
    result = to_numpy(layer(TOKENS, BIASES, tokens_mask=MASK))
    for index, size in enumerate(SIZES):
        real = slice(size + 1)
        tokens, bias = TOKENS[index, real].astype("float64"), BIASES[index, :, real, real]
        descending = DESCENDING.get(mixer, False)
        expected = oracle.block(tokens, bias, weights, sort, descending)
        assert_close(result[index, real], expected)


def numpy_block(layer, mixer, tokens, real, bias):
    """Return the oracle's output for one sample, including padding."""
    weights = {name: part.get_weights() for name, part in parts(layer).items()}
    sort = {"attention": None, "release": "release"}.get(mixer, "paper")
    return oracle.block(tokens.astype("float64"), bias, weights, sort, real=real)


@pytest.mark.parametrize("mixer", ["attention", "paper", "release"])
def test_unattended_tokens_are_padding_without_mask(mixer):
    layer, biases = make_block(mixer), BIASES.copy()
    biases[:, :, 1:, 7] = -np.inf  # only the virtual node attends to token 7
    for sample, real in enumerate(MASK):
        biases[sample, :, :, ~real] = -np.inf
    outputs = to_numpy(layer(TOKENS, biases))
    for sample, real in enumerate(MASK):
        wanted = numpy_block(layer, mixer, TOKENS[sample], real, biases[sample])
        assert_close(outputs[sample], wanted)


@keras.saving.register_keras_serializable("tests")
class BlockOfPath(GraphormerBlock):
    """A block that takes only tokens and uses the bias of a path graph."""

    def build(self, tokens_shape):
        super().build(tokens_shape, (None, self.num_heads, None, None))

    def call(self, tokens, mask=None):
        position = keras.ops.arange(keras.ops.shape(tokens)[1])
        distance = (
            keras.ops.abs(position[:, None] - position) * keras.ops.arange(1, 3)[:, None, None]
        )
        bias = keras.ops.cast(distance[None], self.compute_dtype) / -4
        return super().call(tokens, bias, tokens_mask=mask)


@pytest.mark.parametrize(
    ("mixer", "dropout", "numerics"),
    [("attention", 0.0, True), ("paper", 0.3, True), ("release", 0.3, False)],
)
def test_block_basics(mixer, dropout, numerics):
    options = dict(mixer=MIXERS[mixer], dropout=dropout, attention_dropout=dropout)
    make = partial(BlockOfPath, 2, 12, **options, layer_index=1, num_layers=3)
    check_layer(make, (4, 16, 8), numerics=numerics)


def test_padding_rows_of_tables_are_unused():
    layer = make_bias()
    expected = to_numpy(layer(BATCH))
    for table in (layer.distance_table, layer.edge_table):
        values = to_numpy(table).copy()
        values[0] += 100
        table.assign(values)
    np.testing.assert_array_equal(to_numpy(layer(BATCH)), expected)


@pytest.mark.parametrize("part", ["mixer", "mlp", "map"])
def test_each_dropout_acts_in_training_only(part):
    """Test one dropout at a time; the other part outputs zeros."""
    layer = GraphormerBlock(num_heads=2, **{f"{'attention_' * (part == 'map')}dropout": 0.5})
    layer.build(TOKENS.shape, BIASES.shape)
    silent = layer.mixer.output_dense if part == "mlp" else layer.mlp_out
    silent.kernel.assign(0 * silent.kernel)
    outputs = to_numpy(layer(TOKENS, BIASES))
    np.testing.assert_array_equal(to_numpy(layer(TOKENS, BIASES, training=False)), outputs)
    assert not np.allclose(to_numpy(layer(TOKENS, BIASES, training=True)), outputs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(num_heads=0), "`num_heads` must be a positive integer.*0"),
        (dict(edges="double"), "`edges` must be one of.*'double'"),
        (dict(max_hops=0), "`max_hops` must be a positive integer.*0"),
        (dict(hop_tables=4), "`hop_tables` must be at least max_hops=5.*hop_tables=4"),
    ],
)
def test_invalid_bias_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=message):
        GraphormerBias(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(num_heads=3), "`num_heads` must divide the width 8.*num_heads=3"),
        (dict(mlp_dim=0), "`mlp_dim` must be a positive integer.*0"),
        (dict(mixer="csp"), "`mixer` must be one of.*'csp'"),
        (dict(mixer=None), "`mixer` must be one of.*None"),
        (dict(mixer={"name": "slice_sort", "mode": "code"}), "`mode` must be one of.*'code'"),
        (dict(mixer={"name": "slice_sort", "order": "up"}), "`order` must be one of.*'up'"),
        (dict(dropout=1.0), r"`dropout` must be in \[0, 1\).*1.0"),
        (dict(attention_dropout=-0.1), r"`attention_dropout` must be in \[0, 1\).*-0.1"),
        (dict(layer_index=3, num_layers=3), "`layer_index` must count from 0 to 2.*layer_index=3"),
    ],
)
def test_invalid_block_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        GraphormerBlock(**arguments)(TOKENS, BIASES)
