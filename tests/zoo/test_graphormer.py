"""Test Graphormer: published results, NumPy reference, padding, molecules and errors."""

import json

import keras
import numpy as np
import pytest

from keras_permix.cli import main
from keras_permix.data import Pipeline, from_smiles
from keras_permix.data.graphs.smiles import parse_smiles
from keras_permix.zoo import Graphormer, SliceGraphormer
from tests.harness import assert_close, load_golden, to_numpy
from tests.oracle import graph as oracle
from tests.zoo.models import tiny

pytest.importorskip("rdkit", reason="rdkit is not installed")

GOLDEN = load_golden("graphormer")
SMILES = ["CCO", "c1ccccc1", "C", "[Na+].CC[O-]"]


@pytest.mark.once
@pytest.mark.parametrize(
    ("cls", "parameters"), [(Graphormer, 47_085_377), (SliceGraphormer, 32_911_169)]
)
def test_parameter_counts_match_paper(cls, parameters):
    assert cls(keep_unused_params=True).count_params() == parameters


def test_tokens_match_authors():
    """Compare the tokens of two graphs after one layer."""
    sizes = dict(
        node_features=2, edge_features=2, hidden_dim=8, num_layers=1, num_heads=2, mlp_dim=8
    )
    model = Graphormer(**sizes)
    embedding, bias = model.get_layer("graph_embedding"), model.get_layer("graphormer_bias")
    for weight, name in (
        (embedding.feature_table, "atom_table"),
        (embedding.in_degree_table, "in_degree_table"),
        (embedding.out_degree_table, "out_degree_table"),
        (embedding.virtual_node, "graph_token"),
        (bias.distance_table, "spatial_table"),
        (bias.virtual_distance, "virtual_distance"),
        (bias.edge_table, "edge_table"),
        (bias.hop_table, "edge_dis_table"),
    ):
        values = np.zeros(weight.shape, "float32")
        values[: len(GOLDEN[name])] = GOLDEN[name][: len(values)]
        weight.assign(values)
    block = model.get_layer("block_0")
    parts = {"ln1": block.mixer_norm, "ln2": block.mlp_norm}
    parts |= {"fc1": block.mlp_in, "fc2": block.mlp_out, "q": block.mixer.query_dense}
    parts |= {"k": block.mixer.key_dense, "v": block.mixer.value_dense}
    for name, part in {**parts, "out": block.mixer.output_dense}.items():
        kinds = ("gamma", "beta") if name.startswith("ln") else ("kernel", "bias")
        part.set_weights([GOLDEN[f"mha_{name}_{kind}"] for kind in kinds])
    batch = {name: GOLDEN[f"batch_{name}"] for name in model.input}
    (tokens,) = model.features(batch)
    assert_close(to_numpy(tokens), GOLDEN["layer_out"])


def oracle_values(model, graph):
    """Predict the values of one graph in NumPy, from its nodes and edges."""
    graph, weights = oracle.preprocess(*graph), {}
    for weight in model.weights:
        weights[weight.path] = to_numpy(weight).astype("float64")

    def part(path):
        return [weights[name] for name in weights if name.startswith(f"{path}/")]

    tables = {path.rpartition("/")[2]: table for path, table in weights.items() if "graph" in path}
    degree = graph["in_degree"] + 1
    nodes = tables["feature_table"][graph["x"] + 1].sum(1)
    nodes += tables["in_degree_table"][degree] + tables["out_degree_table"][degree]
    tokens = np.concatenate([tables["virtual_node"], nodes])
    config = model.get_config()
    bias = oracle.bias(graph, tables, config["edges"], config["max_hops"])
    sort = None if config["mixer"]["name"] == "attention" else "paper"
    for index in range(config["num_layers"]):
        names = ["mixer_norm", "mlp_norm", "mlp_in", "mlp_out"]
        block = {name: part(f"block_{index}/{name}") for name in names}
        for name in ("query", "key", "value", "output"):
            block[name] = part(f"block_{index}/mixer/{name}")
        tokens = oracle.block(tokens, bias, block, sort)
    gamma, beta = part("head_norm")
    centered = tokens[0] - tokens[0].mean()
    normed = centered / np.sqrt((centered**2).mean() + 1e-5) * gamma + beta
    kernel, offset = part("head")
    return np.array(config["mean"]) + config["std"] * (normed @ kernel + offset)


@pytest.mark.parametrize(
    ("class_name", "edges"), [("Graphormer", "multi_hop"), ("SliceGraphormer", "single")]
)
def test_predictions_match_oracle(class_name, edges):
    """The oracle does not pad graphs, so padding must not change predictions."""
    model = tiny(class_name, edges=edges, max_hops=3)
    wanted = [oracle_values(model, graph) for graph in parse_smiles(SMILES)]
    assert_close(model.predict(SMILES, verbose=0), wanted, kind="model")
    padded = from_smiles(SMILES, nodes=13, hops=20)
    assert_close(model.predict(padded, verbose=0), wanted, kind="model")


