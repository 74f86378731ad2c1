"""Count the instruction bundles that a TPU issues for a permutation, without a TPU.

    KERAS_BACKEND=jax python tools/bundles.py --out benchmarks/tpu/bundles_v5e.csv

The script compiles the TPU implementations of permutations and counts the bundles that libtpu
schedules. A bundle in a loop counts once per pass. One bundle is issued per cycle unless the TPU
waits. Waits, including those for transfers to and from memory, are not counted. The counts compare
implementations and reveal changes, but they are not times. (A kernel's pipeline makes two more
passes than it has blocks. They are counted like work, because the compiler's constants do not
distinguish them.)

The script requires `pip install "jax[tpu]"`.
"""

import argparse
import csv
import datetime
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SHAPE = (32, 256, 384)  # samples, tokens, channels
DTYPES = ("float32", "bfloat16")
# name -> one of the six permutation functions, tokens per group
CASES = {
    "values": ("sort", 256),
    "values with positions": ("sort_with_positions", 256),
    "inverse": ("unsort", 256),
    "groups of four": ("sort", 4),
    "groups of four with positions": ("sort_with_positions", 4),
    "groups of four, inverse": ("unsort", 4),
    "shift": ("shift", 1),
    "shifted pairs": ("sort_pairs", 2),
    "shifted pairs, inverse": ("unsort_pairs", 2),
}
COLUMNS = ("case", "dtype", "way", "bundles", "unknown_loops", "topology", "date", "versions")
HERE = {  # variables that libtpu requires on a machine without a TPU
    "JAX_PLATFORMS": "cpu",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
BUNDLE = re.compile(r"^ *(?:0x[0-9a-f]+|0) +([A-Z]{2})? *: ([> ]*)\{(.*)$", re.MULTILINE)
EXIT = re.compile(r"scmp\S+ [^,;]+, (\d+) /\* loop exit test")


def count_bundles(text: str) -> tuple[int, int]:
    """Return the number of issued bundles, and of loops with an unknown number of passes.

    Args:
        text: The scheduled bundles of an operation, as libtpu writes them: one per line, with a `>`
            for every enclosing loop unless the bundle is empty. The body of a loop with an unknown
            number of passes counts once.
    """
    loops: list[dict[str, Any]] = [{"bundles": 0, "passes": 1}]
    unknown = 0

    def leave(depth):
        nonlocal unknown
        while len(loops) - 1 > depth:
            loop = loops.pop()
            unknown += loop["passes"] is None
            loops[-1]["bundles"] += loop["bundles"] * (loop["passes"] or 1)

    for label, marks, bundle in BUNDLE.findall(text):
        depth = marks.count(">") if not bundle.startswith("}") else len(loops) - 1
        leave(depth - 1 if label == "LB" else depth)
        while len(loops) - 1 < depth:
            loops.append({"bundles": 0, "passes": None})
        loops[-1]["bundles"] += 1
        if found := EXIT.search(bundle):
            loops[-1]["passes"] = int(found[1])
    leave(0)
    return loops[0]["bundles"], unknown


def measure(topology: str, folder: Path, cases: list[str]) -> Iterator[dict[str, Any]]:
    """Compile every case and count its bundles.

    Args:
        topology: Name of a TPU topology in libtpu, such as "v5e:2x2".
        folder: Folder to which libtpu writes bundles, as set in `LIBTPU_INIT_ARGS`.
        cases: Some of `CASES`.

    Yields:
        A dict with the keys `COLUMNS`.
    """
    import tpu_ahead_of_time as ahead

    chip = ahead.chip(topology)
    versions = ", ".join(f"{name} {version(name)}" for name in ahead.PACKAGES)
    for case, dtype, way in itertools.product(cases, DTYPES, ahead.WAYS):
        for old in folder.iterdir():
            old.unlink()
        name, group_size = CASES[case]
        ahead.compile_permutation(way, name, SHAPE, dtype, group_size, chip)
        found = [count_bundles(path.read_text(encoding="utf-8")) for path in bundles_in(folder)]
        bundles, unknown = map(sum, zip(*found, strict=True))
        yield {
            "case": case, "dtype": dtype, "way": way, "bundles": bundles,
            "unknown_loops": unknown, "topology": topology,
            "date": datetime.date.today().isoformat(), "versions": versions,
        }  # fmt: skip


def bundles_in(folder: Path) -> list[Path]:
    """Return the files of the compiled operations."""
    found = sorted(folder.glob("*final_bundles.txt"))
    return [path for path in found if "<late" not in path.name and "schedule" not in path.name]


def main(arguments: list[str]) -> int:
    """Print and write the rows. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python tools/bundles.py")
    parser.add_argument("--topology", default="v5e:2x2", help="name of a TPU topology in libtpu")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--out", type=Path, help="CSV file to write")
    asked = parser.parse_args(arguments)
    if not find_spec("libtpu"):
        parser.error('libtpu is not installed: pip install "jax[tpu]"')
    try:
        return _write(asked)
    except ModuleNotFoundError as error:
        parser.error(f"JAX must be the backend, KERAS_BACKEND=jax. Received: {error}")


def _write(asked):
    with tempfile.TemporaryDirectory() as folder:
        dump = f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true"
        os.environ.update({**HERE, "LIBTPU_INIT_ARGS": dump})
        rows = []
        for row in measure(asked.topology, Path(folder), asked.cases):
            print(*(row[name] for name in COLUMNS[:5]), sep=",", flush=True)
            rows.append(row)
    if asked.out:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        with open(asked.out, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
