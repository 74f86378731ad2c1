"""Test the `permix` command: startup without Keras, help, output streams and errors."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import warnings

import pytest

from keras_permix import cli, data, zoo
from keras_permix.cli import main
from keras_permix.recipes.load import load_recipe
from tests.harness import ROOT
from tests.harness.processes import environment

# The console script, which reports whether it imported Keras.
SCRIPT = """
import atexit, signal, sys, time

# Processes started in the background, as tests may be, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

def report():
    if "keras" in sys.modules:
        print("keras was imported", file=sys.stderr)

atexit.register(report)
from permix import command

def wait(arguments):
    print("ready", flush=True)
    time.sleep(60)

if sys.argv[1] == "wait":
    import importlib.util
    sys.modules["keras_permix"] = importlib.util.module_from_spec(
        importlib.util.find_spec("keras_permix")
    )
    from keras_permix.cli import list
    list.run, sys.argv[1] = wait, "list"
command()
"""


@pytest.fixture
def permix(tmp_path):
    """Return a function that starts the command in a separate process."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    with contextlib.ExitStack() as processes:

        def start(*arguments, stdout=subprocess.PIPE, **changes):
            process = subprocess.Popen(
                [sys.executable, script, *arguments],
                env=environment(**changes), stdout=stdout, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            return processes.enter_context(process)

        yield start


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--help"], "COMMAND"),
        (["train", "--help"], "--smoke"),
        (["lra", "--help"], "csp_mega"),
        (["--version"], "keras_permix 0."),
        (["list"], "slicevit/dogs_vs_cats"),
        (["backend"], "default backend: abacus, which is not installed (installed: "),
    ],
)
def test_commands_run_without_keras(permix, arguments, expected):
    process = permix(*arguments, KERAS_BACKEND="abacus")
    output, error = process.communicate()
    assert (process.returncode, error) == (0, "")
    assert expected in output


@pytest.mark.once
def test_help_shows_only_informative_defaults(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["train", "--help"])
    output = " ".join(capsys.readouterr().out.split())
    assert "threads that prepare batches (default: 1)" in output
    assert "folder of the run (default: runs/PRESET) --" in output
    assert "start from the weights of a preset --" in output
    assert not re.search(r"default: (None|False|\[\])", output)


@pytest.mark.once
def test_list_matches_preset_info(capsys):
    assert main(["list"]) == 0
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()[2:]}
    presets = zoo.list_presets()
    assert set(rows) == set(presets)
    for name, info in presets.items():
        parameters = f"{info.parameters:,}" if info.parameters else "–"
        weights = "yes" if info.has_weights else "permix"
        assert rows[name][1:4] == [info.class_name, parameters, weights]


@pytest.mark.once
def test_unknown_backend_exits_with_error(permix):
    process = permix("info", "cspvit/test", KERAS_BACKEND="abacus")
    output, error = process.communicate()
    assert (process.returncode, output) == (2, "")
    assert re.fullmatch("permix: error: .*abacus\n", error)


@pytest.mark.once
def test_closed_pipe_prints_no_error(permix):
    process = permix("list")
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141


@pytest.mark.once
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")
def test_full_disk_exits_with_error(permix):
    with open("/dev/full", "w") as full:
        process = permix("list", stdout=full)
        error = process.stderr.read()
    assert error.startswith("permix: error: [Errno 28] No space left on device\n")
    assert process.wait() != 0


@pytest.mark.once
def test_interrupt_exits_with_code_130(permix):
    process = permix("wait")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert process.stderr.read() == "permix: stopped\n"


