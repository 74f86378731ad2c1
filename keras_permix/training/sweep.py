"""Train a recipe over a grid of values and seeds, and tabulate and plot the scores."""

import itertools
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.recipes.load import format_overrides, format_value, parse_overrides, parse_value
from keras_permix.training.data import check_data
from keras_permix.training.model import make_model
from keras_permix.training.preset import finished_scores
from keras_permix.training.run import plan_run
from keras_permix.training.run_folder import save_figure
from keras_permix.training.train import train
from keras_permix.utils.files import write_text
from keras_permix.utils.tables import format_csv, parse_rows


def sweep(
    recipe: StrPath,
    grid: dict[str, list[Any]],
    *,
    out: StrPath,
    seeds: int = 1,
    option: str | None = None,
    data_dir: StrPath | None = None,
    smoke: bool = False,
    verbose: int = 1,
    **changes: Any,
) -> list[dict[str, str]]:
    """Train a recipe once for each combination of values and each seed.

    Called again with the same folder, it skips finished runs and resumes a stopped one. The folder
    receives a folder per run, and `sweep.csv` with a row per run, including runs of earlier sweeps.
    `sweep.png` shows the first score over the values of the first key, as mean and standard
    deviation over the seeds. It also shows the validation score of each run by epoch, or the loss
    if the log lacks the score.

    Args:
        recipe: Name or path of a recipe.
        grid: Dict from keys of the recipe, such as "model.hidden_dim" or "seed", to lists of
            values.
        out: Folder of the sweep.
        seeds: Number of seeds per combination, counted from 0, unless `grid` has the key "seed".
            Defaults to 1.
        option: Named option of the recipe. Defaults to `None`.
        data_dir: Folder with data files. Defaults to `None`, the folder of downloads.
        smoke: Whether to train for two short epochs on generated data. Defaults to `False`.
        verbose: As for `train`. Defaults to 1.
        **changes: New values of the recipe for all runs: `epochs=20`.

    Returns:
        A row per run: the values, the seed, the folder, the scores, the number of parameters, and
        the seconds of the fastest epoch, including its validation.

    A run that diverges has a row without scores, and a warning.

    Raises:
        ValueError: for an invalid recipe, key or value, or a folder with runs of other values.

    Example:
        >>> from keras_permix.training import sweep
        >>> rows = sweep(
        ...     "cspvit/mnist", {"model.num_layers": [1, 2]}, out="sweep", smoke=True, verbose=0
        ... )
        >>> [row["model.num_layers"] for row in rows]
        ['1', '2']
    """
    if "seed" in changes:
        raise ValueError(f"`seed` must be in `grid`. Received: seed={changes['seed']!r}")
    grid = {**grid, "seed": grid.get("seed", list(range(seeds)))}
    if not all(grid.values()):
        raise ValueError(f"`grid` and `seeds` must give at least one run. Received: {grid}")
    drawn = [key for key in grid if key != "seed"] or ["seed"]
    plans = []
    for values in itertools.product(*grid.values()):
        words = [f"{key}={format_value(value)}" for key, value in zip(grid, values, strict=True)]
        given = parse_overrides([*format_overrides(changes), *words])
        run = plan_run(recipe, option, smoke, **given)
        check_data(run.recipe)
        make_model(run.recipe)  # so that an invalid value is found before other runs are trained
        row = dict(word.split("=", 1) for word in words)
        name = "_".join(f"{key.split('.')[-1]}={value}" for key, value in row.items())
        plans.append((run, row, re.sub(r"[^\w.=+-]+", "-", name)))
    table = Path(out, "sweep.csv")
    found = parse_rows(table.read_bytes(), table) if table.is_file() else []
    # The table has the columns of all sweeps in the folder.
    known = {row["folder"]: {key: cell for key, cell in row.items() if cell} for row in found}
    rows: list[dict[str, str]] = []
    for number, (run, row, name) in enumerate(plans, 1):
        folder = Path(out, name)
        if finished_scores(run, folder, data_dir) is None or name not in known:
            if verbose:
                print(f"run {number} of {len(plans)}: {name}", flush=True)
            known[name] = {**row, "folder": name}
            try:
                done = train(run, out=folder, data_dir=data_dir, verbose=verbose)
            except FloatingPointError as error:
                warnings.warn(f"{name} has no score: {error}", stacklevel=2)
            else:
                known[name] |= {
                    **{key: str(score) for key, score in done.scores.items()},
                    "parameters": str(done.model.count_params()),
                    "seconds_per_epoch": f"{min(epoch['seconds'] for epoch in done.rows):.3g}",
                }
        rows.append(known[name])
        write_text(table, format_csv([*known.values()]))
        if scored := [row for row in rows if _score_of(row)]:
            draw_sweep(scored, drawn, Path(out, "sweep.png"))
    return rows


def parse_grid(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Parse strings `key=value,value` into the grid of `sweep`."""
    grid: dict[str, list[Any]] = {}
    for text in texts:
        key, separator, values = text.partition("=")
        listed = parse_value(f"[{values}]")
        if not isinstance(listed, list):
            if "{" in values:
                raise ValueError(f"Names beside tables must be quoted. Received: {text!r}")
            listed = [parse_value(value.strip()) for value in values.split(",")]
        if not (key and separator and values) or key in grid:
            raise ValueError(f"`--grid` must be one `key=value,value` per key. Received: {text!r}")
        grid[key] = listed
    return grid


def draw_sweep(rows: list[dict[str, str]], keys: list[str], path: StrPath) -> None:
    """Draw the first score over the first key, and the validation of each run by epoch."""
    from matplotlib.figure import Figure

    score = _score_of(rows[0])
    lines: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        label = ", ".join(f"{key.split('.')[-1]}={row[key]}" for key in keys[1:])
        value = float(row[_score_of(row)])
        lines.setdefault(label, {}).setdefault(row[keys[0]], []).append(value)
    figure = Figure(figsize=(10, 4), layout="constrained")
    axes, curves = figure.subplots(1, 2)
    for label, points in lines.items():
        means, spread = ([f(values) for values in points.values()] for f in (np.mean, np.std))
        axes.errorbar(list(points), means, spread, marker="o", capsize=3, label=label)
    axes.set(xlabel=keys[0], ylabel=score)
    axes.grid(alpha=0.3)
    if len(lines) > 1:
        axes.legend()
    files = [Path(path).parent / row["folder"] / "log.csv" for row in rows]
    logs = [parse_rows(file.read_bytes(), file) for file in files]
    labels = [", ".join(row[key] for key in keys) for row in rows]
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    metric = f"val_{score.split('/')[-1]}"
    metric = metric if all(metric in log[0] for log in logs) else "val_loss"
    for label, log in zip(labels, logs, strict=True):
        number, values = numbers[label], [float(epoch[metric]) for epoch in log]
        style = dict(color=f"C{number}", linestyle=("-", "--", ":")[number // 10 % 3])  # 10 colors
        curves.plot(range(1, len(log) + 1), values, marker=".", **style)
    curves.set(xlabel="epoch", ylabel=metric)
    curves.grid(alpha=0.3)
    shown = dict(zip(labels, curves.lines, strict=True))  # one line per label
    figure.legend(shown.values(), shown, title=", ".join(keys), loc="outside right")
    save_figure(figure, path)


def _score_of(row):
    """Return the name of the first score of a row, which begins with the name of its data."""
    return next((key for key, value in row.items() if "/test/" in key and value), None)
