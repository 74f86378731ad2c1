"""`permix bench`: what operators and models cost on this machine and backend."""

import argparse
import csv
import datetime
import re
import sys
from contextlib import nullcontext
from pathlib import Path

from keras_permix.bench import layers as bench_layers
from keras_permix.bench import models as bench_models
from keras_permix.bench import ops as bench_ops
from keras_permix.cli.outputs import check_file
from keras_permix.cli.table import format_table

WHAT = {"ops": bench_ops, "layers": bench_layers, "models": bench_models}
DTYPES = ("float32", "bfloat16", "float16")


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "bench",
        help="measure operators or models on this machine",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("what", choices=list(WHAT), help="what to measure")
    parser.add_argument("--cases", nargs="+", metavar="CASE", help="some cases only")
    parser.add_argument("--repeats", type=int, default=9, help="rounds of each function")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="dtype to compute in")
    parser.add_argument("--device", help="where to run, such as cpu:0 or gpu:0")
    parser.add_argument(
        "--plain",
        action="store_false",
        dest="keep_memory",
        help="leave the allocator alone, as in a process that never calls `keep_freed_memory`",
    )
    parser.add_argument("--out", type=Path, help="CSV file to write, and a drawing beside it, PNG")
    parser.set_defaults(run=run, keep_memory=True)


def run(arguments):
    """Measure, print a table, write the CSV. Returns the exit code."""
    import keras

    from keras_permix._version import __version__
    from keras_permix.machine import machine
    from keras_permix.ops.backend import running

    if arguments.repeats < 1:
        raise ValueError(f"`--repeats` must be at least 1. Received: {arguments.repeats}")
    bench = WHAT[arguments.what]
    cases = arguments.cases or list(bench.CASES)
    if not set(cases) <= set(bench.CASES):
        raise ValueError(f"`--cases` must be some of {list(bench.CASES)}. Received: {cases}")
    if arguments.device:
        check_device(arguments.device)
    if arguments.out:
        check_file("--out", arguments.out)
        check_file("--out", arguments.out.with_suffix(".png"))
    print(f"{arguments.what} on {running.name()}, {machine()}", flush=True)
    rows = []
    with keras.device(arguments.device) if arguments.device else nullcontext():
        for case in cases:
            rows += bench.measure(case, arguments.repeats, arguments.dtype)
            print(f"{len(rows)} rows, {case} is done", file=sys.stderr, flush=True)
    print(format_table(bench.COLUMNS, [[str(row[c]) for c in bench.COLUMNS] for row in rows]))
    if arguments.out:
        about = {
            "dtype": arguments.dtype,
            "device": arguments.device or "",
            "date": datetime.date.today().isoformat(),
            "keras": keras.__version__,
            "backend": running.name(),
            "backend_version": running.version(),
            "keras_permix": __version__,
            "machine": machine(),
            "freed_memory": "kept" if arguments.keep_memory else "",
        }
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        with open(arguments.out, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [*bench.COLUMNS, *about], lineterminator="\n")
            writer.writeheader()
            writer.writerows({**row, **about} for row in rows)
        bench.plot(rows, arguments.out.with_suffix(".png"))
    return 0


def check_device(device):
    """Raise where the backend has no such device, or takes another one and says nothing.

    Raises:
        ValueError: names the device.
    """
    import keras

    try:
        with keras.device(device):
            place = str(keras.ops.ones(1).device)
    except Exception as error:  # Each backend has exceptions of its own.
        place = f"{type(error).__name__}: {error}"
    kind, _, number = device.lower().replace("cuda", "gpu").partition(":")
    found = re.sub("[:_]", "", place.lower().replace("cuda", "gpu"))
    if found != kind and f"{kind}{number or 0}" not in found:
        raise ValueError(
            "`--device` must be a device that the backend has here, such as cpu:0. "
            f"Received: --device={device}, which gives {place}"
        )
