"""Test text, pair and graph tasks: training, presets, evaluation and prediction."""

import json
import re
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_permix import zoo
from keras_permix.cli import main
from keras_permix.tasks import task_of
from keras_permix.training import train
from keras_permix.zoo import ZooModel
from keras_permix.zoo.presets.probe import verify_probe
from tests.harness import assert_close
from tests.tasks import toys
from tests.zoo.models import tiny

EMPTY = Path(__file__).with_name("__init__.py")  # an empty file
METRICS = {"text": "accuracy", "pairs": "accuracy", "graphs": "mae"}


@pytest.fixture(scope="module", autouse=True)
def _registered():
    with toys.registered():
        yield


# Pairs differ from texts only in how they are read.
KINDS = [pytest.param(kind, marks=[pytest.mark.once] * (kind == "pairs")) for kind in toys.KINDS]


@pytest.fixture(scope="module", params=KINDS)
def project(request, tmp_path_factory):
    """Finish a run, and return `(kind, folder, recipe, Trained)`."""
    folder = tmp_path_factory.mktemp(request.param)
    recipe = toys.write_project(folder, request.param)
    done = train(recipe, out=folder / "run", data_dir=folder, verbose=0)
    return request.param, folder, recipe, done


def expected_lines(kind, model, inputs):
    """Format the output of a model for one input as `permix predict` prints it."""
    output = keras.ops.convert_to_numpy(model(inputs, training=False))[0].astype("float64")
    if kind == "graphs":
        return [f"  {v:.6g}  {n}" for v, n in zip(output, ("degree", "feature"), strict=True)]
    probabilities = np.exp(output) / np.exp(output).sum()
    best = np.argsort(-probabilities)
    return [f"  {100 * probabilities[i]:6.2f} %  many {'ab'[i]}" for i in best]


def test_run_learns_and_writes_logs(project):
    kind, folder, _, done = project
    first, last = done.rows[0], done.rows[-1]
    assert last["loss"] < first["loss"] and last["val_loss"] < first["val_loss"]
    key = f"toy_{kind}/test/{METRICS[kind]}"
    if kind == "graphs":
        parts = ["_degree", "_feature", "_of_mean"]
        assert list(done.scores) == [key, *(f"{key}{part}" for part in parts)]
        both = [done.scores[f"{key}{part}"] for part in parts[:2]]
        assert done.scores[key] == pytest.approx(np.mean(both), rel=1e-3)  # rounded
        lines = ((folder / f"{part}.jsonl").read_text().splitlines() for part in ("train", "test"))
        rows = [map(json.loads, part) for part in lines]
        train, test = (np.array([[row["degree"], row["feature"]] for row in part]) for part in rows)
        baseline = np.mean(abs(test - train.mean(0)))
        assert done.scores[f"{key}_of_mean"] == pytest.approx(baseline, rel=1e-3)
        assert done.scores[key] < first["val_mae"]
    else:
        names = {score.rpartition("/")[2] for score in done.scores}
        assert names == {METRICS[kind], "f1", "auc"} and done.scores[key] >= 0.9
    assert (folder / "run" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert f"val_{METRICS[kind]}" in (folder / "run" / "log.csv").read_text().splitlines()[0]


def test_preset_metadata(project):
    kind, folder, recipe, done = project
    preset = folder / "run" / "preset"
    metadata = json.loads((preset / "metadata.json").read_text())
    task = json.loads((preset / "task.json").read_text())
    assert task["task"] == done.model.task
    labels = ["degree", "feature"] if kind == "graphs" else ["many a", "many b"]
    assert metadata["labels"] == task["labels"] == labels
    outputs = {"outputs": "values", "targets": 2}
    assert outputs.items() <= task.items() or task["num_classes"] == 2
    expected = {} if kind == "graphs" else {"vocabulary_size": 257, "max_sequence_length": 16}
    assert metadata["input"] == expected
    assert metadata["scores"] == done.scores and metadata["data"] == f"toy_{kind}"
    assert metadata["data_options"]["train"] == "train.jsonl"
    assert metadata["recipe"] == str(recipe) and metadata["command"] == f"permix train {recipe}"
    assert not (preset / "preprocessor.json").exists()


def test_model_card(project):
    kind, folder, _, done = project
    card = (folder / "run" / "README.md").read_text(encoding="utf-8")
    name = type(done.model).__name__
    assert card.startswith(f"# {name.lower()}/tiny\n") and f'{name}.from_preset("preset")' in card
    score = next(iter(done.scores.values()))
    shown = f"{score:.4g}" if kind == "graphs" else f"{100 * score:.2f} %"
    assert f"| toy_{kind}/test/{METRICS[kind]} | {shown} | – |" in card
    assert done.model.task.replace("_", " ") in card and "image" not in card


def test_preset_loads_and_verifies(project, capsys):
    kind, folder, _, done = project
    preset = folder / "run" / "preset"
    loaded = ZooModel.from_preset(preset)
    assert type(loaded) is type(done.model)
    inputs = loaded.make_inputs(5, 3)
    for ours, trained in zip(loaded.get_weights(), done.model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, trained.astype("float16").astype("float32"))
    error, atol = verify_probe(preset)
    assert error <= atol
    assert main(["verify", "--here", str(preset)]) == 0
    assert json.loads(capsys.readouterr().out)["error"] == error
    (tokens,) = loaded.features(inputs)
    assert tokens.shape[0] == (6 if kind == "pairs" else 3) and tokens.shape[-1] == 8


def test_verify_probe_detects_mismatch(project, tmp_path):
    _, _, _, done = project
    done.model.save_to_preset(tmp_path / "preset")
    path = tmp_path / "preset" / "metadata.json"
    metadata = json.loads(path.read_text())
    metadata["probe"]["outputs"][1][0] += 1
    path.write_text(json.dumps(metadata))
    error, atol = verify_probe(tmp_path / "preset")
    assert error == pytest.approx(1, abs=1e-3) and error > atol


def test_new_head(project):
    kind, folder, _, done = project
    change = {"targets": 3} if kind == "graphs" else {"num_classes": 3}
    model = ZooModel.from_preset(folder / "run" / "preset", **change)
    assert model.output_shape == (None, 3)
    path = "embedding/tokens/embeddings" if kind == "pairs" else "embedding/embeddings"
    kept = {weight.path: weight for weight in model.weights}[path]
    stored = {weight.path: weight for weight in done.model.weights}[path]
    expected = keras.ops.convert_to_numpy(stored).astype("float16").astype("float32")
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(kept), expected)


