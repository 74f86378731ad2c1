"""Test training on image folders and lists: presets, frozen layers, splits and errors."""

import json
import re
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from keras_permix.cli import main
from keras_permix.cli.evaluate import data_of
from keras_permix.data import Dataset
from keras_permix.tasks import TASKS, task_of
from keras_permix.training import load_recipe, make_model, train
from keras_permix.training.fit import described
from keras_permix.training.model import fit_outputs, freeze
from keras_permix.training.optimizers import make_optimizer
from keras_permix.training.run_folder import check_place
from keras_permix.zoo import CSPViT, preset_info
from keras_permix.zoo.registry import MODELS
from tests.training.runs import as_toml
from tests.zoo.models import tiny, weights

pytestmark = pytest.mark.once  # Other tests cover training and heads on every backend.

# Starts from the test preset: three classes of 8 x 8 images.
RECIPE = """
init = "cspvit/test"
freeze = "backbone"
batch_size = 8
epochs = 2
data = { name = "pets", source = "folder", test_fraction = 0.25, random_crop = false, keep = 1.0 }
optimizer = { name = "lion", learning_rate = 1e-2 }
"""


def write(folder, classes=("cats", "dogs")):
    """Write images of several sizes and a recipe. Returns the path of the recipe."""
    rng = np.random.default_rng(0)
    for number, name in enumerate(classes):
        (folder / "pets" / name).mkdir(parents=True)
        for image in range(12):
            pixels = rng.integers(0, 120, (20 + image, 30, 3)) + 120 * (number % 2)
            Image.fromarray(pixels.astype("uint8")).save(folder / f"pets/{name}/{image}.png")
    (folder / "mine").mkdir()
    (folder / "mine/recipe.toml").write_text(RECIPE, encoding="utf-8")
    return folder / "mine/recipe.toml"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    return folder, train(write(folder), data_dir=folder, out=folder / "run", verbose=0)


def test_preset_stores_labels_of_folder(trained):
    folder, done = trained
    assert done.model.labels == ("cats", "dogs") and done.model.output_shape == (None, 2)
    preset = folder / "run/preset"
    assert CSPViT.from_preset(preset).labels == ("cats", "dogs")
    metadata = json.loads((preset / "metadata.json").read_text(encoding="utf-8"))
    assert metadata["data"] == "pets" and metadata["data_options"]["test_fraction"] == 0.25
    assert (folder / "run/README.md").read_text(encoding="utf-8").startswith("# cspvit/mine\n")


def test_only_unfrozen_weights_change(trained):
    _, done = trained
    before, after = weights(CSPViT.from_preset("test")), weights(done.model)
    changed = {path for path in after if not np.array_equal(after[path], before.get(path))}
    assert changed == {"head_norm/gamma", "head_norm/beta", "head/kernel", "head/bias"}
    assert type(done.model.optimizer).__name__ == "Lion"


def test_evaluate_and_predict_with_trained_preset(trained, capsys):
    folder, done = trained
    preset = str(folder / "run/preset")
    assert main(["evaluate", preset, "--data", "pets", "--data-dir", str(folder)]) == 0
    score = done.scores["pets/test/top1"]
    assert f"pets/test/top1: {100 * score:.2f} %" in capsys.readouterr().out
    assert main(["predict", preset, str(folder / "pets/cats/0.png")]) == 0
    assert {line.split()[-1] for line in capsys.readouterr().out.splitlines()[1:]} == {
        "cats",
        "dogs",
    }


def test_evaluate_preset_on_other_images(trained, tmp_path, capsys):
    folder, _ = trained
    preset, found, rows = str(folder / "run/preset"), [], ["path,label"]
    for image, label in enumerate(("cats", "cats", "cats", "dogs")):
        file = folder / f"pets/cats/{image}.png"
        assert main(["predict", preset, str(file)]) == 0
        found.append(capsys.readouterr().out.splitlines()[1].split()[-1] == label)
        (tmp_path / "new" / label).mkdir(parents=True, exist_ok=True)
        (tmp_path / f"new/{label}/{image}.png").write_bytes(file.read_bytes())
        rows.append(f"new/{label}/{image}.png,{label}")
    (tmp_path / "new.csv").write_text("\n".join(rows), encoding="utf-8")
    for data in (tmp_path / "new", tmp_path / "new.csv"):
        assert main(["evaluate", preset, "--data-path", str(data)]) == 0
        assert f"new/test/top1: {np.mean(found):.2%}".replace("%", " %") in capsys.readouterr().out