@pytest.mark.once
@pytest.mark.parametrize("kind", [KeyError, TypeError])
def test_bug_prints_one_line(kind, monkeypatch, capsys):
    def fail(arguments):
        raise kind("of ours")

    monkeypatch.setattr("keras_permix.cli.list.run", fail)
    what = f"{kind.__name__}: {kind('of ours')}"
    expected = f"permix: error: {what} (if all values are valid, report it with --traceback)"
    assert main(["list"]) == 2
    assert capsys.readouterr().err == f"{expected}\n"
    assert main(["list", "--traceback"]) == 2
    *shown, last = capsys.readouterr().err.splitlines()
    assert last == expected and shown[0] == "Traceback (most recent call last):"


def error_of(arguments, capsys):
    """Run a command that must fail. Returns the error, which is one line."""
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("permix: error: ") and error.count("\n") == 1
    return error


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["info", "cspvit/cifar10_smal"], "cspvit/cifar10_small"),
        (["info", "imagenet"], "cspvit/imagenet"),
        (["train", "slicevit/dogs_and_cats"], "slicevit/dogs_vs_cats"),
    ],
)
def test_unknown_name_suggests_nearest_name(arguments, name, capsys):
    assert f"Did you mean {name}? Received: {arguments[1]!r}" in error_of(arguments, capsys)


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        (["list", "--all", "x"], "--all x"),
        (["train", "cspvit/mnist", "--foo"], "--foo"),
        (["--all", "list"], "--all"),
    ],
)
def test_unknown_argument_exits_with_error(arguments, refused, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    error = capsys.readouterr().err
    message = f"unrecognized arguments: {refused} (see `permix --help`)"
    assert error == f"permix: error: {message}\n"


@pytest.mark.once
def test_empty_recipe_exits_with_error(tmp_path, capsys):
    (tmp_path / "empty.toml").write_text("")
    error = error_of(["train", str(tmp_path / "empty.toml")], capsys)
    assert "`model` or `init`" in error and error.endswith("empty.toml\n")


@pytest.mark.once
@pytest.mark.parametrize(
    ("content", "at"),
    [(b"epochs = ", "at end of document"), (b"\xff", "0xff")],
)
def test_invalid_toml_exits_with_error(content, at, tmp_path, capsys):
    (tmp_path / "wrong.toml").write_bytes(content)
    error = error_of(["train", str(tmp_path / "wrong.toml")], capsys)
    assert re.search(rf"valid TOML.*wrong.toml \(.*{at}", error)


@pytest.mark.once
def test_current_folder_is_not_executed_or_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "cspvit" / "imagenet"
    folder.mkdir(parents=True)
    (folder / "recipe.py").write_text("open('executed', 'w')")
    (folder / "recipe.toml").write_text("epochs = 1")
    assert main(["list"]) == main(["info", "cspvit/imagenet"]) == 0
    assert "300" in re.search(r"epochs +(\d+)", capsys.readouterr().out)[1]
    assert load_recipe("cspvit/imagenet").epochs == 300
    assert not (tmp_path / "executed").exists()


@pytest.mark.once
@pytest.mark.parametrize("override", ["epochs", "=3", "a..b=1", "epochs=1\nseed=2"])
def test_malformed_override_exits_with_error(override, capsys):
    error = error_of(["train", "cspvit/mnist", "--set", override], capsys)
    assert error.count("\n") == 1 and len(error) < 400


@pytest.mark.once
def test_model_beyond_memory_exits_with_error(capsys):
    error = error_of(["info", "CSPViT", "--set", f"hidden_dim={10**12}"], capsys)
    assert error.startswith("permix: error: The model and the batch must fit into memory; ")


@pytest.mark.once
def test_image_as_recipe_exits_with_error(capsys):
    error = error_of(["train", str(ROOT / "docs" / "mixers" / "csp.png")], capsys)
    rule = r"`recipe` must be .*, a `.toml` file, or a folder or list of images. .*csp.png'\n"
    assert re.search(rule, error)


@pytest.mark.once
@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("epochs=many", "`epochs` must be a positive integer. Received: epochs='many' in "),
        ("epochs=true", "Received: epochs=True"),
        ("batch_size=0.5", "Received: batch_size=0.5"),
        ("model=3", "`model` must be a table. Received: model=3"),
        ("optimizer=adam", "Received: optimizer='adam'"),
        ("optimizer.learning_rate=x", "Received: optimizer.learning_rate='x'"),
        ("optimizer.beta_1=x", "`optimizer.beta_1` must be a number from 0 to 1, 1 excluded. R"),
        ("optimizer.beta_2=7", "Received: optimizer.beta_2=7"),
        ("optimizer.clipnorm=-1", '`optimizer.clipnorm` must be a number, 0 or more, or "none". R'),
        ("optimizer.clipnorm=nan", "Received: optimizer.clipnorm=nan"),
        ("model.trainable=3", "`model.trainable` must be true or false. Received: "),
        ("schedule.warmup_epochs=x", "Received: schedule.warmup_epochs='x'"),
        ("data.name=3", "Received: data.name=3"),
        ("ema=2", "`ema` must be a number from 0 to 1"),
        (
            "data.test_fraction=half",
            "between 0 and 1, or \"none\". Received: data.test_fraction='half'",
        ),
        ("data.test_fraction=1", "Received: data.test_fraction=1"),
        ("data.split_seed=x", "`data.split_seed` must be an integer, 0 or more. Received: "),
        ("data.random_crop=x", "`data.random_crop` must be true or false. Received: "),
        ("data.keep=x", "`data.keep` must be a number above 0, at most 1. Received: "),
        ("data.keep=2", "Received: data.keep=2"),
        ("data.splits=train", "`data.splits` must be a list of strings. Received: "),
        ("data.path=3", "Received: data.path=3"),
        ("data.train=['a.csv']", "`data.train` must be a string, or a positive integer, or"),
        ("data.fields=none", "`data.fields` must be a list of strings. Received: data.fields=None"),
        ("augmentation.randaugment={factor='high'}", "`factor` must be a number from 0 to 1. R"),
        ("model.dtype=float99", "omitted; set `precision` instead. Received: model.dtype='fl"),
        ("optimizer.name=adamm", "`optimizer.learning_rate` must be given. "),
        ("optimizer={name='adamm', learning_rate=1}", "`optimizer` must be one of ('adadelta', "),
        ("schedule.name=cosin", "rsqrt, cosine_cycles. Received: schedule.name='cosin'"),
        ("augmentation.flip=3", "`flip` must be one of (True, False). Received: flip=3"),
        ("model.hiden_dim=3", "Did you mean `hidden_dim`? Received: ['hiden_dim']"),
        ("model.dropout=x", "`dropout` must be in [0, 1). Received: dropout='x'"),
        ("model.mixer=3", "`mixer` must be one of"),
        ("model.hidden_dim=x", "`hidden_dim` must be a positive integer. Received: hidden_dim='x'"),
    ],
)
def test_invalid_value_exits_with_error(override, message, tmp_path, capsys):
    arguments = ["train", "cspvit/mnist", "--smoke", "--out", str(tmp_path / "run")]
    assert main([*arguments, "--set", override]) == 2
    output, error = capsys.readouterr()
    assert output == "" and message in error and error.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.once