@pytest.mark.once
def test_molecules_as_strings():
    model = tiny("SliceGraphormer")
    graphs = from_smiles(SMILES)  # has more arrays than the model uses
    expected = model.predict(graphs, verbose=0)
    for strings in (SMILES, tuple(SMILES), np.array(SMILES), np.array(SMILES, object)):
        assert_close(model.predict(strings, verbose=0), expected)
    assert_close(to_numpy(model(SMILES)), expected)
    assert_close(to_numpy(model(graphs)), expected)
    assert_close(model.predict_on_batch(SMILES), expected)
    taken = {name: graphs[name] for name in model.input}
    assert "edge_input" not in taken
    for tokens, wanted in zip(model.features(graphs), model.features(taken), strict=True):
        np.testing.assert_array_equal(to_numpy(tokens), to_numpy(wanted))


@pytest.mark.once
def test_predict_command_with_molecules_and_files(tmp_path, capsys):
    ethanol = tmp_path / "ethanol.json"
    nodes, edges = (array.tolist() for array in parse_smiles(["CCO"])[0])
    ethanol.write_text(json.dumps({"nodes": nodes, "edges": edges}))
    model = SliceGraphormer.from_preset("test")
    (values,) = model.predict(["CCO"], verbose=0)
    with pytest.raises(ValueError, match="`smiles` must be a list of str.*Received: smiles='CCO'"):
        model.predict("CCO")
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"`y` must be an array of numbers.*'-0\.7'"):
        model.fit(["CCO"], [["-0.7", "1", "2"]])
    assert main(["predict", "slicegraphormer/test", "CCO", str(ethanol)]) == 0
    first, *lines, second, red, green, blue = capsys.readouterr().out.splitlines()
    assert (first, second, lines) == ("CCO", str(ethanol), [red, green, blue])
    numbers, labels = zip(*(line.split() for line in lines), strict=True)
    assert labels == model.labels
    assert_close([float(number) for number in numbers], values)
    assert main(["predict", "slicegraphormer/test", "CCO", "C1"]) == 1
    answer, error = capsys.readouterr()
    assert answer.splitlines() == ["CCO", *lines]
    assert error == "permix: error: `smiles` must be valid SMILES. Received: smiles[0]='C1'\n"
    (tmp_path / "molecules.smi").write_text("CCO\n")
    source = ["--from", str(tmp_path / "molecules.smi"), "--out", str(tmp_path / "answers.jsonl")]
    assert main(["predict", "slicegraphormer/test", *source]) == 0
    row = json.loads((tmp_path / "answers.jsonl").read_text())
    assert row.pop("input") == "CCO" and tuple(row) == model.labels
    assert_close(list(row.values()), values)
    capsys.readouterr()
    ethanol.write_text("5")
    assert main(["predict", "slicegraphormer/test", str(ethanol), "CCO"]) == 1
    answer, error = capsys.readouterr()
    assert answer.splitlines() == ["CCO", *lines] and f"{ethanol} (not a JSON object)" in error


@pytest.mark.once
@pytest.mark.filterwarnings("error::UserWarning")
def test_molecules_outside_domain_warn():
    model = tiny("SliceGraphormer", domain=dict(elements=[6, 8], max_atoms=4))
    inside = ["CCO", "CCOC", "[H]C([H])O"]
    known = model.predict(inside, verbose=0)
    for smiles, found in (
        ("CCN", "'CCN' of 3 atoms, of C, N$"),
        ("CCCCO", "'CCCCO' of 5 atoms, of C, O$"),
        ("*C", r"'\*C' of 2 atoms, of C, \*$"),
    ):
        with pytest.warns(UserWarning, match=f"up to 4 atoms, of C, O.* 1 of 4 .*{found}"):
            values = model.predict([*inside, smiles], verbose=0)
        assert_close(values[:3], known)
    tiny("SliceGraphormer").predict(["[U]"], verbose=0)


@pytest.mark.once
def test_predict_command_prints_units(tmp_path, capsys):
    for target_units, printed in (("eV", ["eV"] * 3), (["eV", "", "bohr³"], ["eV", None, "bohr³"])):
        tiny("SliceGraphormer", target_units=target_units).save_to_preset(tmp_path / "preset")
        assert main(["predict", str(tmp_path / "preset"), "CCO"]) == 0
        answers = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
        assert [words[1] if len(words) > 2 else None for words in answers] == printed


@pytest.mark.once
def test_mean_and_std_scale_predictions():
    plain = tiny("Graphormer", mean=0.0, std=1.0).predict(SMILES, verbose=0)
    both = tiny("Graphormer", mean=7, std=[1, 2, 3]).predict(SMILES, verbose=0)
    assert_close(both, 7 + plain * [1, 2, 3])


