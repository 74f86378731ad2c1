"""Test `permix lra`: training, reuse of results, comparison with papers and errors."""

import csv

import pytest

from keras_permix.cli import main
from keras_permix.lra.results import append_result, read_results
from keras_permix.ops.backend import running
from keras_permix.training.run import current_commit

TINY = (
    "model.hidden_dim=8", "model.num_layers=1", "model.mlp_dim=8", "model.max_sequence_length=16",
    "epochs=2",
    "steps_per_epoch=3", "batch_size=4", "schedule.warmup_steps=1", "data.train=16",
    "data.validation=4", "data.test=8", "data.min_tokens=4", "data.max_tokens=16",
)  # fmt: skip
CHANGES = [word for change in TINY for word in ("--set", change)]


@pytest.fixture(autouse=True)
def allocator(monkeypatch):
    monkeypatch.setattr("keras_permix.utils.machine.keep_freed_memory", lambda: None)


def lra(*arguments, code=0):
    assert main(["lra", *arguments]) == code


@pytest.mark.once
def test_runs_with_results_are_not_repeated(tmp_path, capsys):
    arguments = ["--verbose", "0", "--runs", str(tmp_path), *CHANGES]
    lra("listops", "--model", "csp", "slice", *arguments)
    printed = capsys.readouterr().out
    assert "listops, csp, small, seed 0: 2 × 3 steps in " in printed
    rows = read_results(tmp_path / "lra.csv")
    assert [(row["model"], row["seed"], row["steps"]) for row in rows] == [
        ("csp", "0", "6"), ("slice", "0", "6")
    ]  # fmt: skip
    assert all(row["changes"] == " ".join(TINY) for row in rows)
    trained = {(row["commit"], row["backend_version"]) for row in rows}
    assert trained == {(current_commit() or "", running.version())}
    assert all(0 <= float(row["score"]) <= 1 and int(row["parameters"]) > 0 for row in rows)
    # The name of the folder ends in a digest of the changes.
    (log,) = tmp_path.glob("lra_small/listops_csp_0_*/log.csv")
    with open(log, newline="") as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["1", "2"]

    lra("listops", "--model", "slice", *arguments)  # Its result is in the table.
    again = capsys.readouterr().out
    assert "listops, slice, small, seed 0: already in " in again and " steps in " not in again
    assert len(read_results(tmp_path / "lra.csv")) == 2
    # Measured results precede those of the papers, which used the full task.
    lines = again.splitlines()
    assert lines.index(next(line for line in lines if line.startswith("slice  "))) < lines.index(
        next(line for line in lines if line.startswith("Transformer + CSP"))
    )
    assert "makes up about 15 %. The task is reduced (scale small)" in again

    # A lost result is restored from the finished run.
    (tmp_path / "lra.csv").unlink()
    lra("listops", "--model", "slice", *arguments)
    assert [row["score"] for row in read_results(tmp_path / "lra.csv")] == [rows[1]["score"]]


@pytest.mark.once
def test_failed_run_does_not_stop_others(tmp_path, monkeypatch, capsys):
    calls = []

    def train(run, **arguments):
        calls.append((run.task, run.model))
        if run.task == "text":
            raise FileNotFoundError(f"no {run.task}")
        if run.task == "retrieval":
            raise ImportError("no package")
        raise FloatingPointError("NaN")

    monkeypatch.setattr("keras_permix.training.train", train)
    tasks = ("text", "retrieval", "listops")
    lra(*tasks, "--model", "csp", "slice", "--runs", str(tmp_path), code=2)
    assert calls == [
        ("text", "csp"), ("retrieval", "csp"), ("listops", "csp"), ("listops", "slice")
    ]  # fmt: skip
    printed = capsys.readouterr()
    retrieval = printed.out.partition("retrieval")[2].partition("listops")[0]
    assert "Channel-wise Sample Permutation" not in retrieval  # another task at small scale
    assert printed.err.splitlines() == [
        "permix: error: text: no text",
        "permix: error: retrieval: no package",
        "permix: error: listops, csp, seed 0: NaN",
        "permix: error: listops, slice, seed 0: NaN",
    ]


# Every family of models, and texts, pairs and images.
@pytest.mark.once
@pytest.mark.parametrize(
    ("scale", "task", "model"),
    [
        ("paper", "listops", "simpletron"),
        ("paper", "retrieval", "butterfly"),
        ("paper", "image", "csp_mega"),
        ("small", "retrieval", "mega"),
    ],
)
def test_smoke_runs(scale, task, model, tmp_path, capsys):
    tiny = ["--set", "model.hidden_dim=16", "--set", "model.num_layers=1"]
    arguments = ["--scale", scale, "--smoke", "--verbose", "0", "--runs", str(tmp_path)]
    lra(task, "--model", model, *arguments, *tiny)
    (preset,) = tmp_path.glob(f"lra_{scale}/{task}_{model}_0_*_smoke/preset")
    assert preset.is_dir()
    assert not (tmp_path / "lra.csv").exists()


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["listops", "--model", "csp", "--set", "epoch=3"], "Did you mean `epochs`?"),
        (["listops", "--model", "csp", "--set", "seed=3"], "Set `seed` (`--seed`)"),
        (
            ["pathx", "--model", "csp"],
            "`pathx` requires `scale='paper'` and a model of",
        ),
        (["listops", "--model", "csp", "--out", "/"], "Is a directory: '/'"),
    ],
)
def test_invalid_arguments_exit_with_error(arguments, message, tmp_path, capsys):
    lra(*arguments, "--runs", str(tmp_path), code=2)
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.once
@pytest.mark.parametrize(("task", "model"), [("lists", "csp"), ("listops", "cps")])
def test_unknown_names_exit_with_error(task, model, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["lra", task, "--model", model])
    error = capsys.readouterr().err
    assert ended.value.code == 2 and error.count("\n") == 1 and "invalid choice" in error


@pytest.mark.once
def test_append_and_read_results(tmp_path):
    path = tmp_path / "new" / "lra.csv"
    assert read_results(path) == []
    (tmp_path / "empty.csv").touch()
    assert read_results(tmp_path / "empty.csv") == []
    append_result(path, {"task": "text", "model": "csp", "changes": "a,b"})
    append_result(path, {"task": "text", "model": "slice"})
    assert [row["model"] for row in read_results(path)] == ["csp", "slice"]
    path.write_text(path.read_text() + "text,csp,small,0,,0.")  # cut off by a full disk
    append_result(path, {"task": "text", "model": "mega"})
    assert [row["model"] for row in read_results(path)] == ["csp", "slice", "mega"]
    path.write_text("task,score\ntext,1\n")
    with pytest.raises(ValueError, match="must have the columns task, model.*Received: "):
        read_results(path)


@pytest.mark.once
def test_missing_steps_per_epoch_exits_with_error(tmp_path, capsys):
    given = ["--model", "csp", "--runs", str(tmp_path), "--set", "steps_per_epoch=none"]
    lra("listops", *given, code=2)
    assert "`steps_per_epoch` must be a positive integer. R" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
