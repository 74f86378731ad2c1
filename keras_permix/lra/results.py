"""Read and write the results of the Long Range Arena, a CSV file with a row per run."""

import csv
import json
import statistics
from pathlib import Path
from typing import Any

from keras_permix._typing import StrPath
from keras_permix.lra.run import LRARun
from keras_permix.utils.formatting import SHARES

COLUMNS = (
    "task", "model", "scale", "seed", "changes", "score", "steps", "seconds", "parameters",
    "backend", "backend_version", "keras", "keras_permix", "commit", "machine", "date",
)  # fmt: skip


def read_results(path: StrPath) -> list[dict[str, str]]:
    """Read the complete rows of a file of results; an absent or empty file has no rows."""
    if not Path(path).is_file():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows, columns = list(reader), reader.fieldnames
    if columns and tuple(columns) != COLUMNS:
        raise ValueError(f"Results must have the columns {', '.join(COLUMNS)}. Received: {path}")
    return [row for row in rows if None not in row.values()]  # A full disk may cut the last one.


def append_result(path: StrPath, row: dict[str, Any]) -> None:
    """Append a row to a file of results, which is created if absent."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not file.tell():
            writer.writeheader()
        elif not path.read_bytes().endswith(b"\n"):
            file.write("\n")
        writer.writerow(row)


def key_of(run: LRARun) -> dict[str, str]:
    """Return the columns that identify a run."""
    named = {"task": run.task, "model": run.model, "scale": run.scale, "seed": str(run.seed)}
    return {**named, "changes": " ".join(run.overrides)}


def holds(rows: list[dict[str, str]], run: LRARun) -> bool:
    """Return whether one of the rows belongs to a run."""
    key = key_of(run).items()
    return any(key <= row.items() for row in rows)


def result_of(run: LRARun, folder: StrPath) -> dict[str, Any]:
    """Make the row of a finished run from the files in its folder."""
    folder = Path(folder)
    metadata, record = (
        json.loads((folder / name).read_text(encoding="utf-8"))
        for name in ("preset/metadata.json", "run.json")
    )
    with open(folder / "log.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        **key_of(run),
        "score": next(v for k, v in metadata["scores"].items() if k.split("/")[-1] in SHARES),
        "steps": len(rows) * (run.recipe.steps_per_epoch or 0),
        "seconds": round(sum(float(row["seconds"]) for row in rows)),
        "parameters": metadata["parameter_count"],
        "backend_version": record.get("backend_version", ""),
        "keras_permix": record["version"],
        "commit": " ".join(record["commits"]),
        **{key: record[key] for key in ("backend", "keras", "machine", "date")},
    }


def means(rows: list[dict[str, str]]) -> dict[tuple[str, str], tuple[float, float, int]]:
    """Average the scores over seeds, in rows of the same scale and changes.

    The values per task and model are the mean in percent, the standard deviation (0 for one seed)
    and the number of seeds.

    Example:
        >>> row = {"task": "text", "model": "csp"}
        >>> means([{**row, "score": "0.5"}, {**row, "score": "0.7"}])
        {('text', 'csp'): (60.0, 14.142135623730951, 2)}
    """
    scores: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        scores.setdefault((row["task"], row["model"]), []).append(100 * float(row["score"]))
    return {
        key: (statistics.mean(found), statistics.stdev(found) if found[1:] else 0.0, len(found))
        for key, found in scores.items()
    }


def in_words(mean: float, spread: float, seeds: int) -> str:
    """Format the mean and the spread of a score in percent."""
    return f"{mean:.1f} ± {spread:.1f}" if seeds > 1 else f"{mean:.1f}"