@pytest.mark.once
def test_new_number_of_targets_resets_head_and_units(tmp_path):
    tiny("Graphormer", target_units="eV").save_to_preset(tmp_path / "preset")
    same, other = (Graphormer.from_preset(tmp_path / "preset", targets=n) for n in (3, 5))
    assert same.get_config()["mean"] == [1.0, 2.0, 3.0]
    assert (other.get_config()["mean"], other.get_config()["std"]) == (0.0, 1.0)
    assert (same.get_config()["target_units"], other.get_config()["target_units"]) == ("eV", "")
    for ours, theirs in zip(other.backbone.weights, same.backbone.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs))
    given = Graphormer.from_preset(tmp_path / "preset", targets=1, mean=4.0)
    assert (given.output_shape, given.get_config()["mean"]) == ((None, 1), 4.0)
    named = Graphormer.from_preset(tmp_path / "preset", labels=["gap", "charge"])
    assert (named.output_shape, named.labels) == ((None, 2), ("gap", "charge"))


def test_all_tables_train_except_padding():
    model = tiny("Graphormer")
    tables = [*model.get_layer("graphormer_bias").weights]
    tables += model.get_layer("graph_embedding").weights
    before = [to_numpy(weight) for weight in tables]
    model.compile(keras.optimizers.SGD(10.0), "mse")
    batch = {name: array[:2] for name, array in from_smiles(SMILES).items()}
    model.fit(Pipeline(batch, np.zeros((2, 3)), batch_size=2), verbose=0)
    for weight, old in zip(tables, before, strict=True):
        changed = np.any(to_numpy(weight) != old, axis=-1)
        assert np.isfinite(to_numpy(weight)).all() and changed.any()
        if weight.name not in ("virtual_node", "virtual_distance", "hop_table"):
            assert not changed[0]


@pytest.mark.once
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(x=None), "Missing data for input .x"),
        (
            dict(attn_bias=np.zeros((1, 3, 3))),
            r"`attn_bias` must begin with \(1, 4, 4\).*\(1, 3, 3\)",
        ),
        (dict(in_degree=np.ones((1, 1), int)), r"`in_degree` must begin with \(1, 3\).*\(1, 1\)"),
        (dict(out_degree=np.ones((1, 3))), "`out_degree` must be integers.*float"),
        (dict(x=np.ones((1, 3, 2), int)), r"'x' .*shape=\(1, 3, 2\)"),
        (
            dict(spatial_pos=np.full((1, 3, 3), 512)),
            "`spatial_pos` must be integers in .0, 512.*to 512",
        ),
        (dict(x=np.full((1, 3, 9), 4609)), "`x` must be integers in .0, 4609.*4609"),
        (dict(x=np.full((1, 3, 9), -1)), "`x` must be integers in .*from -1"),
        (dict(edge_input=np.full((1, 3, 3, 2, 3), 1537)), "`edge_input` .*0, 1537.*1537"),
    ],
)
def test_invalid_graphs_raise(change, message):
    graphs = {**from_smiles(["CCO"]), **change}
    graphs = {name: array for name, array in graphs.items() if array is not None}
    with pytest.raises(ValueError, match=f"(?s){message}"):
        tiny("Graphormer").predict(graphs, verbose=0)


@pytest.mark.once
def test_invalid_inputs_raise():
    with pytest.raises(ValueError, match=r"'x' .*None, 2\).*\(1, 3, 9\)"):
        tiny("Graphormer", node_features=2).predict(["CCO"], verbose=0)
    with pytest.raises(ValueError, match=r"must be valid SMILES.*smiles\[1\]='C1'"):
        tiny("Graphormer").predict(["CCO", "C1"], verbose=0)
    with pytest.raises(ValueError, match="`x` must be images.* Received: .*CCO"):
        tiny("CSPViT").predict(["CCO"], verbose=0)


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(targets=0), "`targets` must be a positive integer.*0"),
        (dict(hidden_dim=10, num_heads=4), "`num_heads` must divide the width.*num_heads=4"),
        (dict(mixer="csp"), "`mixer` must be one of.*'csp'"),
        (dict(edges="double"), "`edges` must be one of.*'double'"),
        (dict(max_hops=0), "`max_hops` must be a positive integer.*0"),
        (dict(input_dropout=1.0), r"`input_dropout` must be in \[0, 1\).*1.0"),
        (dict(targets=2, mean=[1.0]), r"`mean` must contain one finite value per target.*\[1.0\]"),
        (dict(std=np.nan), "`std` must contain one finite value per target.*nan"),
        (dict(std=0), "`std` must be positive.*0"),
        (dict(targets=3, target_units=["eV"]), r"`target_units` must name all 3.*\['eV'\]"),
        (dict(domain={"element": [6]}), "Did you mean `elements`"),
    ],
)
def test_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=message):
        tiny("Graphormer", **{"targets": 1, "mean": 0.0, **arguments})