def test_resumed_run_matches_uninterrupted_run(project, tmp_path):
    _, folder, recipe, done = project

    class Stop(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe, out=tmp_path, data_dir=folder, verbose=0, callbacks=[Stop()])
    again = train(recipe, out=tmp_path, data_dir=folder, verbose=0)
    assert [{**row, "seconds": 0} for row in again.rows] == [
        {**row, "seconds": 0} for row in done.rows
    ]
    for ours, theirs in zip(again.model.get_weights(), done.model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_evaluate(project, capsys):
    kind, folder, _, done = project
    assert main(["evaluate", str(folder / "run" / "preset"), "--data-dir", str(folder)]) == 0
    key, score = next(iter(done.scores.items()))
    shown = f"{score:.4g}" if kind == "graphs" else f"{100 * score:.2f} %"
    assert f"{key}: {shown}" in capsys.readouterr().out


def test_predict(project, tmp_path, capsys):
    kind, folder, _, _ = project
    preset = folder / "run" / "preset"
    model = ZooModel.from_preset(preset)
    row = json.loads((folder / "test.jsonl").read_text().splitlines()[0])
    if kind == "graphs":
        (tmp_path / "graph.json").write_text(json.dumps(row), encoding="utf-8-sig")
        words = [str(tmp_path / "graph.json")]
        ids = np.array(row["nodes"])[None] + 2
        degree = np.bincount(np.array(row["edges"])[:, :2].ravel())[None] + 1
        inputs = {"x": ids, "in_degree": degree}
    else:
        (tmp_path / "text.txt").write_text(row["text"], encoding="utf-8-sig")
        words = [f"@{tmp_path / 'text.txt'}", *([row["text2"]] if kind == "pairs" else [])]
        texts = [row["text"], *([row["text2"]] if kind == "pairs" else [])]
        tokens = [[byte + 1 for byte in text.encode()] for text in texts]
        tokens = np.array([ids + [0] * (16 - len(ids)) for ids in tokens])[None]
        tokens = tokens if kind == "pairs" else tokens[:, 0]
        inputs = {"tokens": tokens, "mask": tokens > 0}
    assert main(["predict", str(preset), *words, *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    answer = [" ".join(words), *expected_lines(kind, model, inputs)]
    assert lines == answer + answer


def test_predict_each_line_of_a_file(tmp_path, capsys):
    model = dict(toys.KINDS["text"][0])
    zoo.MODELS[model.pop("class_name")](**model).save_to_preset(tmp_path / "preset")
    lines = ["@name thanks", "one\u2028line", "form\x0cfeed"]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    out = tmp_path / "out.jsonl"
    arguments = ["--from", str(tmp_path / "lines.txt"), "--out", str(out)]
    assert main(["predict", str(tmp_path / "preset"), *arguments]) == 0
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").split("\n")[:-1]]
    assert [row["input"] for row in rows] == lines


def test_smoke_run(project, tmp_path, capsys, monkeypatch):
    kind, _, recipe, _ = project
    monkeypatch.chdir(tmp_path)  # a folder without data
    assert main(["train", str(recipe), "--smoke", "--verbose", "0"]) == 0
    (out,) = tmp_path.glob("runs/*/*")
    assert out.name == "tiny_smoke" and not (out / "README.md").exists()
    assert f"generated/test/{METRICS[kind]}" in capsys.readouterr().out
    metadata = json.loads((out / "preset" / "metadata.json").read_text())
    assert metadata["data"] == "generated" and metadata["data_options"] is None
    assert metadata["command"].endswith("--smoke")


def test_generated_data_can_be_learned(project):
    kind, _, _, done = project
    task = task_of(done.model)
    data = task.generate(64)
    inputs, targets = data.train
    if kind == "graphs":
        degree = inputs["in_degree"]
        means = [(row[row > 0] - 1).mean() for row in degree]
        assert_close(targets[:, 0], means)
    else:
        means = [
            np.mean(tokens[mask])
            for tokens, mask in zip(inputs["tokens"], inputs["mask"], strict=True)
        ]
        below, above = (np.array(means)[targets == label] for label in (0, 1))
        assert below.max() <= above.min() and min(len(below), len(above)) > 20
    assert len(data.test[1]) == 16 and len(data.labels) == 2


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"augmentation": {"flip": True}}, "`augmentation` requires images.*flip"),
        ({"model": {"class_name": "Nonsense"}}, "class_name='Nonsense'"),
    ],
)
def test_unsupported_recipe_raises(project, tmp_path, change, rule):
    _, folder, recipe, _ = project
    with pytest.raises(ValueError, match=rule):
        train(recipe, **change, out=tmp_path, data_dir=folder, verbose=0)


