"""`permix bench`: what operators and models cost on this machine and backend."""

import argparse
import csv
import datetime
import importlib
from pathlib import Path

from keras_permix.cli import bench_models, bench_ops
from keras_permix.cli.table import format_table
from keras_permix.cli.timing import keep_freed_memory

WHAT = {
    "ops": (bench_ops.run_ops, bench_ops.CASES, bench_ops.COLUMNS),
    "models": (bench_models.run_models, bench_models.CASES, bench_models.COLUMNS),
}


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "bench",
        help="measure operators or models on this machine",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("what", choices=list(WHAT), help="what to measure")
    parser.add_argument("--cases", nargs="+", metavar="CASE", help="some cases only")
    parser.add_argument("--repeats", type=int, default=9, help="turns of each function")
    parser.add_argument("--out", type=Path, help="CSV file to write as well")
    parser.set_defaults(run=run)


def run(arguments):
    """Measure, print a table, write the CSV. Returns the exit code."""
    import keras

    from keras_permix import __version__
    from keras_permix.machine import machine

    if arguments.repeats < 1:
        raise ValueError(f"`--repeats` must be at least 1. Received: {arguments.repeats}")
    measure, known, columns = WHAT[arguments.what]
    cases = arguments.cases or list(known)
    if not set(cases) <= set(known):
        raise ValueError(f"`--cases` must be some of {list(known)}. Received: {cases}")
    keep_freed_memory()
    print(f"{arguments.what} on {keras.config.backend()}, {machine()}", flush=True)
    rows = list(measure(arguments.repeats, cases))
    print(format_table(columns, [[str(row[c]) for c in columns] for row in rows]))
    if arguments.out:
        about = {
            "date": datetime.date.today().isoformat(),
            "keras": keras.__version__,
            "backend": keras.config.backend(),
            "backend_version": backend_version(),
            "keras_permix": __version__,
            "machine": machine(),
        }
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        with open(arguments.out, "w", newline="") as file:
            writer = csv.DictWriter(file, [*columns, *about], lineterminator="\n")
            writer.writeheader()
            writer.writerows({**row, **about} for row in rows)
    return 0


def backend_version():
    """Version of the package of the backend."""
    import keras

    return importlib.import_module(keras.config.backend()).__version__
