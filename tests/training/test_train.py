"""Test `train` and `permix train`: names, presets, model cards, records and errors."""

import datetime
import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_permix import data, zoo
from keras_permix.cli import main
from keras_permix.data import Dataset
from keras_permix.data.images.sets import SETS
from keras_permix.training import make_model, plan_run, train
from keras_permix.training import run as run_module
from keras_permix.training.card import write_card
from keras_permix.training.distribute import Distribution
from keras_permix.training.preset import _fits_float16, finished_scores
from keras_permix.training.run_folder import RunFolder
from keras_permix.utils.files import release_folder
from keras_permix.zoo import CSPViT
from tests.harness import ROOT
from tests.zoo.models import edit_json

RECIPE = """
batch_size = 16
epochs = 2

[model]
class_name = "CSPViT"
image_size = 8
patch_size = 2
num_classes = 3
hidden_dim = 8
num_layers = 1
mlp_dim = 8

[data]
name = "made"

[paper]
top1 = "12.34 %"
note = "A paper that says so."

[options.wide]
model = { hidden_dim = 16 }

[options.attention]
model = { class_name = "ViT" }
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "mine" / "recipe.toml"
    path.parent.mkdir()
    path.write_text(RECIPE)
    return path


@pytest.fixture
def made(monkeypatch):
    """Register the data set "made": three classes that differ in brightness."""
    rng = np.random.default_rng(0)
    y = np.arange(48, dtype="int32") % 3
    x = (rng.uniform(0, 100, (48, 8, 8, 3)) + 70 * y[:, None, None, None]).astype("uint8")
    dataset = Dataset("made", (x[:32], y[:32]), (x[32:], y[32:]), ("dark", "gray", "light"))
    monkeypatch.setitem(SETS, "made", None)
    monkeypatch.setattr(data, "load_images", lambda name, data_dir=None: dataset)
    return dataset


@pytest.fixture
def commit(monkeypatch):
    """Return a function that sets the commit that runs record."""

    def set_commit(value):
        monkeypatch.setattr(run_module, "current_commit", lambda: value)

    set_commit("a" * 40)
    return set_commit


ZOO = ROOT / "zoo" / "cspvit" / "cifar10"


@pytest.mark.parametrize(
    ("recipe", "option", "name", "source", "command"),
    [
        ("cspvit/cifar10", None, "cspvit/cifar10", "zoo/cspvit/cifar10/recipe.toml",
         "permix train cspvit/cifar10"),
        ("cspvit/cifar10", "wide", "cspvit/cifar10_wide", "zoo/cspvit/cifar10/recipe.toml",
         "permix train cspvit/cifar10 --option wide"),
        ("cspvit/cifar10", "attention", "vit/cifar10_attention", "zoo/cspvit/cifar10/recipe.toml",
         "permix train cspvit/cifar10 --option attention"),
        (str(ZOO / "recipe.toml"), None, "cspvit/cifar10", "zoo/cspvit/cifar10/recipe.toml",
         "permix train cspvit/cifar10"),
    ],
)  # fmt: skip
def test_plan_run_names(recipe, option, name, source, command):
    run = plan_run(recipe, option)
    assert (run.name, run.source, run.command) == (name, source, command)
    assert run.folder == Path("runs") / name
    assert plan_run(recipe, option, smoke=True).folder == Path("runs") / f"{name}_smoke"


@pytest.mark.parametrize(
    ("name", "option", "before"),
    [
        ("patchonlymlpmixer/cifar10", None, "first"),
        ("simpletron/sst2", None, "sst2_taught"),
        ("lratransformer/pathx", "stage_7", "stage_6"),
    ],
)
def test_recipe_without_required_init_exits_with_error(
    tmp_path, monkeypatch, capsys, name, option, before
):
    monkeypatch.chdir(tmp_path)
    words = ["train", name, *(["--option", option] if option else [])]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "`init` must be a run trained before" in error and before in error
    assert not list(tmp_path.iterdir())
    assert plan_run(name, option, smoke=True).recipe.init is None
    assert plan_run(name, option, smoke=True, init="runs/mine").recipe.init == "runs/mine"


def test_plan_run_names_of_custom_recipe(recipe, monkeypatch):
    changes = dict(init="cspvit/test", epochs=1, data={"name": "a b"}, model={"pooling": None})
    run = plan_run(recipe, "wide", **changes)
    assert run.name == "cspvit/mine_wide" and run.source == str(recipe)
    words = f"permix train {recipe} --option wide --init cspvit/test --epochs 1"
    assert run.command == f"{words} --set 'data.name=a b' --set model.pooling=none"
    monkeypatch.chdir(recipe.parent)
    assert plan_run("recipe.toml").name == "cspvit/mine"


def test_absolute_recipe_path_writes_to_runs(recipe, made, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    done = train(recipe, "wide", epochs=1, verbose=0)
    assert done.folder == Path("runs/cspvit/mine_wide")
    assert sorted(path.name for path in recipe.parent.iterdir()) == ["recipe.toml"]
    assert done.model.get_config()["hidden_dim"] == 16 and len(done.rows) == 1


def test_command_does_what_the_function_does(recipe, made, tmp_path, capsys, commit):
    done = train(recipe, out=tmp_path / "function", verbose=0)
    out = tmp_path / "command"
    assert main(["train", str(recipe), "--out", str(out), "--verbose", "0"]) == 0
    printed = capsys.readouterr().out
    assert f"made/test/top1: {100 * done.scores['made/test/top1']:.2f} %" in printed
    assert f"preset: {out / 'preset'}" in printed and f"card: {out / 'README.md'}" in printed
    function, command = (
        json.loads((tmp_path / name / "preset" / "metadata.json").read_text())
        for name in ("function", "command")
    )
    for metadata in (function, command):
        metadata["date_saved"] = ""
        # HDF5 stores names, which Keras numbers per process.
        metadata["files"]["model.weights.h5"]["sha256"] = ""
    assert function == command
    record = json.loads((out / "run.json").read_text())
    assert record["callbacks"] == []  # Callbacks of the command are not recorded.


def test_preset_stores_trained_weights_and_scores(recipe, made, tmp_path, commit):
    done = train(recipe, out=tmp_path / "run", verbose=0)
    stored = CSPViT.from_preset(tmp_path / "run" / "preset")
    for ours, trained in zip(stored.get_weights(), done.model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, trained.astype("float16").astype("float32"))
    images, labels = made.test
    top1 = np.mean(stored.predict(images, verbose=0).argmax(-1) == labels)
    assert done.scores == {"made/test/top1": pytest.approx(top1, abs=1e-4)}
    metadata = json.loads((tmp_path / "run" / "preset" / "metadata.json").read_text())
    assert metadata["scores"] == done.scores and metadata["labels"] == ["dark", "gray", "light"]
    assert metadata["commit"] == "a" * 40 and metadata["data"] == "made"
    assert metadata["data_options"] is None


def test_card(recipe, made, tmp_path, commit, monkeypatch):
    done = train(recipe, "wide", out=tmp_path / "run", verbose=0)
    card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    lines = card.splitlines()
    assert lines[0] == "# cspvit/mine_wide"
    count = done.model.count_params()
    assert lines[2] == f"`CSPViT`, mixer `csp`, {count:,} parameters, 2 epochs of made."
    assert 'model = CSPViT.from_preset("preset")  # the folder next to this card' in lines
    monkeypatch.chdir(tmp_path / "run")
    shown: dict = {}
    exec(card.split("```python\n")[1].split("```")[0], shown)
    assert shown["model"].count_params() == count
    score = done.scores["made/test/top1"]
    assert f"| made/test/top1 | {100 * score:.2f} % | 12.34 % |" in lines
    assert "A paper that says so." in lines
    assert f"* Recipe: `{recipe}`, option `wide`; reproduce with " in card
    assert f"`permix train {recipe} --option wide`." in card
    assert f"commit `{'a' * 40}`" in card
    assert f"on the whole test set, {len(made.test[0])} samples, after the last epoch" in card
    assert "size 8, mean [0.5, 0.5, 0.5]" in card and "dark, gray, light" in card


def test_card_lists_additional_callbacks(recipe, made, tmp_path):
    more = [Stop(), keras.callbacks.EarlyStopping(restore_best_weights=True)]
    with pytest.raises(KeyboardInterrupt):
        train(recipe, out=tmp_path / "run", verbose=0, callbacks=iter(more))
    train(recipe, out=tmp_path / "run", verbose=0)
    card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    assert "at the end of a run with additional callbacks: Stop, EarlyStopping." in card
    assert "no epoch was chosen" not in card


@pytest.mark.parametrize(
    ("seconds", "epochs", "time"),
    [
        ([0.2], "1 epoch", "0.2 s"),
        ([60.0, 29.0], "2 epochs", "1 min 29 s"),
    ],
)
def test_card_formats_epochs_and_time(recipe, made, seconds, epochs, time):
    run, rows = plan_run(recipe), [{"seconds": number} for number in seconds]
    versions = dict(keras="3", backend="torch", backend_version="2", version="0")
    record = dict(date="today", machine="here", **versions, commits=[])
    card = write_card(make_model(run.recipe), run, made, {}, rows, record)
    assert f" parameters, {epochs} of made.\n" in card
    assert f"* Trained today in {time} of wall time on here, " in card
    assert ", Keras 3 on torch 2, float32, seed 0, keras_permix 0.\n" in card


class Stop(keras.callbacks.Callback):
    """Stop a run when its second epoch begins."""

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            raise KeyboardInterrupt


@pytest.mark.skipif(keras.config.backend() != "torch", reason="Keras fuses steps elsewhere")
def test_steps_per_execution_on_torch_raises(recipe, made, tmp_path):
    with pytest.raises(ValueError, match="`steps_per_execution` must be 1.*_execution=2"):
        train(recipe, out=tmp_path / "run", verbose=0, steps_per_execution=2)
    assert not (tmp_path / "run").exists()


@pytest.mark.once
def test_flags_reach_train(recipe, made, tmp_path, monkeypatch):
    given = {}
    monkeypatch.setattr(
        "keras_permix.training.train",
        lambda run, **arguments: given.update(arguments) or SimpleNamespace(scores={}),
    )
    flags = ["--distribute", "auto", "--steps-per-execution", "3", "--workers", "2"]
    assert main(["train", str(recipe), "--out", str(tmp_path / "run"), *flags]) == 0
    assert (given["steps_per_execution"], given["workers"]) == (3, 2)
    assert isinstance(given["distribute"], Distribution)


@pytest.mark.once
@pytest.mark.parametrize("more", [{"smoke": True}, {"option": "larger"}, {"epochs": 5}])
def test_changes_of_a_planned_run_raise(more, recipe, tmp_path):
    with pytest.raises(ValueError, match=f"A `Run` .*{list(more)[0]}.*{list(more.values())[0]}"):
        train(plan_run(recipe), out=tmp_path / "run", **more)
    assert not (tmp_path / "run").exists()


def test_finished_run_keeps_commit(recipe, made, tmp_path, commit):
    def recorded_commits():
        return json.loads((tmp_path / "run" / "run.json").read_text())["commits"]

    train(recipe, out=tmp_path / "run", verbose=0)
    commit("b" * 40)
    train(recipe, out=tmp_path / "run", verbose=0)
    assert recorded_commits() == ["a" * 40], "nothing was trained the second time"
    metadata = json.loads((tmp_path / "run" / "preset" / "metadata.json").read_text())
    assert metadata["commit"] == "a" * 40


def test_resumed_run_records_both_commits(recipe, made, tmp_path, commit, capsys):
    with pytest.raises(KeyboardInterrupt):
        train(recipe, out=tmp_path / "run", verbose=2, callbacks=[Stop()])
    assert "resumes" not in capsys.readouterr().out
    commit("b" * 40)
    train(recipe, out=tmp_path / "run", verbose=2)
    assert f"{tmp_path / 'run'}: resumes after epoch 1 of 2" in capsys.readouterr().out
    metadata = json.loads((tmp_path / "run" / "preset" / "metadata.json").read_text())
    assert metadata["commit"] == f"{'a' * 40}, {'b' * 40}"


def test_record_describes_run_in_folder(recipe, made, tmp_path):
    """A run that stopped in its first epoch is replaced. A missing record is no error."""
    with pytest.raises(KeyboardInterrupt):
        first = keras.callbacks.LambdaCallback(on_train_batch_end=stop_at_once)
        train(recipe, out=tmp_path / "run", verbose=0, callbacks=[first])
    train(recipe, seed=7, out=tmp_path / "run", verbose=0)
    assert "--set seed=7" in json.loads((tmp_path / "run" / "run.json").read_text())["command"]
    for file in ("run.json", "README.md"):
        (tmp_path / "run" / file).unlink()
    train(recipe, seed=7, out=tmp_path / "run", verbose=0)
    today = datetime.date.today().isoformat()
    assert f"Trained {today} in" in (tmp_path / "run" / "README.md").read_text(encoding="utf-8")


def stop_at_once(batch, logs):
    raise KeyboardInterrupt


@pytest.mark.parametrize("content", ["{}", "[]", "1", '{"name": "an app", "commits": 2}'])
def test_unrelated_run_json_is_not_overwritten(recipe, made, tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ValueError, match="run.json` must .* Received: "):
        train(recipe, out=tmp_path, verbose=0)
    assert (tmp_path / "run.json").read_text() == content


def test_current_commit(tmp_path, monkeypatch):
    def git(*words):
        name = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", *name, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    package = tmp_path / "keras_permix"
    (package / "training").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(run_module, "__file__", str(package / "training" / "run.py"))
    assert run_module.current_commit() is None, "no checkout"
    git("init")
    assert run_module.current_commit() is None, "installed inside some checkout"
    git("add", ".")
    git("commit", "-m", "first")
    assert run_module.current_commit() == git("rev-parse", "HEAD")
    (package / "__init__.py").write_text("changed")
    assert run_module.current_commit() == git("rev-parse", "HEAD") + "-dirty"
    monkeypatch.setenv("PATH", "")
    assert run_module.current_commit() is None, "no git"


def test_smoke_run_writes_no_card(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(data, "load_images", lambda *args, **kwargs: pytest.fail("reads data"))
    small = ["--set", "model.hidden_dim=8", "--set", "model.num_layers=1", "--verbose", "2"]
    assert main(["train", "cspvit/cifar10_small", "--smoke", *small]) == 0
    out = tmp_path / "runs" / "cspvit" / "cifar10_small_smoke"
    assert not (out / "README.md").exists()
    printed = capsys.readouterr().out
    assert "generated: 32 samples, 8 test samples, 10 classes; 4 steps of 8 per epoch\n" in printed
    assert "generated/test/top1" in printed and "card" not in printed
    text = (out / "preset" / "metadata.json").read_text()
    metadata = json.loads(text)
    assert metadata["data"] == "generated" and list(metadata["scores"])[0] == "generated/test/top1"
    assert json.loads((out / "run.json").read_text())["smoke"] is True
    assert len((out / "log.csv").read_text().splitlines()) == 3


def break_weights(at_epoch, weight="head/bias"):
    """Return a callback that sets a weight to NaN before an epoch."""

    class Break(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.epoch = epoch

        def on_train_batch_begin(self, batch, logs=None):
            self.seen = getattr(self, "seen", 0) + (self.epoch == at_epoch)

        def on_epoch_end(self, epoch, logs=None):
            if epoch + 1 == at_epoch:
                for variable in self.model.trainable_variables:
                    if variable.path == weight:
                        variable.assign(np.full(variable.shape, np.nan, "float32"))

    return Break()


def test_nan_stops_at_once_and_keeps_the_last_good_epoch(recipe, made, tmp_path):
    breaker = break_weights(at_epoch=1)
    with pytest.raises(FloatingPointError) as caught:
        train(recipe, out=tmp_path / "run", verbose=0, callbacks=[breaker],
              batch_size=2, epochs=3)  # fmt: skip
    message = str(caught.value)
    assert "a loss of nan in epoch 2, batch" in message and str(tmp_path / "run") in message
    assert "Epoch 1 is saved in" in message
    assert breaker.seen < 16, "not to the end of the epoch"
    assert not (tmp_path / "run" / "preset").exists()
    assert not (tmp_path / "run" / "README.md").exists()
    rows = (tmp_path / "run" / "log.csv").read_text().splitlines()
    assert len(rows) == 2 and "nan" not in rows[1]
    again = train(recipe, out=tmp_path / "run", verbose=0, batch_size=2, epochs=3)
    assert all(np.isfinite(weight).all() for weight in again.model.get_weights())


def test_non_finite_weights_are_not_saved(recipe, made, tmp_path):
    """The last step may break the weights although its loss is finite."""

    class Break(keras.callbacks.Callback):
        def on_test_end(self, logs=None):
            head = self.model.get_layer("head").bias
            head.assign(np.full(head.shape, np.inf, "float32"))

    with pytest.raises(FloatingPointError, match="No epoch is saved.*`head/bias` with NaN"):
        train(recipe, out=tmp_path / "run", verbose=0, callbacks=[Break()])
    assert not list((tmp_path / "run").glob("checkpoint*/*"))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_weights_beyond_float16_are_stored_in_float32(recipe, made, tmp_path, precision):
    class Raise(keras.callbacks.Callback):
        def on_train_end(self, logs=None):
            head = self.model.get_layer("head").bias
            head.assign(np.array([1e5, 0.1, 0.2], "float32"))

    settings = dict(precision=precision, verbose=0, callbacks=[Raise()])
    done = train(recipe, out=tmp_path / "run", **settings)
    again = zoo.CSPViT.from_preset(tmp_path / "run/preset")
    for ours, theirs in zip(done.model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert "the stored float32 weights" in (tmp_path / "run/README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("last", "fits"), [([65504.0], True), ([-65520.0], False), ([0.0, np.nan], False), ([], True)]
)
def test_weights_that_float16_can_store(last, fits):
    weights = [np.array([2**20]), np.array([-1.0, 1.0], "float32"), np.array(last, "float32")]
    assert all(map(_fits_float16, weights)) == fits


def test_weights_are_stored_in_dtype_of_recipe(recipe, made, tmp_path):
    done = train(recipe, store="float32", out=tmp_path / "run", verbose=0)
    again = zoo.CSPViT.from_preset(tmp_path / "run/preset")
    for ours, theirs in zip(done.model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_diverged_training_prints_one_line(recipe, made, tmp_path, capsys):
    huge = ["--set", "optimizer.learning_rate=1e38", "--set", "batch_size=4", "--verbose", "0"]
    assert main(["train", str(recipe), "--out", str(tmp_path / "run"), *huge]) == 2
    error = capsys.readouterr().err
    assert error.startswith("permix: error: Loss and weights must be finite; ")
    assert error.count("\n") == 1


MNIST = Path(os.environ.get("KERAS_PERMIX_DATA", "nowhere")) / "mnist-t10k-images-idx3-ubyte.gz"


@pytest.mark.skipif(not MNIST.is_file(), reason="KERAS_PERMIX_DATA holds no MNIST")
def test_evaluate_reproduces_published_score(capsys):
    assert main(["evaluate", "cspvit/mnist"]) == 0
    assert "mnist/test/top1: 99.34 %" in capsys.readouterr().out


def test_wrong_number_of_classes_raises_before_training(made, recipe, tmp_path):
    with pytest.raises(ValueError, match=r"one output per class.*3 labels for 5 outputs"):
        train(recipe, model={"num_classes": 5}, epochs=1, out=tmp_path / "run", verbose=0)
    assert not (tmp_path / "run").exists()


def test_smoke_run_accepts_overrides():
    recipe = plan_run("cspvit/mnist", smoke=True, epochs=1).recipe
    assert recipe.epochs == 1 and recipe.batch_size == 8


def test_smoke_run_needs_no_validation_part(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('base = "cspvit/mnist"\nearly_stopping = 3\n', encoding="utf-8")
    assert plan_run(recipe).recipe.early_stopping == 3
    assert plan_run(recipe, smoke=True).recipe.early_stopping is None


def test_preset_of_fewer_epochs_is_not_the_result(recipe, made, tmp_path):
    done, run = train(recipe, out=tmp_path / "run", verbose=0), plan_run(recipe)
    assert finished_scores(run, tmp_path / "run") == done.scores
    metadata = tmp_path / "run" / "preset" / "metadata.json"
    edit_json(metadata, lambda stored: stored.update(epochs=stored["epochs"] - 1))
    assert finished_scores(run, tmp_path / "run") is None


def test_smoke_run_ignores_steps_per_epoch():
    runs = plan_run("lratransformer/pathx"), plan_run("lratransformer/pathx", smoke=True)
    assert [run.recipe.steps_per_epoch for run in runs] == [500, None]


def test_preset_set_aside_by_killed_run_is_restored(tmp_path):
    aside = tmp_path / ".preset.0123456789ab.old"
    aside.mkdir()
    (aside / "metadata.json").write_text("{}", encoding="utf-8")
    release_folder(RunFolder(tmp_path, plan_run("cspvit/mnist").recipe).path)
    assert (tmp_path / "preset" / "metadata.json").is_file() and not aside.exists()