@pytest.mark.parametrize(
    ("kind", "words", "rule"),
    [
        ("text", ["@nowhere.txt"], "`INPUT` must be a text, or `@FILE`.*nowhere.txt"),
        ("text", [__file__], f"`INPUT` must be a text, or.*{__file__}, a file: write @{__file__}"),
        ("text", [""], "`INPUT` must be a text, or `@FILE`.*Received: '', which is empty"),
        ("text", [f"@{EMPTY}"], f"Received: '@{EMPTY}', which is empty"),
        ("pairs", ["one", " "], "Received: ' ', which is empty"),
        (
            "pairs",
            ["only one"],
            r"`INPUT` or .* must give 2 inputs per .*Received: \[\['only one'\]\]",
        ),
        ("graphs", ["nowhere.json"], "`INPUT` must be a JSON file of one graph.*nowhere.json"),
    ],
)
def test_unreadable_inputs_print_errors(kind, words, rule, tmp_path, capsys):
    model = dict(toys.KINDS[kind][0])
    zoo.MODELS[model.pop("class_name")](**model).save_to_preset(tmp_path / "preset")
    code = 2 if words == ["only one"] else 1  # the second text is missing
    assert main(["predict", str(tmp_path / "preset"), *words]) == code
    output, error = capsys.readouterr()
    assert output == "" and re.search(rule, error), error


def test_answer_does_not_call_get_config(monkeypatch):
    """Keras would import TensorFlow to serialize the configuration."""
    model = tiny()
    monkeypatch.setattr(type(model), "get_config", None)
    assert len(task_of(model).answer(np.zeros(3, "float32"), top=2)) == 2


def test_model_without_task_raises():
    class Idle(zoo.CSPViT):
        @classmethod
        def task_for(cls, config):
            return None

    with pytest.raises(ValueError, match="`Idle.task` must be one of .* Received: Idle.task=None"):
        task_of(Idle(image_size=8, patch_size=2, hidden_dim=8, num_layers=1, mlp_dim=8))
