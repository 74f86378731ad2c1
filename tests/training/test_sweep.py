"""Test `sweep` and `permix sweep`."""

import csv
import importlib
import json

import keras
import pytest

from keras_permix.cli import main
from keras_permix.training.sweep import parse_grid, sweep

pytestmark = pytest.mark.once
MODULE = importlib.import_module("keras_permix.training.sweep")
GRID = ["--grid", "model.mlp_dim=8,16", "--grid", "batch_size=8,16"]
SMALL = ["--set", "model.hidden_dim=8", "--set", "model.num_layers=1", "--verbose", "0", "--smoke"]


class StopInSecondEpoch(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            raise KeyboardInterrupt


def read(folder):
    with open(folder / "sweep.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_stopped_sweep_resumes_to_the_same_table(tmp_path, monkeypatch, capsys):
    trained, train = [], MODULE.train

    def counted(run, **arguments):
        trained.append(arguments["out"].name)
        stops = [StopInSecondEpoch()] if len(trained) == 3 else []
        return train(run, callbacks=stops, **arguments)

    command = ["sweep", "cspvit/mnist", *GRID, *SMALL]
    assert main([*command, "--out", str(tmp_path / "whole")]) == 0
    printed = capsys.readouterr().out
    monkeypatch.setattr(MODULE, "train", counted)
    stopped = [*command, "--out", str(tmp_path / "stopped")]
    assert main(stopped) == 130
    assert [row["folder"] for row in read(tmp_path / "stopped")] == trained[:2]
    assert main(stopped) == 0
    assert trained[2:] == [trained[2], trained[2], "mlp_dim=16_batch_size=16_seed=0"]
    assert main(stopped) == 0
    assert len(trained) == 5, "a finished sweep trains nothing"

    rows = read(tmp_path / "stopped")
    assert [(row["model.mlp_dim"], row["batch_size"], row["seed"]) for row in rows] == [
        ("8", "8", "0"), ("8", "16", "0"), ("16", "8", "0"), ("16", "16", "0"),
    ]  # fmt: skip
    assert int(rows[2]["parameters"]) > int(rows[0]["parameters"]) == int(rows[1]["parameters"])
    for row, expected in zip(rows, read(tmp_path / "whole"), strict=True):
        assert {**row, "seconds_per_epoch": expected["seconds_per_epoch"]} == expected
    assert "generated/test/top1" in printed and "seconds_per_epoch" in printed
    assert (tmp_path / "stopped" / "sweep.png").read_bytes().startswith(b"\x89PNG")
    more = [*command, "--out", str(tmp_path / "stopped"), "--set", "batch_size=8"]
    more = [word.replace("model.mlp_dim=8,16", "model.mlp_dim=24") for word in more]
    assert main([*more[:4], *more[6:]]) == 0
    found = read(tmp_path / "stopped")
    assert found[:4] == rows and len(found) == 5
    other = dict(model={"hidden_dim": 8, "num_layers": 1, "mlp_dim": 8}, smoke=True, verbose=0)
    for _ in range(2):  # trained, then read from the table
        (row,) = sweep("cspvit/mnist", {"seed": [5]}, out=tmp_path / "stopped", **other)
        assert "model.mlp_dim" not in row and row["seed"] == "5"


def test_sweep_over_seeds(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(MODULE, "draw_sweep", lambda rows, keys, path: drawn.append(list(rows)))
    small = dict(model={"hidden_dim": 8, "num_layers": 1}, smoke=True, verbose=0)
    grid = {"model.mixer": [{"name": "csp", "group_size": 2}]}
    rows = sweep("cspvit/mnist", grid, out=tmp_path, seeds=2, **small)
    names = [f"mixer=-name-=-csp-group_size-=-2-_seed={seed}" for seed in (0, 1)]
    assert [row["folder"] for row in rows] == names
    assert rows[0]["model.mixer"] == '{name = "csp", group_size = 2}'
    assert drawn[-1] == rows
    with pytest.raises(ValueError, match="`out` must .* with other epochs"):
        sweep("cspvit/mnist", grid, out=tmp_path, epochs=3, **small)
    with pytest.raises(ValueError, match="`seed` must be in `grid`.*seed=7"):
        sweep("cspvit/mnist", grid, out=tmp_path, seed=7)
    with pytest.raises(ValueError, match=r"at least one run. Received: .*'seed': \[\]"):
        sweep("cspvit/mnist", grid, out=tmp_path, seeds=0)


@pytest.mark.parametrize(
    ("words", "seeds"),
    [
        (["--seeds", "2"], ["0", "1"]),
        (["--grid", "seed=1,2", "--grid", "model.mlp_dim=8"], ["1", "2"]),
    ],
)
def test_seeds(words, seeds, tmp_path):
    assert main(["sweep", "cspvit/mnist", *words, *SMALL, "--out", str(tmp_path)]) == 0
    rows = read(tmp_path)
    assert [row["seed"] for row in rows] == seeds
    for row in rows:
        command = json.loads((tmp_path / row["folder"] / "run.json").read_text())["command"]
        assert f"--set seed={row['seed']}" in command
    assert (tmp_path / "sweep.png").is_file()


def test_invalid_value_raises_before_training(tmp_path):
    with pytest.raises(ValueError, match="num_layers=0"):
        sweep("cspvit/mnist", {"model.num_layers": [1, 0]}, out=tmp_path / "runs", smoke=True)
    assert not (tmp_path / "runs").exists()


def test_diverging_run_has_no_score(tmp_path):
    grid = {"optimizer.learning_rate": [1e30, 1e-3]}
    small = dict(model={"hidden_dim": 8, "num_layers": 1}, smoke=True, verbose=0)
    for _ in range(2):
        with pytest.warns(UserWarning, match="learning_rate=1e.30.* has no score: .*loss"):
            rows = sweep("cspvit/mnist", grid, out=tmp_path, **small)
        scored = [any("/test/" in key for key in row) for row in rows]
        assert scored == [False, True]
    assert [row["parameters"] != "" for row in read(tmp_path)] == [False, True]


def test_sweep_picture(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(MODULE, "save_figure", lambda figure, path: figures.append(figure))
    rows = []
    for value, seed in [("8", 0), ("8", 1), ("16", 0), ("16", 1)]:
        row = {
            "epochs": value,
            "seed": str(seed),
            "folder": f"{value}_{seed}",
            "a/test/top1": value,
        }
        rows.append(row)
        (tmp_path / row["folder"]).mkdir()
        log = f"epoch,val_top1,val_loss\n1,0.{value},9\n2,0.5,{seed}\n"
        (tmp_path / row["folder"] / "log.csv").write_text(log)
    MODULE.draw_sweep(rows, ["epochs"], tmp_path / "sweep.png")
    means, curves = figures[0].axes
    assert means.lines[0].get_ydata().tolist() == [8, 16]
    drawn = [line.get_ydata().tolist() for line in curves.lines]
    assert drawn == [[0.8, 0.5], [0.8, 0.5], [0.16, 0.5], [0.16, 0.5]]
    colors = [line.get_color() for line in curves.lines]
    assert colors[0] == colors[1] != colors[2] == colors[3]
    assert [text.get_text() for text in figures[0].legends[0].texts] == ["8", "16"]
    scored = [{"a/test/f1" if "/" in key else key: row[key] for key in row} for row in rows]
    MODULE.draw_sweep(scored, ["epochs"], tmp_path / "sweep.png")
    assert figures[1].axes[1].get_ylabel() == "val_loss", "the log has no f1"
    rows[2:] = [{"b/test/top1" if "/" in key else key: row[key] for key in row} for row in rows[2:]]
    MODULE.draw_sweep(rows, ["epochs"], tmp_path / "sweep.png")
    assert figures[2].axes[0].lines[0].get_ydata().tolist() == [8, 16]


def test_parse_grid():
    texts = ["a.b=1,x y, none", 'mixer={name = "csp", group_size = 2},{name = "slice_sort"}']
    assert parse_grid(texts) == {
        "a.b": [1, "x y", None],
        "mixer": [{"name": "csp", "group_size": 2}, {"name": "slice_sort"}],
    }


@pytest.mark.parametrize("texts", [["epochs"], ["=1"], ["epochs="], ["seed=1", "seed=2"]])
def test_invalid_grid_raises(texts):
    with pytest.raises(ValueError, match=f"`--grid` must be one .*Received: '{texts[-1]}'"):
        parse_grid(texts)


def test_unquoted_names_beside_tables_raise():
    with pytest.raises(ValueError, match="must be quoted. Received: 'mixer=.*,attention'"):
        parse_grid(['mixer={name="csp",group_size=2},attention'])