def test_evaluate_finds_named_classes_by_name(tmp_path, capsys):
    data = dict(name="pets", source="folder", test_fraction=0.25, labels=["tench", "spaniel"])
    recipe = write(tmp_path, classes=("n01", "n02"))
    train(recipe, data_dir=tmp_path, out=tmp_path / "run", verbose=0, epochs=1, data=data)
    shutil.move(tmp_path / "pets/n01", tmp_path / "mine/tench")
    shutil.move(tmp_path / "pets/n02", tmp_path / "mine/spaniel")
    (tmp_path / "mine/recipe.toml").unlink()
    for image in range(4):
        (tmp_path / f"mine/spaniel/{image}.png").unlink()
    words = ["evaluate", str(tmp_path / "run/preset"), "--data-path", str(tmp_path / "mine")]
    assert main(words) == 0
    found = re.findall(r"(tench|spaniel) .* of (\d+) samples", capsys.readouterr().out)
    assert found == [("tench", "12"), ("spaniel", "8")], "in the order of the model"


def test_finished_run_is_not_repeated(trained):
    folder, done = trained
    again = train(folder / "mine/recipe.toml", data_dir=folder, out=folder / "run", verbose=0)
    assert again.rows == done.rows and again.scores == done.scores
    for path, value in weights(again.model).items():
        np.testing.assert_array_equal(value, weights(done.model)[path])


def test_init_option_starts_from_preset(tmp_path, capsys):
    recipe = write(tmp_path)
    text = RECIPE.replace('init = "cspvit/test"', 'model = { class_name = "CSPViT" }')
    recipe.write_text(text, encoding="utf-8")
    options = ["--data-dir", str(tmp_path), "--out", str(tmp_path / "run"), "--verbose", "0"]
    shape = ["--init", "cspvit/test", "--set", "epochs=1"]
    assert main(["train", str(recipe), *shape, *options]) == 0
    command = json.loads((tmp_path / "run/run.json").read_text(encoding="utf-8"))["command"]
    assert command.endswith(" --init cspvit/test")
    assert CSPViT.from_preset(tmp_path / "run/preset").get_config()["hidden_dim"] == 8
    options[1] = str(tmp_path / "gone")  # Missing data are not changed data.
    assert main(["train", str(recipe), *shape, *options]) == 0
    assert "this run is finished" in capsys.readouterr().out


def recipe(tmp_path, **changes):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE, encoding="utf-8")
    return replace(load_recipe(path, model={"class_name": "CSPViT"}), **changes)


def empty_dataset(*labels):
    return Dataset("data", ([], []), ([], []), labels)


def test_same_labels_keep_head(tmp_path):
    values = recipe(tmp_path)
    model = make_model(values)
    assert fit_outputs(model, values, empty_dataset("red", "green", "blue")) is model
    other = fit_outputs(model, values, empty_dataset("a", "b", "c"))
    assert other.labels == ("a", "b", "c")
    assert not np.array_equal(weights(other)["head/kernel"], weights(model)["head/kernel"])


def test_head_without_init_has_classes_of_data(tmp_path):
    small = dict(
        class_name="CSPViT", image_size=8, patch_size=2, hidden_dim=8, num_layers=1, mlp_dim=8
    )
    values = recipe(tmp_path, init=None, model=small)
    model = fit_outputs(make_model(values), values, empty_dataset(*"abcd"))
    assert model.output_shape == (None, 4) and model.labels == tuple("abcd")


def test_freeze_layers_by_name():
    model = tiny()
    freeze(model, ["patch_embedding", "block_*"])
    layers = {weight.path.split("/")[0] for weight in model.trainable_weights}
    assert layers == {"position_embedding", "head_norm", "head"}
    freeze(model, ["backbone"])
    assert {weight.path.split("/")[0] for weight in model.trainable_weights} == {
        "head_norm", "head",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "rule"),
    [("neck", "`freeze` must be .*head.*freeze='neck'"), ("*", "leaves no trainable weights")],
)
def test_invalid_freeze_raises(parts, rule):
    with pytest.raises(ValueError, match=rule):
        freeze(tiny(), parts)


