"""Test `permix list`, `info` and `verify`."""

import re
import shutil

import keras
import numpy as np
import pytest

from keras_permix._backend import installed_backends
from keras_permix.analysis import macs
from keras_permix.cli import main
from keras_permix.cli.verify import verify_here
from keras_permix.layers import CSP, SoftmaxAttention
from keras_permix.zoo import MODELS
from tests.zoo.models import edit_json, tiny


@pytest.mark.filterwarnings("ignore:.*does not have a `quantize` method")
def test_presets_of_one_backend_on_every_backend(tmp_path, capsys):
    tiny("CSPViT").save_to_preset(tmp_path / "plain")
    tiny("SliceViT", dtype="mixed_bfloat16").save_to_preset(
        tmp_path / "mixed", weights_dtype="float16"
    )
    quantized = tiny("ViT")
    quantized.quantize("int8")
    quantized.save_to_preset(tmp_path / "quantized")
    wrong = shutil.copytree(tmp_path / "plain", tmp_path / "wrong")
    edit_json(wrong / "metadata.json", lambda m: m["probe"]["outputs"][0].__setitem__(0, 9.0))
    torn = shutil.copytree(tmp_path / "plain", tmp_path / "torn")
    (torn / "task.json").unlink()

    folders = sorted(str(path) for path in tmp_path.iterdir())
    assert [main(["verify", "--here", folder]) for folder in folders] == [0, 0, 0, 1, 1]
    capsys.readouterr()
    assert main(["verify", *folders]) == 1
    output, progress = (text.splitlines() for text in capsys.readouterr())
    assert progress == [f"{backend}: 5 presets" for backend in installed_backends()]
    verdicts = {tuple(line.split()[:2]): line.rpartition("  ")[2] for line in output[2:]}
    for backend in installed_backends():
        for name in ("plain", "mixed", "quantized"):
            assert verdicts[str(tmp_path / name), backend] == "pass", output
        assert verdicts[str(wrong), backend] == "FAIL: outputs differ"
        assert verdicts[str(torn), backend] == "FAIL: see below"
        problem = f"{torn} on {backend}: The preset must contain `task.json`"
        assert any(line.startswith(problem) for line in output)


def test_verify_with_unknown_backend_exits_with_error(capsys):
    assert main(["verify", "--backend", "abacus", "cspvit/test"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("permix: error: `--backend` must be an installed backend")
    assert error.endswith("Received: --backend=abacus\n")


@pytest.mark.once
@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "slicevit/dogs_vs_cats"],
        ["predict", "slicevit/dogs_vs_cats", "cat.png"],
    ],
)
def test_untrained_preset_exits_with_error(arguments, capsys):
    assert main(arguments) == 2
    output, error = capsys.readouterr()
    rule = (
        "The preset slicevit/dogs_vs_cats has no weights. Trained presets of this class: "
        "slicevit/cifar10_small, slicevit/mnist. To train slicevit/dogs_vs_cats, run `permix train"
    )
    assert output == "" and error.startswith(f"permix: error: {rule}")


def test_list(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["preset", "class", "parameters", "weights", "measured"]
    assert {line.split()[1] for line in lines[1:]} >= set(MODELS)
    test = next(line for line in lines if line.startswith("cspvit/test"))
    assert test.split() == ["cspvit/test", "CSPViT", "1,187", "yes", "–"]
    untrained = next(line for line in lines if line.startswith("slicevit/dogs_vs_cats"))
    assert "permix train slicevit/dogs_vs_cats" in untrained


def test_info(capsys):
    assert main(["info", "cspvit/test"]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[2:])
    assert shown["class"] == "CSPViT" and shown["labels"] == "red, green, blue"
    assert shown["parameters"] == "1,187" and shown["MACs"] == "15,072"
    assert shown["input"].startswith("size 8, ") and shown["input"].endswith("range [0, 255]")
    assert shown["measured"] == "–" and shown["image_size"] == "8" and shown["dtype"] == "float32"
    assert main(["info", "slicevit/dogs_vs_cats"]) == 0
    planned = capsys.readouterr().out
    assert "none yet: permix train slicevit/dogs_vs_cats" in planned
    assert "1,112,706" in planned  # parameters


@pytest.mark.once
def test_info_of_model_class(capsys):
    small = ["--set", "image_size=64", "--set", "num_classes=200"]
    assert main(["info", "CSPViT", "--set", "patch_size=8", *small]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[2:])
    assert shown["class"] == "CSPViT" and shown["num_classes"] == "200"
    assert "cspvit/tiny_imagenet" in shown["presets"].split(", ")
    assert main(["info", "patchonlymlpmixer"]) == 0
    assert re.search(r"^parameters +807,082$", capsys.readouterr().out, re.M)  # Dimension Mixer
    assert main(["info", "CSPViT", "--set", "hidden_dmi=64"]) == 2
    assert "Did you mean `hidden_dim`?" in capsys.readouterr().err


@pytest.mark.once
def test_info_of_preset_at_other_image_size(capsys):
    assert main(["info", "cspvit/test", "--set", "image_size=16"]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[2:])
    assert shown["image_size"] == "16" and shown["input"].startswith("size 16, ")
    assert main(["info", "cspvit/test", "--set", "mixer.group_size=4"]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[2:])
    assert '"name": "csp"' in shown["mixer"] and '"group_size": 4' in shown["mixer"]


@pytest.mark.once
def test_verify_reports_any_error(monkeypatch):
    def fail(preset):
        raise KeyError("weights")

    monkeypatch.setattr("keras_permix.zoo.presets.probe.verify_probe", fail)
    assert verify_here("cspvit/test") == {"preset": "cspvit/test", "problem": "KeyError('weights')"}


@pytest.mark.once
def test_info_marks_scores_of_unmodified_preset(capsys):
    def shown(*changes):
        assert main(["info", "cspvit/mnist", *(w for c in changes for w in ("--set", c))]) == 0
        return dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[2:])

    stored = shown()
    assert stored["weights"] == "yes" and stored["labels"].startswith("0, 1, 2")
    assert stored == shown("num_classes=10")
    other = shown("num_classes=3")
    assert other["labels"] == "–" and other["weights"] == "yes, of the preset without --set"
    assert other["measured"] == f"{stored['measured']}, of the preset without --set"


