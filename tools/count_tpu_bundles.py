"""Count what a TPU that is not there would issue for sorts, and write a table of it.

    pip install "jax[tpu]"
    JAX_PLATFORMS=cpu KERAS_BACKEND=jax python tools/count_tpu_bundles.py benchmarks/tpu_bundles.csv

libtpu compiles, and says which bundles of instructions it has made. One is issued per cycle where
nothing waits, so bundles times trips of the loops around them rank programs. They are no times:
memory is left out, and reading and writing this tensor takes about 46,000 cycles of a v5e.
"""

import csv
import math
import os
import re
import sys
import tempfile
from functools import partial
from itertools import product
from pathlib import Path

SHAPE = (32, 256, 384)
CHIP = "v5e:2x2"
GROUPS = {"256 tokens": 256, "groups of 4": 4}
CALLS = {  # of the functions of an implementation, and the types they are given
    "values": (lambda way, bits: way.sort(bits, True), "int32"),
    "with places": (lambda way, bits: way.sort_with_places(bits, True), "int32"),
    "inverse": (lambda way, bits, places: way.unsort(bits, places), "int32", "int16"),
}
DUMPED = re.compile(r"(?!.*schedule-analysis)(?!\d+-<late).*final_bundles\.txt")
LABEL = re.compile(r"^\s*(?:0x[0-9a-f]+|0)\s+([A-Z]{2})?\s*:\s*[> ]*\{")
EXIT = re.compile(r"scmp\.ge\.s32\.totalorder [^,]+, (\d+) /\* loop exit test")


def main(file):
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
            "TPU_ACCELERATOR_TYPE": "v5litepod-4",
            "TPU_WORKER_HOSTNAMES": "localhost",
            "LIBTPU_INIT_ARGS": f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true",
        }
        with open(file, "w", newline="", encoding="utf-8") as table:
            rows = csv.writer(table, lineterminator="\n")
            rows.writerow(["sort", "call", "implementation", "bundles", "unknown loops", "libtpu"])
            for row in counted(Path(folder)):
                rows.writerow(row)
                table.flush()


def counted(folder):
    """Sort, call, implementation, bundles, loops of unknown trips, and the version of libtpu."""
    from importlib.metadata import version

    import jax
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    from keras_permix.ops.backend.jax import accelerators

    device = topologies.get_topology_desc(platform="tpu", topology_name=CHIP).devices[0]
    ways = {"tpu_pallas": accelerators.Pallas("tpu"), "tpu_xla": accelerators.xla_for_tpu}
    for (sort, size), call, name in product(GROUPS.items(), CALLS, ways):
        shape = (SHAPE[0], SHAPE[1] // size, size, SHAPE[2])
        function, *dtypes = CALLS[call]
        arguments = (
            jax.ShapeDtypeStruct(shape, dtype, sharding=SingleDeviceSharding(device))
            for dtype in dtypes
        )
        jax.jit(partial(function, ways[name]())).lower(*arguments).compile()
        bundles = unknown = 0
        for text in folder.iterdir():
            if DUMPED.fullmatch(text.name):
                found = count(text.read_text(encoding="utf-8"))
                bundles, unknown = bundles + found[0], unknown + found[1]
            text.unlink()
        yield sort, call, name, bundles, unknown, version("libtpu")


def count(text):
    """The bundles of a program as often as its loops run, and the loops of unknown trips.

    A loop begins with a bundle that has a label and ends with the branch behind its test.
    """
    bundles = []
    for line in text.splitlines():
        label = LABEL.match(line)
        if label:
            bundles.append([label[1], line])
        elif bundles:
            bundles[-1][1] += line
    open_loops, loops, trips, tested = [], [], None, False
    for number, (label, line) in enumerate(bundles):
        if label in ("LB", "LH"):
            open_loops.append(number)
        if "loop exit test" in line:
            test = EXIT.search(line)
            trips, tested = (int(test[1]) if test else None), True
        if tested and "sbr.rel" in line and open_loops:
            loops.append((open_loops.pop(), number, trips))
            tested = False
    total = sum(
        math.prod(trips or 1 for first, last, trips in loops if first <= number <= last)
        for number in range(len(bundles))
    )
    return total, len(open_loops) + sum(trips is None for *_, trips in loops)


if __name__ == "__main__":
    main(sys.argv[1])