def test_model_class_must_match_preset(tmp_path):
    with pytest.raises(ValueError, match="`preset` must be of ViT. Received: 'cspvit/test'"):
        make_model(recipe(tmp_path, model={"class_name": "ViT"}))


def test_invalid_optimizer_argument_raises(tmp_path):
    optimizer = dict(name="sgd", learning_rate=1.0, momentum=2.0)
    with pytest.raises(ValueError, match="momentum"):
        make_optimizer(recipe(tmp_path, optimizer=optimizer), 10)


def photos(folder, parts=("",), count=6):
    """Write images of two classes to each of the given subfolders."""
    for part in parts:
        for name, level in (("cats", 40), ("dogs", 200)):
            (folder / part / name).mkdir(parents=True)
            for image in range(count):
                pixels = np.full((10, 12, 3), level + image, "uint8")
                Image.fromarray(pixels).save(folder / part / name / f"{image}.png")


def test_train_on_folder_without_recipe(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    photos(tmp_path / "my.photos")
    options = ["--set", "batch_size=8", "--epochs", "1", "--freeze", "backbone", "--verbose", "0"]
    rest = ["--init", "cspvit/test", *options]
    command = ["train", "my.photos/", *rest]
    assert main(command) == 0
    out = tmp_path / "runs/cspvit/my.photos"
    output = capsys.readouterr().out
    assert "my.photos/test/top1: " in output
    assert f"predict: permix predict {out.relative_to(tmp_path)}/preset INPUT" in output
    assert CSPViT.from_preset(out / "preset").labels == ("cats", "dogs")
    assert "`backbone` was frozen" in (out / "README.md").read_text(encoding="utf-8")
    assert main(["evaluate", str(out / "preset")]) == 0
    for data in (None, "my.photos/", str(tmp_path / "my.photos")):
        assert data_of(preset_info(out / "preset"), path=data)["test_fraction"] == 0.2
    capsys.readouterr()
    spellings = ("my.photos/", str(tmp_path / "my.photos"), "my.photos/../my.photos")
    for data in spellings:  # of the same path
        assert main(["train", data, *rest]) == 0
        assert "this run is finished" in capsys.readouterr().out
    Image.new("RGB", (9, 9)).save(tmp_path / "my.photos/cats/one_more.png")
    assert main(command) == 2
    output, error = capsys.readouterr()
    assert output == "" and "no run of other data" in error
    assert "my.photos with train 10 samples, " in error


def test_unreadable_images_raise_or_are_skipped(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    photos(tmp_path / "photos")
    for name in ("cats/1.png", "dogs/4.png"):
        whole = (tmp_path / "photos" / name).read_bytes()
        (tmp_path / "photos" / name).write_bytes(whole[: len(whole) // 2])
    command = ["train", "photos", "--init", "cspvit/test", "--epochs", "1", "--set", "batch_size=4"]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "Received: 2 of 12 unreadable: photos/cats/1.png, photos/dogs/4.png (" in error
    assert error.count("\n") == 1 and not (tmp_path / "runs").exists()
    with pytest.warns(UserWarning, match="skipped: 2 of 12 unreadable: photos/cats/1.png"):
        assert main([*command, "--skip-unreadable", "--verbose", "0"]) == 0
    log = (tmp_path / "runs/cspvit/photos/run.json").read_text(encoding="utf-8")
    assert "--set data.skip_unreadable=true" in log
    with pytest.warns(UserWarning, match="skipped"):
        data = dict(name="photos", source="folder", path="photos", splits=[".", "."])
        read = task_of(CSPViT.from_preset("test")).load({**data, "skip_unreadable": True})
    assert len(read.train[0]) == 10 and len(read.train[0].read(range(10))[0]) == 10


def test_evaluate_after_data_moved(trained, tmp_path, monkeypatch, capsys):
    folder, _ = trained
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", str(folder / "run/preset")]) == 2
    error = capsys.readouterr().err
    assert "No such file or directory: 'pets'" in error
    where = {
        "--data-dir": (folder, ", held out from training"),
        "--data-path": (folder / "pets", ""),
    }
    for option, (path, note) in where.items():
        assert main(["evaluate", str(folder / "run/preset"), option, str(path)]) == 0
        assert f" samples{note}\n" in capsys.readouterr().out


def held_out(path):
    """Return the paths of the test images and the number of training images."""
    data = load_recipe(path, init="cspvit/test").data
    dataset = task_of(CSPViT.from_preset("test")).load(data)
    records = dataset.test[0].records.files
    return sorted("/".join(file.parts[-3:]) for file, _ in records), len(dataset.train[0])


def test_held_out_images_of_folder(tmp_path):
    photos(tmp_path / "parted", ("train", "val"), count=2)
    expected = [f"val/{name}/{image}.png" for name in ("cats", "dogs") for image in range(2)]
    assert held_out(tmp_path / "parted") == (expected, 4)
    photos(tmp_path / "whole", count=10)
    files, left = held_out(tmp_path / "whole")
    assert (len(files), left) == (4, 16) and len([f for f in files if "cats" in f]) == 2


@pytest.mark.parametrize(
    ("parts", "held", "watched"),
    [
        (("Train", "Test"), "Test", None),
        (("training", "testing"), "testing", None),
        (("train", "val", "test"), "test", "val"),
        (("train", "dev"), "dev", None),
    ],
)
def test_split_folder_names(tmp_path, parts, held, watched):
    """Folders and lists give the same splits."""
    photos(tmp_path / "parted", parts, count=2)
    files = [f"{name}/{image}.png" for name in ("cats", "dogs") for image in range(2)]
    assert held_out(tmp_path / "parted") == ([f"{held}/{file}" for file in files], 4)
    rows = [f"parted/{part}/{file}\t{file[:4]}\t{part}" for part in parts for file in files]
    (tmp_path / "LIST.TSV").write_text("\n".join(["path\tlabel\tsplit", *rows]), encoding="utf-8")
    assert held_out(tmp_path / "LIST.TSV") == held_out(tmp_path / "parted")
    for path in (tmp_path / "parted", tmp_path / "LIST.TSV"):
        data = load_recipe(path, init="cspvit/test").data
        dataset = task_of(CSPViT.from_preset("test")).load(data)
        summary = described(dataset, 2, None)
        samples = "4 validation, 4 test samples" if watched else "4 samples, 4 test samples"
        assert f"{samples}, 2 classes" in summary
        watch = dataset.validation
        assert (watch is None) == (watched is None)
        if watched:
            assert {file.parts[-3] for file, _ in watch[0].records.files} == {watched}


def test_classes_may_have_names_of_splits(tmp_path):
    for name in ("test", "testing", "cats"):
        (tmp_path / name).mkdir()
    recipe = load_recipe(tmp_path, init="cspvit/test")
    assert "splits" not in recipe.data and recipe.data["test_fraction"] == 0.2


def test_split_with_two_names_raises(tmp_path):
    photos(tmp_path, ("train", "test", "testing"), count=1)
    with pytest.raises(ValueError, match=r"must have one name. Received: \['test', 'testing'\]"):
        load_recipe(tmp_path, init="cspvit/test")


def test_split_column_of_list(tmp_path):
    photos(tmp_path, count=2)
    rows = [f"{name}/{image}.png,{name}" for name in ("cats", "dogs") for image in range(2)]
    split = ["train", "test", "train", "test"]
    lines = ["path,label,split", *map(",".join, zip(rows, split, strict=True))]
    (tmp_path / "list.csv").write_text("\n".join(lines), encoding="utf-8")
    files, left = held_out(tmp_path / "list.csv")
    assert left == 2 and [file.split("/", 1)[1] for file in files] == ["cats/1.png", "dogs/1.png"]
    text = (tmp_path / "list.csv").read_text(encoding="utf-8")
    (tmp_path / "list.csv").write_text(text.replace(",test", ",val"), encoding="utf-8")
    assert held_out(tmp_path / "list.csv") == (files, left)


@pytest.mark.parametrize("splits", ["train train", "train test cats", "train none", "test test"])
def test_invalid_split_column_exits_with_error(splits, tmp_path, capsys):
    rows = [f"cats/{n}.png,cats,{part}" for n, part in enumerate(splits.split())]
    (tmp_path / "list.csv").write_text("\n".join(["path,label,split", *rows]), encoding="utf-8")
    assert main(["train", str(tmp_path / "list.csv"), "--init", "cspvit/test"]) == 2
    found = capsys.readouterr().err
    assert re.search(r"column `split` must contain train, .*Received: .*list.csv$", found)
    assert all(part in found.split("Received")[1] for part in splits.split())


@pytest.mark.parametrize(
    ("init", "task"),
    [
        ("slicegraphormer/qm9_gap", "graph_regression"),
        ("lratransformer/test", "text_classification"),
    ],
)
def test_preset_without_image_input_exits_with_error(init, task, tmp_path, capsys):
    photos(tmp_path / "photos", count=2)
    assert main(["train", str(tmp_path / "photos"), "--init", init]) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert "require a model of images. For other files, write a recipe with" in error
    assert re.search(rf"Received: data={{.*'source': 'folder'.*}} for {task}$", error)


def test_init_of_other_class_exits_with_error(capsys):
    assert main(["train", "lratransformer/imdb", "--init", "cspvit/test"]) == 2
    output, error = capsys.readouterr()
    rule = "`preset` must be of LRATransformer. Received: 'cspvit/test' of CSPViT\n"
    assert output == "" and error.endswith(rule)


@pytest.mark.parametrize(
    ("made", "init", "rule"),
    [
        ((), "cspvit/test", "a folder per class.*photos with 0 classes"),
        (
            ("train/cats/a.png", "train/dogs/b.png"),
            "cspvit/test",
            "photos must contain .*'train'. only",
        ),
        (
            ("val/cats/a.png", "__MACOSX/val/a.png"),
            "cspvit/test",
            "photos must contain .*'val'. only",
        ),
        (("a.png",), "cspvit/test", "a folder per class.*photos with 0 classes"),
        (("cats/a.png", "cats/b.png", "cats/c.png"), "cspvit/test", "at least two classes"),
        (("cats/a.txt", "dogs/b.txt"), "cspvit/test", "end in .avif.*without images in .'cats'"),
        ([f"{c}/{n}.png" for c in "ab" for n in range(3)], "cspvit/test", "must be readable.*a/"),
        (("cats/a.png", "dogs/b.png"), None, "`init` .*--init cspvit/cifar10_small"),
    ],
)
def test_invalid_folder_exits_with_error(tmp_path, monkeypatch, capsys, made, init, rule):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for name in made:
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(b"no picture")
    assert main(["train", "photos", *(["--init", init] if init else [])]) == 2
    error = capsys.readouterr().err
    assert re.search(rule, error) and error.count("\n") == 1


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (dict(name="cifar10", sauce="csv"), r"`data` accepts .* Did you mean `source`\?.*'sauce'"),
        (dict(name="pets", source="zip"), "`data.source` must be one of .*'zip'"),
        (
            dict(name="pets", source="folder", test_fractions=0.2),
            r"Did you mean `test_fraction`\? Received: \['test_fractions'\]",
        ),
    ],
)
def test_invalid_data_raises_before_model_is_built(tmp_path, monkeypatch, data, rule):
    values = dict(model=dict(class_name="CSPViT", image_size=8), data=data)
    (tmp_path / "recipe.toml").write_text(as_toml(values), encoding="utf-8")
    monkeypatch.setattr(sys.modules[train.__module__], "make_model", None)
    with pytest.raises(ValueError, match=rule):
        train(tmp_path / "recipe.toml", out=tmp_path / "run")


def test_missing_package_raises_before_model_is_built(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_permix.training.run_folder.NEEDED", ("nowhere",))
    monkeypatch.setattr(sys.modules[train.__module__], "make_model", None)
    with pytest.raises(ImportError, match=r'requires nowhere: pip install "keras_permix\[train\]"'):
        train("cspvit/mnist", smoke=True, out=tmp_path / "run")


@pytest.mark.parametrize("name", ["LRATransformer", "Graphormer"])
def test_text_and_graph_tasks_check_data(name):
    task = TASKS[MODELS[name].task_for({})]
    task.check_data(dict(name="mine", train="a.csv", test="b.csv"))
    with pytest.raises(ValueError, match=r"Did you mean `train`\? Received: \['trian'\]"):
        task.check_data(dict(name="mine", trian="a.csv", test="b.csv"))


@pytest.mark.parametrize(("pairs", "fields"), [(False, ("a", "b")), (True, ("a",))])
def test_number_of_fields_must_match_texts(pairs, fields):
    task = TASKS[MODELS["LRATransformer"].task_for(dict(pairs=pairs))]
    spec = dict(name="mine", train="a.csv", test="b.csv")
    with pytest.raises(
        ValueError, match=rf"`data.fields` must have length {1 + pairs}. Received: \('a'"
    ):
        task.check_data({**spec, "fields": fields})
    task.check_data({**spec, "fields": [*"ab"][: 1 + pairs]})


@pytest.mark.parametrize(
    "name",
    ["README.md", "log.csv", "preset/mine.txt", "checkpoints/epoch_10.pt", "tokenizer.json"],
)
def test_existing_files_are_not_overwritten(name, tmp_path):
    """The error is raised before data are read."""
    recipe, out = write(tmp_path), tmp_path / "out"
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text("mine", encoding="utf-8")
    rule = rf"`out` must .*Received: {out} with \['{name.split('/')[0]}'\]"
    with pytest.raises(ValueError, match=rule):
        train(recipe, data_dir=tmp_path / "no data", out=out)
    assert [path for path in out.rglob("*") if path.is_file()] == [out / name]
    assert (out / name).read_text(encoding="utf-8") == "mine"


def test_unrelated_files_in_run_folder_are_kept(tmp_path):
    recipe, out = write(tmp_path), tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    train(recipe, epochs=1, data_dir=tmp_path, out=out, verbose=0)
    assert (out / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_run_killed_before_first_checkpoint_resumes(tmp_path):
    check_place(tmp_path / "new")
    (tmp_path / "checkpoints/.epoch_0001.0123456789ab.new").mkdir(parents=True)
    check_place(tmp_path)


def test_out_may_share_name_of_image_folder(tmp_path, monkeypatch):
    recipe = write(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    done = train(recipe, epochs=1, data_dir="data", out="pets/run", verbose=0)
    assert (tmp_path / "pets/run/preset").is_dir() and done.rows


def test_data_dir_with_a_path_of_images_raises(tmp_path):
    write(tmp_path)
    with pytest.raises(ValueError, match="`data_dir` must be None.*Received: .* with .*pets"):
        train(tmp_path / "pets", init="cspvit/test", data_dir=tmp_path, out=tmp_path / "run")


@pytest.mark.parametrize("out", ["pets", "pets/run", "pets/cats"])
def test_out_inside_image_folder_raises(out, tmp_path):
    recipe = write(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="`out` must lie outside .*/pets. Received: "):
        train(recipe, data_dir=tmp_path, out=tmp_path / out)
    assert sorted(tmp_path.rglob("*")) == before


def test_smoke_run_reads_images(tmp_path):
    recipe = write(tmp_path)
    done = train(recipe, data_dir=tmp_path, smoke=True, out=tmp_path / "run", verbose=0)
    assert done.model.labels == ("cats", "dogs") and "pets/test/top1" in done.scores
    shutil.rmtree(tmp_path / "pets/dogs")
    with pytest.raises(ValueError, match="at least two classes"):
        train(recipe, data_dir=tmp_path, smoke=True, out=tmp_path / "again", verbose=0)
    done = train(recipe, smoke=True, out=tmp_path / "generated", verbose=0)
    assert "generated/test/top1" in done.scores, "the current folder has no folder `pets`"


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"augmentation": {"flip": "maybe"}}, "`flip` must be one of"),
        ({"workers": 0}, "`workers` must be a positive integer"),
        ({"steps_per_execution": 0}, "`steps_per_execution` must be a positive integer"),
        ({"epochs": 1}, "`--data-dir`"),
    ],
)
def test_invalid_values_raise_before_data_are_read(change, rule, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["keras_permix.training.train"], "load_data", None)
    gone = tmp_path / "gone"
    for smoke in (False, True):
        with pytest.raises((ValueError, FileNotFoundError), match=rule):
            train("cspvit/mnist", data_dir=gone, smoke=smoke, out=tmp_path, **change)
