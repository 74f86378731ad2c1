"""Measure time and memory of ops, layers and models on this machine and backend."""

import sys
from contextlib import nullcontext
from importlib.util import find_spec

from keras_permix.bench import layers as bench_layers
from keras_permix.bench import lra as bench_lra
from keras_permix.bench import models as bench_models
from keras_permix.bench import ops as bench_ops
from keras_permix.cli.common import check_output, format_table, given_path

WHAT = {"ops": bench_ops, "layers": bench_layers, "models": bench_models, "lra": bench_lra}
DTYPES = ("float32", "bfloat16", "float16")


def add_arguments(parser):
    parser.add_argument("what", choices=list(WHAT), help="what to measure")
    parser.add_argument(
        "--cases", nargs="+", metavar="CASE", help="run only these cases, such as 'csp, pairs'"
    )
    parser.add_argument("--repeats", type=int, default=9, help="rounds per function")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="compute dtype")
    parser.add_argument(
        "--batch-size",
        type=int,
        help=f"texts per batch, only for lra (default: {bench_lra.BATCH})",
    )
    parser.add_argument(
        "--against",
        nargs="+",
        choices=bench_models.PEERS,
        help="also measure the vision transformers of these packages, only for models; timm and "
        "torch_nn need PyTorch",
    )
    parser.add_argument("--device", help="device to run on, such as cpu:0 or gpu:0")
    parser.add_argument(
        "--plain",
        action="store_true",
        help="do not call `keep_freed_memory`, which keeps freed memory for reuse",
    )
    parser.add_argument(
        "--out",
        type=given_path,
        help="CSV file to write, row by row; its folder is created. With matplotlib, a plot is "
        "written to the same path with the ending .png",
    )
    parser.set_defaults(keep_memory=True)


def run(arguments):
    """Measure, print a table and write the CSV file. Return the exit code."""
    import keras

    from keras_permix._version import __version__
    from keras_permix.bench import timing
    from keras_permix.ops.backend import running
    from keras_permix.training.run import current_commit, now
    from keras_permix.utils.checks import check_integer
    from keras_permix.utils.files import write_text
    from keras_permix.utils.machine import driver, is_out_of_memory, machine
    from keras_permix.utils.tables import format_csv

    bench, repeats = WHAT[arguments.what], check_integer("--repeats", arguments.repeats)
    device = used_device(arguments.device) if arguments.device else ""
    with keras.device(arguments.device) if arguments.device else nullcontext():
        number = timing.accelerator()
    chip = "" if number is None else running.module("runtime").chip(number)
    left_out = () if chip else getattr(bench, "OF_ACCELERATORS", ())
    cases = arguments.cases or [case for case in bench.CASES if case not in left_out]
    if not set(cases) <= set(bench.CASES):
        raise ValueError(f"`--cases` must be among {list(bench.CASES)}. Received: {cases}")
    batch, against = arguments.batch_size, arguments.against
    if batch is not None and bench is not bench_lra or against and bench is not bench_models:
        rule = "`--batch-size` is only for lra, and `--against` for models"
        raise ValueError(f"{rule}. Received: {arguments.what}")
    own = {} if batch is None else {"batch": check_integer("--batch-size", batch)}
    own |= {"against": against} if against else {}
    if out := arguments.out:
        check_output(out, endings=(".csv",))
        picture = out.with_suffix(".png")
        text = out.read_text(encoding="utf-8", errors="replace") if out.exists() else ""
        is_new = not text and not picture.exists()
        if not is_new and "backend_version" not in text.partition("\n")[0].split(","):
            raise ValueError(f"`--out` must be a new file or an earlier benchmark. Received: {out}")
    where = ", ".join(filter(None, (machine(), chip, device)))
    print(f"{arguments.what} on {running.name()}, {where}", flush=True)
    about = {
        "dtype": arguments.dtype,
        "device": device,
        **now(),
        "keras_permix": __version__,
        "commit": current_commit() or "",
        "chip": chip,
        "driver": driver() if chip else "",
        "freed_memory": "" if arguments.plain else "kept",
    }
    rows, table = [], []
    with keras.device(arguments.device) if arguments.device else nullcontext():
        for case in cases:
            end = "done"
            try:
                for row in bench.measure(case, repeats, arguments.dtype, **own):
                    rows.append(row)
                    table.append({**row, **about})
                    if out:
                        write_text(out, format_csv(table))
            except Exception as error:  # Each backend raises different exceptions.
                if not is_out_of_memory(error):
                    raise
                end = "out of memory"
            print(f"{len(rows)} rows, {case}: {end}", file=sys.stderr, flush=True)
    if not rows:
        raise MemoryError("no case fits into memory")
    print(format_table(rows[0], [map(str, row.values()) for row in rows]))
    if out:
        if find_spec("matplotlib"):
            bench.plot(rows, picture)
        else:
            print(f"{picture.name} was not written: matplotlib is not installed.", file=sys.stderr)
    return 0


def used_device(wanted):
    """Return the device that the backend uses in place of the one that is wanted."""
    import keras

    rule = f"`--device` must be on this machine. Received: {wanted}"
    try:
        with keras.device(wanted):
            used = str(keras.ops.zeros(1).device)
    except Exception as error:  # Each backend raises different exceptions.
        raise ValueError(f"{rule} ({error})") from error
    kind = wanted.lower().partition(":")[0].replace("cuda", "gpu")
    if kind not in used.lower().replace("cuda", "gpu"):  # TensorFlow may use another one.
        raise ValueError(f"{rule}, which gives {used}")
    return used
