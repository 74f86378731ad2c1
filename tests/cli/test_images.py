"""Test `permix predict` and `permix evaluate` with images."""

import collections
import csv
import hashlib
import io
import json
import os
import re
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_permix import data, zoo
from keras_permix.cli import main
from keras_permix.cli.evaluate import data_of
from keras_permix.data import Dataset
from keras_permix.data.images.sets import SETS

Image = pytest.importorskip("PIL.Image", reason="reading images needs Pillow")


@pytest.fixture(autouse=True)
def registered_sets(monkeypatch):
    """Register the data sets of these tests."""
    for name in ("toys", "gray"):
        monkeypatch.setitem(SETS, name, None)


@pytest.fixture
def pixels():
    return np.random.default_rng(5).integers(0, 256, (40, 8, 8, 3), dtype="uint8")


def expected_logits(images):
    model = zoo.CSPViT.from_preset("test")
    return keras.ops.convert_to_numpy(model(images, training=False))


def test_predict(tmp_path, capsys, pixels):
    paths = [str(tmp_path / f"{index}.png") for index in range(2)]
    for path, image in zip(paths, pixels[:2], strict=True):
        Image.fromarray(image).save(path)
    assert main(["predict", "cspvit/test", "--top", "2", *paths]) == 0
    lines = capsys.readouterr().out.splitlines()
    logits = expected_logits(pixels[:2])
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    for index, path in enumerate(paths):
        best = np.argsort(-probabilities[index])[:2]
        labels = np.array(["red", "green", "blue"])[best]
        values = 100 * probabilities[index][best]
        expected = [path, *(f"  {v:6.2f} %  {n}" for v, n in zip(values, labels, strict=True))]
        assert lines[3 * index : 3 * index + 3] == expected


def test_predict_on_gray_and_transparent_images(tmp_path, capsys, pixels):
    gray, clear = tmp_path / "gray.png", tmp_path / "clear.png"
    Image.fromarray(pixels[0, :, :, 0]).resize((30, 20)).save(gray)
    Image.fromarray(pixels[0]).convert("RGBA").save(clear)
    assert main(["predict", "cspvit/test", str(gray), str(clear)]) == 0
    assert capsys.readouterr().out.count("%") == 6