def test_info_of_keras_file(tmp_path, capsys):
    inputs = keras.Input((64, 128), name="tokens")
    keras.Model(inputs, CSP()(inputs)).save(tmp_path / "mine.keras")
    assert main(["info", str(tmp_path / "mine.keras")]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[2:])
    assert shown["input"] == "tokens (64, 128)"
    assert shown["parameters"] == f"{2 * 128 * 128 + 128:,}"  # no bias for values
    assert shown["MACs"] == f"{2 * 64 * 128 * 128:,}"
    free = keras.Input((None, 128))
    keras.Model(free, CSP()(free)).save(tmp_path / "free.keras")
    assert main(["info", str(tmp_path / "free.keras")]) == 0
    assert "  – (an input has no fixed size)" in capsys.readouterr().out
    tiny("SliceViT").save(tmp_path / "zoo.keras")
    assert main(["info", str(tmp_path / "zoo.keras")]) == 0
    assert re.search("^task +image_classification$", capsys.readouterr().out, re.M)
    (tmp_path / "mine.keras").write_bytes(b"no file of Keras")
    for path, words, message in (
        ("mine.keras", [], "File not found"),
        ("other.keras", [], "File not found"),
        ("mine.keras", ["--set", "hidden_dim=64"], "`--set` requires a preset or a class"),
    ):
        assert main(["info", str(tmp_path / path), *words]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and message in error and path in error


@pytest.mark.once
def test_info_shows_path_of_recipe(capsys):
    assert main(["info", "cspvit/mnist"]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[2:])
    assert shown["recipe"] == "zoo/cspvit/mnist/recipe.toml"


def test_info_lists_layers_without_mac_count(capsys, monkeypatch):
    monkeypatch.delitem(macs.RULES, SoftmaxAttention)
    assert main(["info", "vit/test"]) == 0
    assert re.search(r"^MACs +[0-9,]+, without 2 SoftmaxAttention$", capsys.readouterr().out, re.M)


@pytest.mark.parametrize("command", ["info", "evaluate"])
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nonsense", ""),
        ("cspvit/tset", "Did you mean cspvit/test? "),
        ("imdb", "Did you mean lratransformer/imdb? "),
        ("mnist", "Did you mean cspvit/mnist or slicevit/mnist? "),
    ],
)
def test_unknown_preset_exits_with_error(command, name, hint, capsys):
    assert main([command, name]) == 2
    output, error = capsys.readouterr()
    rule = "`preset` must be a name (see `permix list`), a folder that exists, or a"
    assert output == "" and error.startswith(f"permix: error: {rule}")
    assert error.endswith(f"hf://…. {hint}Received: {name!r}\n")


def test_missing_command_exits_with_error(capsys):
    with pytest.raises(SystemExit, match="2"):
        main([])
    assert "COMMAND" in capsys.readouterr().err


def test_format_scores_in_percent():
    from keras_permix.cli.common import format_scores

    assert format_scores({"a/test/top1": 0.75125, "b": None}) == "a/test/top1 75.12 %"
    assert format_scores({"a": None}) == format_scores(None) == "–"
    assert np.isclose(float(format_scores({"a/test/accuracy": 0.5}).split()[1]), 50)