@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "cspvit/cifar10_small", "--out", "{}/file/scores.csv"],
        ["evaluate", "cspvit/cifar10_small", "--out", "{}/file/scores.json"],
        ["bench", "ops", "--out", "{}/file/ops.csv"],
    ],
)
def test_output_path_is_checked_before_work(arguments, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("kept")
    for work in ("keras_permix.bench.ops.measure", "keras_permix.data.load_images"):
        monkeypatch.setattr(work, lambda *args, **kwargs: pytest.fail("starts"))
    *arguments, path = arguments
    error = error_of([*arguments, path.format(tmp_path)], capsys)
    assert f"File exists: '{tmp_path / 'file'}'" in error
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.once
def test_train_prints_estimate_and_outputs(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(data, "load_images", lambda *args, **kwargs: pytest.fail("reads data"))
    small = [
        "--set",
        "model.hidden_dim=8",
        "--set",
        "model.num_layers=1",
        "--verbose",
        "2",
        "--smoke",
    ]
    arguments = ["train", "cspvit/mnist", *small, "--out", str(tmp_path / "run")]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("generated: 32 samples, 8 test samples, 10 classes; 4 steps of 8 per")
    assert f"\n{tmp_path / 'run'}: trains for 2 epochs; to resume" in printed
    # Printed after the first epoch of four steps; two of them are timed.
    assert re.search(r"\nAbout \S+ s left: 4 steps of \S+ s, without comp", printed)
    scores = json.loads((tmp_path / "run/preset/metadata.json").read_text())["scores"]
    for line in (*(f"{key}: " for key in scores), f"preset: {tmp_path / 'run' / 'preset'}\n"):
        assert f"\n{line}" in printed
    log = (tmp_path / "run" / "log.csv").read_bytes()

    assert main(arguments) == 0
    again = capsys.readouterr().out
    assert again.startswith(f"{tmp_path / 'run'}: this run is finished")
    assert again.splitlines()[1:] == printed.splitlines()[-len(again.splitlines()) + 1 :]
    assert (tmp_path / "run" / "log.csv").read_bytes() == log


@pytest.mark.once
def test_init_from_untrained_preset_exits_with_error(tmp_path, capsys):
    run = ["--smoke", "--out", str(tmp_path / "run")]
    error = error_of(["train", "cspvit/mnist", "--init", "cspvit/imagenet", *run], capsys)
    rule = (
        "The preset cspvit/imagenet has no weights. Trained presets of this class: "
        "cspvit/cifar10_small, cspvit/imagenette, cspvit/mnist, cspvit/tiny_imagenet. Load a "
        'similar one by `CSPViT.from_preset("imagenette")` or '
        '`CSPViT.from_preset("tiny_imagenet")`. To train cspvit/imagenet, run `permix train'
    )
    assert rule in error
    assert not (tmp_path / "run").exists()


@pytest.mark.once
def test_info_of_untrained_preset(capsys):
    assert main(["info", "slicevit/dogs_vs_cats"]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[2:])
    assert shown["expected"] == "top1 79.71 % (Sliceformer paper, Table 4.)"
    assert shown["data"] == "cats_vs_dogs" and shown["epochs"] == "300"
    assert shown["recipe"] == "zoo/slicevit/dogs_vs_cats/recipe.toml"


def test_unavailable_device_exits_with_error(capsys):
    error = error_of(["bench", "ops", "--device", "gpu:99"], capsys)
    assert "`--device` must be on this machine. Received: gpu:99" in error


def test_warning_is_printed_on_one_line(monkeypatch):
    monkeypatch.setattr(warnings, "formatwarning", None)
    monkeypatch.setattr(cli, "main", lambda: 0)
    with pytest.raises(SystemExit, match="0"):
        cli.command()
    line = warnings.formatwarning("so\nit is", UserWarning, "f.py", 1)
    assert line == "permix: warning: so it is\n"


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["train", "cspvit/mnist", "--smoke", "--out", ""], "--out"),
        (["train", "cspvit/mnist", "--data-dir", ""], "--data-dir"),
        (["evaluate", "cspvit/mnist", "--out", ""], "--out"),
        (["evaluate", "cspvit/mnist", "--data-path", ""], "--data-path"),
        (["bench", "ops", "--out", ""], "--out"),
        (["lra", "text", "--model", "csp", "--out", ""], "--out"),
    ],
)
def test_empty_argument_exits_with_error(arguments, named, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    rule = f"argument {named}: must not be empty. Received: '' (see `permix {arguments[0]} --help`)"
    assert capsys.readouterr().err == f"permix: error: {rule}\n"
    assert not list(tmp_path.iterdir())