def test_predict_applies_exif_orientation(tmp_path, capsys, pixels):
    upright, rotated = tmp_path / "upright.png", tmp_path / "rotated.png"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels[0]).save(upright)
    Image.fromarray(np.rot90(pixels[0])).save(rotated, exif=exif)
    assert main(["predict", "cspvit/test", str(upright), str(rotated)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == lines[5:8]


@pytest.mark.parametrize("content", [None, b"this is no image"])
def test_predict_on_invalid_image_exits_with_error(tmp_path, capsys, content):
    path = tmp_path / "image.png"
    if content is not None:
        path.write_bytes(content)
    assert main(["predict", "cspvit/test", str(path)]) == 1
    output, error = capsys.readouterr()
    assert output == ""
    assert error.startswith("permix: error: `INPUT` must be an image. ")
    assert str(path) in error and error.count("\n") == 1


def test_predict_continues_after_invalid_image(tmp_path, capsys, pixels):
    paths = [str(tmp_path / f"{index}.png") for index in range(4)]
    for path in paths[::2]:
        Image.fromarray(pixels[0]).save(path)
    Path(paths[1]).write_bytes(b"this is no image")  # and the last one is missing
    assert main(["predict", "cspvit/test", *paths]) == 1
    output, error = capsys.readouterr()
    assert [line for line in output.splitlines() if line[0] != " "] == paths[::2]
    assert output.count("%") == 6
    first, second = error.splitlines()
    assert paths[1] in first and paths[3] in second
    assert first.startswith("permix: error: `INPUT` must be an image. ")


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_predict_writes_names_that_are_not_utf8(tmp_path, pixels, ending):
    path = os.fsencode(tmp_path / "images" / "caf") + b"\xe9.png"
    (tmp_path / "images").mkdir()
    with open(path, "wb") as file:
        Image.fromarray(pixels[0]).save(file, "png")
    out = tmp_path / f"answers.{ending}"
    assert main(["predict", "cspvit/test", str(tmp_path / "images"), "--out", str(out)]) == 0
    assert r"caf\udce9.png" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_predict_writes_predictions_of_folder(tmp_path, capsys, pixels, ending):
    for index, folder in enumerate(("a", "b", ".hidden")):
        (tmp_path / "images" / folder).mkdir(parents=True)
        Image.fromarray(pixels[index]).save(tmp_path / "images" / folder / "1.png")
    (tmp_path / "images/b/2.png").write_bytes(b"this is no image")
    out = tmp_path / "new" / f"answers.{ending}"
    arguments = ["predict", "cspvit/test", str(tmp_path / "images"), "--out", str(out)]
    assert main([*arguments, "--top", "1"]) == 1
    assert capsys.readouterr().err.count("permix: error: `INPUT` must be an image") == 1
    text = out.read_text(encoding="utf-8")
    if ending == "csv":
        rows = list(csv.DictReader(text.splitlines()))
    else:
        rows = [json.loads(line) for line in text.splitlines()]
    names = ["a/1.png", "b/1.png", "b/2.png"]
    assert [row["input"] for row in rows] == [str(tmp_path / "images" / name) for name in names]
    logits = expected_logits(pixels[:2])
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    for row, expected in zip(rows, probabilities, strict=False):
        assert row["label_1"] == ("red", "green", "blue")[expected.argmax()]
        assert abs(float(row["probability_1"]) - expected.max()) < 1e-5
    assert rows[2]["error"].startswith("`INPUT` must be an image") and not rows[2].get("label_1")


def test_predict_to_unknown_format_exits_with_error(tmp_path, capsys):
    assert main(["predict", "no/such", "a.png", "--out", str(tmp_path / "a.txt")]) == 2
    assert "`--out` must end in .csv or .jsonl. Received: " in capsys.readouterr().err


def test_predict_without_inputs_exits_with_error(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for inputs in ([], [str(tmp_path / "empty")]):
        assert main(["predict", "cspvit/test", *inputs]) == 2
        assert "`INPUT` or `--from` must give" in capsys.readouterr().err


def test_predict_with_top_zero_exits_with_error(capsys):
    assert main(["predict", "cspvit/test", "a.png", "--top", "0"]) == 2
    assert "`--top` must be a positive integer. Received: --top=0" in capsys.readouterr().err


@pytest.fixture
def toys(monkeypatch, pixels):
    """Register "toys", a data set on which the test preset reaches 75 % accuracy.

    Returns the arguments of each call of `load_images`.
    """
    labels = expected_logits(pixels).argmax(1).astype("int32")
    labels[::4] = (labels[::4] + 1) % 3
    names = ("red", "green", "blue")
    toys = Dataset("toys", (pixels, labels), (pixels, labels), names)
    calls = []

    def load_images(name, data_dir=None):
        calls.append((name, str(data_dir)))
        return toys

    monkeypatch.setattr(data, "load_images", load_images)
    return calls


def test_evaluate(toys, tmp_path, capsys, pixels):
    arguments = ["--data", "toys", "--data-dir", "here", "--batch-size", "16"]
    path = tmp_path / "scores.json"
    assert main(["evaluate", "cspvit/test", *arguments, "--out", str(path)]) == 0
    assert toys == [("toys", "here")]
    printed = capsys.readouterr().out
    assert f"toys/test/top1: 75.00 %\nscored: {len(pixels)} samples\n" in printed
    assert json.loads(path.read_text()) == {"toys/test/top1": 0.75}


def test_evaluate_writes_per_class_tables(toys, tmp_path, capsys, pixels):
    path = tmp_path / "new" / "toys.csv"
    assert main(["evaluate", "cspvit/test", "--data", "toys", "--out", str(path)]) == 0
    predicted = expected_logits(pixels).argmax(1)
    labels = predicted.copy()
    labels[::4] = (labels[::4] + 1) % 3
    printed = capsys.readouterr().out
    names = ("red", "green", "blue")
    expected = [[int(np.sum((labels == a) & (predicted == b))) for b in range(3)] for a in range(3)]
    for name, row, number in zip(names, expected, range(3), strict=True):
        share = f"{100 * row[number] / sum(row):6.2f} %" if sum(row) else "     – "
        assert f"\n  {name:5}  {share}  of {sum(row)} sample" in printed
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == [names[label] for label in labels]
    assert [row["predicted"] for row in rows] == [names[label] for label in predicted]
    assert all(abs(sum(float(row[name]) for name in names) - 1) < 1e-5 for row in rows)
    with open(path.with_name("toys_confusion.csv"), newline="") as file:
        header, *table = csv.reader(file)
    assert header == ["label", *names]
    assert [list(map(int, row[1:])) for row in table] == expected
    assert path.with_name("toys_confusion.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("out", ["toys", "toys.txt"])
def test_evaluate_to_unknown_format_exits_with_error(out, toys, capsys):
    assert main(["evaluate", "cspvit/test", "--data", "toys", "--out", out]) == 2
    assert f"`--out` must end in .json or .csv. Received: {out}" in capsys.readouterr().err
    assert not toys


def test_evaluate_at_other_image_size(toys, pixels, capsys):
    """The preset keeps its weights and the order of its classes."""
    assert main(["evaluate", "cspvit/test", "--data", "toys", "--set", "image_size=12"]) == 0
    logits = zoo.CSPViT.from_preset("test", image_size=12).predict(pixels, verbose=0)
    labels = expected_logits(pixels).argmax(1)
    labels[::4] = (labels[::4] + 1) % 3
    right = np.mean(logits.argmax(1) == labels)
    assert f"toys/test/top1: {100 * right:.2f} %" in capsys.readouterr().out
    assert main(["evaluate", "cspvit/test", "--data", "toys", "--set", "imagesize=12"]) == 2
    assert "Did you mean `image_size`?" in capsys.readouterr().err


def test_evaluate_with_wrong_channels_exits_with_error(monkeypatch, capsys, pixels):
    gray = (pixels[..., :1], np.zeros(len(pixels), "int32"))
    dataset = Dataset("gray", gray, gray, ("red", "green", "blue"))
    monkeypatch.setattr(data, "load_images", lambda *args, **kwargs: dataset)
    assert main(["evaluate", "cspvit/test", "--data", "gray"]) == 2
    assert "(batch, height, width, 3)." in capsys.readouterr().err


def test_evaluate_preset_of_tfds_data(monkeypatch, tmp_path, capsys, pixels):
    """The preset stores how its data are read."""
    labels = expected_logits(pixels).argmax(1).astype("int32")
    calls = []

    def tfds_images(name, image_size, data_dir=None, *, splits, random_crop, seed):
        options = dict(splits=splits, random_crop=random_crop, seed=seed)
        calls.append((name, image_size, str(data_dir), options))
        return Dataset(name, (pixels, labels), (pixels[:8], labels[:8]), ("red", "green", "blue"))

    monkeypatch.setattr(data, "tfds_images", tfds_images)
    options = dict(source="tfds", splits=("train", "validation"), random_crop=True)
    model = zoo.CSPViT.from_preset("test")
    model.save_to_preset(tmp_path / "preset", data="birds", data_options=options)
    assert main(["evaluate", str(tmp_path / "preset"), "--data-dir", "here"]) == 0
    splits = dict(splits=["train", "validation"], random_crop=True, seed=0)
    assert calls == [("birds", 8, "here", splits)]
    assert "birds/test/top1: 100.00 %" in capsys.readouterr().out


PHOTOS = dict(source="folder", path="old/photos", test_fraction=0.2)
REVIEWS = dict(train="mine.csv", test="held.csv", fields=["review"])
LISTED = dict(train="mine.csv", test="mine.csv", splits=["train", "test"])


def all_of(file, **read):
    return dict(name=Path(file).stem, train=file, test=file, **read)


@pytest.mark.parametrize(
    ("model", "name", "options", "data", "path", "expected"),
    [
        ("CSPViT", "photos", PHOTOS, None, None, None),
        ("CSPViT", "photos", PHOTOS, None, "old/../old/photos", None),
        ("CSPViT", "photos", PHOTOS, "photos", None, None),
        ("CSPViT", "photos", PHOTOS, None, "photos", dict(path="photos", splits=(".", "."))),
        ("CSPViT", "gone", PHOTOS, "gone", None, None),
        ("SimpleTRON", "mine", REVIEWS, "mine", None, None),
        ("SimpleTRON", "mine", REVIEWS, None, "mine.csv", all_of("mine.csv", fields=["review"])),
        ("SimpleTRON", "mine", REVIEWS, None, "held.csv", all_of("held.csv", fields=["review"])),
        ("SimpleTRON", "mine", LISTED, None, "mine.csv", None),
    ],
)
def test_data_of_preset_and_arguments(
    model, name, options, data, path, expected, tmp_path, monkeypatch
):
    """`expected=None` means the data of the preset."""
    monkeypatch.chdir(tmp_path)
    for folder in ("photos/cats", "old/photos/cats"):
        Path(folder).mkdir(parents=True)
    for file in ("mine.csv", "held.csv"):
        Path(file).write_text("review,label\n")
    preset = getattr(zoo, model).from_preset("test")
    preset.save_to_preset("preset", data=name, data_options=options)
    found = data_of(zoo.preset_info("preset"), data, path)
    stored = {"name": name, **options}
    assert found == stored if expected is None else expected.items() <= found.items()
    assert expected is None or "test_fraction" not in found


def test_evaluate_preset_without_data_exits_with_error(tmp_path, capsys):
    zoo.CSPViT.from_preset("test").save_to_preset(tmp_path / "preset")
    rules = {
        str(tmp_path / "preset"): f"`--data` or `--data-path`. Received: {tmp_path / 'preset'}",
        "cspvit/test": "`name` must be one of .* Received: name='none: the weights are random'",
    }
    for preset, rule in rules.items():
        assert main(["evaluate", preset]) == 2
        assert re.search(rule, capsys.readouterr().err)


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_each_file_is_opened_once(command, toys, tmp_path, monkeypatch, capsys, pixels):
    """Presets may be on a network or a slow disk."""
    folder = tmp_path / "preset"
    zoo.CSPViT.from_preset("test").save_to_preset(folder, data="toys")
    Image.fromarray(pixels[0]).save(tmp_path / "image.png")
    opened, hashed = collections.Counter(), []
    open_file, sha256 = io.open, hashlib.sha256

    def counting_open(file, *args, **kwargs):
        if str(file).startswith(str(folder)):
            opened[Path(file).name] += 1
        return open_file(file, *args, **kwargs)

    def counting_sha256(content=b"", **kwargs):
        if content:  # Other hashes start empty.
            hashed.append(len(content))
        return sha256(content, **kwargs)

    sizes = sorted(path.stat().st_size for path in folder.iterdir() if "metadata" not in path.name)
    names = sorted(path.name for path in folder.iterdir())
    monkeypatch.setattr("builtins.open", counting_open)
    monkeypatch.setattr("io.open", counting_open)
    monkeypatch.setattr("hashlib.sha256", counting_sha256)
    more = [str(tmp_path / "image.png")] if command == "predict" else []
    assert main([command, str(folder), *more]) == 0
    assert opened == dict.fromkeys(names, 1)
    assert sorted(hashed) == sizes


@pytest.mark.parametrize(
    ("labels", "options", "advice"),
    [
        (("green", "red", "pink"), [], True),
        (("green", "red", "blue"), [], False),  # the order is wrong, not the names
        (("green", "red", "blue"), ["--by-order"], False),
    ],
)
def test_evaluate_on_other_classes_exits_with_error(
    labels, options, advice, monkeypatch, capsys, pixels
):
    part = (pixels, np.zeros(len(pixels), "int32"))
    dataset = Dataset("toys", part, part, labels)
    monkeypatch.setattr(data, "load_images", lambda *args, **kwargs: dataset)
    assert main(["evaluate", "cspvit/test", "--data", "toys", *options]) == 2
    error = capsys.readouterr().err
    assert ("--by-order" in error) == advice
    assert "of 3 names differ: 0: 'green', not 'red'; 1: 'red', not 'green'" in error


def test_evaluate_by_order_ignores_class_names(monkeypatch, capsys, pixels):
    labels = expected_logits(pixels).argmax(1).astype("int32")
    dataset = Dataset("toys", (pixels, labels), (pixels, labels), ("rouge", "vert", "bleu"))
    monkeypatch.setattr(data, "load_images", lambda *args, **kwargs: dataset)
    assert main(["evaluate", "cspvit/test", "--data", "toys", "--by-order"]) == 0
    printed = capsys.readouterr().out
    assert "toys/test/top1: 100.00 %" in printed
    assert all(pair in printed for pair in ("rouge = red", "vert = green", "bleu = blue"))


def test_evaluate_on_unknown_data_exits_with_error(capsys):
    assert main(["evaluate", "cspvit/test", "--data", "nonsense"]) == 2
    error = capsys.readouterr().err
    assert "`name` must be one of ('cifar10'," in error and "name='nonsense'" in error
    assert main(["evaluate", "cspvit/test", "--data-path", "nonsense"]) == 2
    error = capsys.readouterr().err
    assert "`--data-path` must be data" in error and "Received: nonsense\n" in error


def test_evaluate_with_missing_class_exits_with_error(tmp_path, capsys, pixels):
    for name in ("red", "blue", "pink"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.fromarray(pixels[0]).save(tmp_path / "photos" / name / "a.png")
    (tmp_path / "photos/pink").rename(tmp_path / "pink")
    data = ["--data-path", str(tmp_path / "photos")]
    assert main(["evaluate", "cspvit/test", *data]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.endswith("photos with missing ['green'] and others []\n")
    for name in ("pink", "green"):
        (tmp_path / "photos" / name).mkdir()
        Image.fromarray(pixels[0]).save(tmp_path / "photos" / name / "a.png")
    assert main(["evaluate", "cspvit/test", *data]) == 2
    error = capsys.readouterr().err
    assert error.endswith("photos with missing [] and others ['pink']\n")


def test_missing_data_folder_exits_with_error(tmp_path, monkeypatch, capsys):
    gone, data = str(tmp_path / "gone"), ["evaluate", "cspvit/mnist"]
    monkeypatch.setattr(keras.datasets.mnist, "load_data", None)
    assert main([*data, "--data-dir", gone]) == 2
    rule = "must be an existing folder. Received: "
    assert capsys.readouterr().err.endswith(f"`data_dir` (`--data-dir`) {rule}{gone}\n")
    monkeypatch.setenv("KERAS_PERMIX_DATA", gone)
    assert main(data) == 2
    assert capsys.readouterr().err.endswith(f"`KERAS_PERMIX_DATA` {rule}{gone}\n")
