"""How many sectors of memory the kernels for a GPU read for a permutation, without a GPU.

    TRITON_INTERPRET=1 KERAS_BACKEND=torch python -m keras_permix.bench.sectors

runs the Triton kernels in Triton's interpreter and counts, from the addresses of their loads and
stores, the sectors of 32 bytes that 32 values at a time touch. A sector that a program had not long
before counts as loaded: the kernels leave it to a cache, here one of 48 KB for every program, which
forgets what is longest unused. Tables of steps and the bits of pairs are counted as well. It is no
time.

It needs `pip install triton`.
"""

import argparse
import csv
import datetime
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from keras_permix.ops import shift_steps
from keras_permix.ops.backend import running

SECTOR = 32  # bytes
DTYPES = {"float32": 4, "bfloat16": 2}  # bytes of a value
KERNELS = {"shift": 1, "pairs": 2}  # tokens of a group
# tokens, channels, and the schedule of the steps
CASES: dict[str, tuple[int, int, dict[str, Any]]] = {
    "linear, 196 × 384": (196, 384, dict(schedule="linear")),
    "linear, 4096 × 64": (4096, 64, dict(schedule="linear")),
    "linear_code, 64 × 512": (64, 512, dict(schedule="linear_code")),
    "unit, 1024 × 128": (1024, 128, dict(schedule="unit")),
    "power_code, 16384 × 128, the last of 4 layers": (
        16384, 128, dict(schedule="power_code", layer=3, layers=4)
    ),
}  # fmt: skip
COUNTS = ("asked", "loaded", "stored")
COLUMNS = ("case", "dtype", "kernel", "way", "sectors", *COUNTS, "date", "versions")


def measure(cases: list[str]) -> Iterator[dict[str, Any]]:
    """Count for one sample of every case.

    Args:
        cases: Some of `CASES`.

    Yields:
        A dict with the keys `COLUMNS`; `sectors` are those that the values fill.

    Raises:
        RuntimeError: unless Triton interprets, TRITON_INTERPRET=1.
    """
    interpreted = running.module("interpreted")
    facts = {
        "date": datetime.date.today().isoformat(),
        "versions": ", ".join(f"{name} {version(name)}" for name in interpreted.PACKAGES),
    }
    for case in cases:
        tokens, channels, schedule = CASES[case]
        steps = shift_steps(tokens=tokens, channels=channels, **schedule).tolist()
        for dtype, itemsize in DTYPES.items():
            for kernel, group_size in KERNELS.items():
                shape = (1, tokens, channels)
                counted = interpreted.count_sectors(steps, group_size, shape, dtype)
                for way, sectors in zip(("forward", "back"), counted, strict=True):
                    yield {
                        "case": case, "dtype": dtype, "kernel": kernel, "way": way,
                        "sectors": tokens * channels * itemsize // SECTOR,
                        **{count: sectors[count] for count in COUNTS}, **facts,
                    }  # fmt: skip


def main(arguments: list[str]) -> int:
    """Print and write the rows. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m keras_permix.bench.sectors")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--out", type=Path, help="CSV file to write")
    asked = parser.parse_args(arguments)
    rows = []
    try:
        for row in measure(asked.cases):
            print(*(row[name] for name in COLUMNS[:-2]), sep="; ", flush=True)
            rows.append(row)
    except ModuleNotFoundError as error:
        parser.error(f"KERAS_BACKEND=torch and an installed Triton are needed. Received: {error}")
    except RuntimeError as error:
        parser.error(str(error))
    if asked.out:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        with open(asked.out, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
