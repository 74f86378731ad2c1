"""Test regression and multi-label classification of images and texts."""

import csv
import json

import keras
import numpy as np
import pytest
from PIL import Image

from keras_permix.cli import main
from keras_permix.data import read_image
from keras_permix.training import load_recipe, train
from keras_permix.zoo import CSPViT, ZooModel

COLORS = ("blue", "green", "red")
SETTINGS = dict(
    init="cspvit/test", batch_size=8, verbose=0, schedule={"name": "constant"},
    optimizer={"name": "adam", "learning_rate": 0.02}, augmentation={"flip": False},
    data={"keep": 1.0, "random_crop": False},
)  # fmt: skip


def write_photos(folder, rows):
    """Write a list of images with the pixel levels of its rows. Returns its path."""
    rng = np.random.default_rng(0)
    folder.mkdir(exist_ok=True)
    for number, row in enumerate(rows):
        levels = row.pop("levels")
        pixels = np.clip(rng.normal(levels, 4, (8, 8, 3)), 0, 255).astype("uint8")
        Image.fromarray(pixels).save(folder / f"{number}.png")
        row["path"] = f"{number}.png"
        row["split"] = "test" if number % 4 == 3 else "train"
    with open(folder / "photos.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder / "photos.csv"


def numbers(folder, column="age"):
    return write_photos(folder, [{"levels": 6 * n, column: 20 + n} for n in range(40)])


def several(folder):
    """Write images with several labels. Half of the images have each color, 1 in 8 has none."""
    shown = [[name for bit, name in enumerate(COLORS) if n >> bit & 1] for n in range(8)]
    rows = [
        {"levels": [220 if name in some else 30 for name in ("red", "green", "blue")],
         "label": ";".join(some)}
        for some in 5 * [shown[n] for n in (0, 7, 1, 6, 2, 5, 3, 4)]
    ]  # fmt: skip
    return write_photos(folder, rows)


class Stop(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise KeyboardInterrupt


@pytest.mark.once
def test_image_regression(tmp_path, capsys):
    photos = numbers(tmp_path / "list")
    done = train(photos, out=tmp_path / "run", epochs=6, **SETTINGS)
    model, preset = done.model, str(tmp_path / "run/preset")
    assert (model.task, model.labels) == ("image_regression", ("age",))
    ages = [20 + n for n in range(40) if n % 4 != 3]
    assert model.get_config()["target_mean"] == pytest.approx(np.mean(ages), abs=0.01)
    assert model.get_config()["target_std"] == pytest.approx(np.std(ages), rel=1e-3)
    assert list(done.scores) == ["photos/test/mae", "photos/test/mae_of_mean"]
    assert done.scores["photos/test/mae"] < done.scores["photos/test/mae_of_mean"] * 0.7

    with pytest.raises(KeyboardInterrupt):
        train(photos, out=tmp_path / "other", epochs=6, callbacks=[Stop()], **SETTINGS)
    again = train(photos, out=tmp_path / "other", epochs=6, **SETTINGS)
    drop = [{k: v for k, v in row.items() if k != "seconds"} for row in again.rows]
    assert drop == [{k: v for k, v in row.items() if k != "seconds"} for row in done.rows]

    loaded = CSPViT.from_preset(preset)
    images = [read_image(tmp_path / f"list/{n}.png") for n in range(3, 40, 4)]
    values = loaded.predict(images, verbose=0)[:, 0]
    errors = np.abs(values - np.arange(23, 60, 4))
    assert done.scores["photos/test/mae"] == pytest.approx(errors.mean(), rel=2e-3)
    with pytest.raises(ValueError, match="at least 2 classes.*predicts='values'"):
        loaded.classify(images)
    task = json.loads((tmp_path / "run/preset/task.json").read_text(encoding="utf-8"))
    assert task == {
        "task": "image_regression",
        "outputs": "values",
        "targets": 1,
        "labels": ["age"],
    }
    card = (tmp_path / "run/README.md").read_text(encoding="utf-8")
    assert "Task: image regression." in card and "Output: age." in card

    capsys.readouterr()
    assert main(["evaluate", preset, "--out", str(tmp_path / "ages.csv")]) == 0
    assert "photos/test/mae: " in capsys.readouterr().out
    with open(tmp_path / "ages.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["age"]) for row in rows] == list(range(23, 60, 4))
    np.testing.assert_allclose([float(row["predicted age"]) for row in rows], values, rtol=1e-4)
    assert main(["evaluate", preset, "--data-path", str(photos)]) == 0
    capsys.readouterr()
    assert main(["predict", preset, str(tmp_path / "list/3.png")]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [f"{values[0]:.6g}", "age"]


@pytest.mark.once
def test_multilabel_image_classification(tmp_path, capsys):
    photos = several(tmp_path / "list")
    done = train(photos, out=tmp_path / "run", epochs=12, **SETTINGS)
    model, preset = done.model, str(tmp_path / "run/preset")
    assert (model.task, model.labels) == ("multilabel_image_classification", COLORS)
    assert done.rows[-1]["loss"] < 0.6 * done.rows[0]["loss"] and "val_exact" in done.rows[0]
    assert done.scores["photos/test/auc"] > 0.9
    assert sorted(done.scores) == [f"photos/test/{key}" for key in ("auc", "exact", "f1")]

    loaded = CSPViT.from_preset(preset)
    images = [read_image(tmp_path / f"list/{n}.png") for n in range(3, 40, 4)]
    logits = loaded.predict(images, verbose=0).astype("float64")
    for found, row in zip(loaded.classify(images), logits, strict=True):
        expected = {name: 1 / (1 + np.exp(-x)) for name, x in zip(COLORS, row, strict=True)}
        assert dict(found) == pytest.approx(expected, rel=1e-5)
        assert [chance for _, chance in found] == pytest.approx(sorted(expected.values())[::-1])

    capsys.readouterr()
    assert main(["evaluate", preset, "--out", str(tmp_path / "colors.csv")]) == 0
    output = capsys.readouterr().out
    assert "F1 and AUC per label:\n  blue " in output and "  5 samples\n" in output
    with open(tmp_path / "colors.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    predicted = [";".join(n for n, x in zip(COLORS, row, strict=True) if x > 0) for row in logits]
    assert [row["predicted"] for row in rows] == predicted
    assert not (tmp_path / "colors_confusion.csv").exists()
    out = str(tmp_path / "answers.jsonl")
    assert main(["predict", preset, str(tmp_path / "list/3.png"), "--out", out]) == 0
    (line,) = (tmp_path / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    assert list(json.loads(line)) == ["input", *COLORS]


@pytest.mark.once
@pytest.mark.parametrize(
    ("lines", "predicts", "labels"),
    [
        (["path,label", "a.png,3.5", "b.png,4"], "values", None),
        (["path,label", "a.png,3", "b.png,4"], None, None),
        (["path,label", "a.png,3.5", "b.png,cat"], None, None),
        (["path,label", "a.png,cat|dog", "b.png,cat"], "labels", None),
        (["path,age", "a.png,3", "b.png,4"], "values", ["age"]),
        (["path,width,split,height", "a.png,3,train,1", "b.png,4,test,0"], "values",
         ["width", "height"]),
        (["path,cat,dog", "a.png,0,1", "b.png,1,1"], "labels", ["cat", "dog"]),
        (["path,kind", "a.png,cat", "b.png,dog"], None, None),
    ],
)  # fmt: skip
def test_task_of_image_list(lines, predicts, labels, tmp_path):
    (tmp_path / "photos.csv").write_text("\n".join(lines), encoding="utf-8")
    recipe = load_recipe(tmp_path / "photos.csv", init="cspvit/test")
    assert recipe.model.get("predicts") == predicts and recipe.data.get("labels") == labels
    moved = predicts != "values"  # Flips and crops would change numbers such as positions.
    assert (recipe.augmentation.get("flip"), recipe.data.get("random_crop", True)) == (
        moved or None,
        moved,
    )


TEXTS = """
batch_size = 4
epochs = 2
data = { name = "notes", train = "train.csv", test = "test.csv" }
[model]
class_name = "LRATransformer"
max_sequence_length = 16
hidden_dim = 8
num_layers = 1
mlp_dim = 8
predicts = "PREDICTS"
"""


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("predicts", ["labels", "values"])
@pytest.mark.parametrize("smoke", [False, True])
def test_text_regression_and_multilabel_classification(predicts, smoke, pairs, tmp_path, capsys):
    targets = {"labels": ("long|new", "new", "", "long"), "values": ("1", "-2.5", "3", "4")}
    columns, second = ("text,text2,label", ",other") if pairs else ("text,label", "")
    for part in ("train", "test"):
        rows = [f"text number {n}{second},{y}" for n, y in enumerate(targets[predicts])]
        (tmp_path / f"{part}.csv").write_text("\n".join([columns, *rows]), encoding="utf-8")
    text = TEXTS.replace("PREDICTS", predicts) + f"pairs = {str(pairs).lower()}\n"
    (tmp_path / "notes.toml").write_text(text, encoding="utf-8")
    done = train(
        tmp_path / "notes.toml", data_dir=tmp_path, out=tmp_path / "run", verbose=0, smoke=smoke,
        batch_size=4,
    )  # fmt: skip
    names = {"labels": ("long", "new"), "values": ("label",)}[predicts]
    word, inputs = ("pair", ("one", "two")) if pairs else ("text", "one")
    kind = {"labels": f"multilabel_{word}_classification", "values": f"{word}_regression"}[predicts]
    assert done.model.task == kind and done.model.predict([inputs], verbose=0).shape[0] == 1
    if smoke:
        return
    assert done.model.labels == names
    preset = str(tmp_path / "run/preset")
    assert ZooModel.from_preset(preset).labels == names
    capsys.readouterr()
    assert main(["evaluate", preset, "--data-path", str(tmp_path / "test.csv")]) == 0
    assert main(["predict", preset, *["a new text", "another"][: 1 + pairs]]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] in names
