"""Check and measure the kernels on a GPU that is available for a few minutes.

    python tools/on_gpu.py --out FOLDER --minutes 9
    python tools/on_gpu.py --out FOLDER --dry-run     # every step at its smallest, on a CPU

Steps run in separate processes, each with a time limit; a failed step does not stop the next. The
checks run concurrently and share the GPU. Then the measurements run one at a time. FOLDER receives
a log for each step and the CSV files of `permix bench`. A table of results is printed at the end.
"""

import argparse
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PYTEST = ("-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider")
BENCH = ("-m", "permix", "bench")
# Matches the line of a log that reports how a step ended.
RESULT = re.compile(r"^.*(?:\d passed|\d failed|\d skipped|\d rows,|GB/s|Error).*$", re.MULTILINE)
FAILED = re.compile(r"^(exit|stopped|skipped|\d+ skipped)|no result|\d failed|Error")
NO_GPU = "Error: no GPU is usable"


class Step(NamedTuple):
    """Hold a Python command on one backend, and its replacement on a CPU."""

    name: str
    backend: str
    seconds: int
    command: tuple[str, ...]
    dry: tuple[str, ...]


def check(name, backend, seconds, tests, dry):
    return Step(name, backend, seconds, (*PYTEST, "-n", "4", *tests), (*PYTEST, *dry))


def bench(name, backend, seconds, what, dry, *options):
    return Step(name, backend, seconds, (*BENCH, *what, *options), (*BENCH, *dry))


PERMUTATIONS = ("--cases", "csp, pairs, huge", "full sort, huge")
PERMUTATIONS += ("channel shift, huge", "groups of 4, huge")
NARROW = ("--dtype", "bfloat16")
MIXERS = ("--cases", "1280x196", "256x1024", "64x4096", "16x16384")
VIT = ("--cases", "imagenet, huge")
FEW, ONE = ("--repeats", "3"), ("--repeats", "1")
DRY_OPS = ("ops", "--cases", "max exchange", *ONE)
DRY_LAYERS = ("layers", "--cases", "32x256", *ONE)
DRY_MODELS = ("models", "--cases", "molecules", *ONE)

INSTALLED = next(filter(importlib.util.find_spec, ("torch", "jax")), "torch")
PROBE = Step("device", INSTALLED, 40, (__file__, "--probe"), (__file__, "--probe", "--dry-run"))
CHECKS = (
    check(
        "Triton kernels", "torch", 120,
        ("tests/accelerators/test_triton_on_gpu.py",),
        ("tests/accelerators/test_triton_interpreted.py", "-k", "pairs and float32"),
    ),
    check(
        "Triton kernels on JAX", "jax", 120,
        ("tests/accelerators/test_jax_triton.py", "-m", "on_gpu"),
        ("tests/accelerators/test_pallas_table.py", "-k", "the_table_chooses"),
    ),
    check(
        "operators, layers on PyTorch", "torch", 120,
        ("tests/ops", "tests/layers", "-k", "not compile and not graph"),
        ("tests/ops/test_golden.py",),
    ),
    check(
        "operators, layers on JAX", "jax", 120,
        ("tests/ops", "tests/layers"),
        ("tests/ops/test_golden.py",),
    ),
)  # fmt: skip
MEASUREMENTS = (
    bench("ops_torch_bfloat16", "torch", 60, ("ops", *PERMUTATIONS), DRY_OPS, *FEW, *NARROW),
    bench("layers_torch_bfloat16", "torch", 50, ("layers", *MIXERS), DRY_LAYERS, *FEW, *NARROW),
    bench("ops_jax_bfloat16", "jax", 70, ("ops", *PERMUTATIONS), DRY_OPS, *ONE, *NARROW),
    bench("layers_jax_bfloat16", "jax", 60, ("layers", *MIXERS), DRY_LAYERS, *FEW, *NARROW),
    bench("models_torch_bfloat16", "torch", 40, ("models", *VIT), DRY_MODELS, *FEW, *NARROW),
    bench("models_jax_bfloat16", "jax", 60, ("models", *VIT), DRY_MODELS, *FEW, *NARROW),
    bench("ops_torch", "torch", 60, ("ops", *PERMUTATIONS), DRY_OPS, *FEW),
)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder for logs and CSV files")
    parser.add_argument("--minutes", type=float, default=9, help="time for all steps")
    parser.add_argument("--only", nargs="+", default=[""], help="parts of names of steps to run")
    parser.add_argument("--dry-run", action="store_true", help="run the smallest steps on a CPU")
    parser.add_argument("--probe", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.probe:
        return probe(options.dry_run)
    if options.out is None:
        parser.error("the folder is missing: --out FOLDER")
    options.out.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + 60 * options.minutes
    results, without = [], None
    for steps in ((PROBE,), CHECKS, *((step,) for step in MEASUREMENTS)):
        chosen = [step for step in steps if any(part in step.name for part in options.only)]
        results += run([step for step in chosen if step.backend != without], options, deadline)
        if any(NO_GPU in result for *_, result in results):
            without = PROBE.backend
    if not results:
        parser.error(f"no step has one of these in its name: {', '.join(options.only)}")
    width = max(len(name) for name, *_ in results)
    for name, seconds, result in results:
        print(f"{name:{width}}  {seconds:5.0f} s  {result}")
    return int(any(FAILED.search(result) for *_, result in results))


def run(steps, options, deadline):
    """Run steps concurrently. Return the name, seconds and result of each."""
    if time.monotonic() > deadline:
        return [(step.name, 0, "skipped: no time is left") for step in steps]
    running = [(step, *start(step, options)) for step in steps]
    begin = time.monotonic()
    results = []
    for step, process, log in running:
        if process is None:
            results.append((step.name, 0, f"skipped: {step.backend} is not installed"))
            continue
        end = deadline if options.dry_run else min(begin + step.seconds, deadline)
        limit = max(0, end - time.monotonic())
        end = wait(process, limit)
        found = RESULT.findall(log.read_text(encoding="utf-8", errors="replace"))
        line = found[-1].strip("= ")[:100] if found else "no result"
        results.append((step.name, time.monotonic() - begin, f"{end}{line}"))
        print(*results[-1], sep="  ", flush=True)
    return results


def start(step, options):
    """Start a step. Return its process and the path of its log."""
    if not importlib.util.find_spec(step.backend):
        return None, None
    file_name = re.sub(r"\W+", "_", step.name)
    command = list(step.dry if options.dry_run else step.command)
    if tuple(command[: len(BENCH)]) == BENCH:
        command += ["--out", str(options.out.resolve() / f"{file_name}.csv")]
    environment = {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # concurrent processes share the memory
        **os.environ,
        "KERAS_BACKEND": step.backend,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    if options.dry_run:
        interpreted = any("interpreted" in word for word in command)
        environment |= {"JAX_PLATFORMS": "cpu", "TRITON_INTERPRET": str(int(interpreted))}
    log = options.out / f"{file_name}.log"
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, env=environment, stdout=file,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    return process, log


def wait(process, limit):
    """Wait; after `limit` seconds, interrupt for pytest's summary, then kill the process."""
    for number, seconds in ((signal.SIGINT, limit), (signal.SIGKILL, 8), (None, None)):
        try:
            process.wait(seconds)
            break
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, number)
    if number == signal.SIGINT:
        return f"exit {process.returncode}: " if process.returncode else ""
    return "stopped at the limit: "


def probe(dry_run):
    """Print the machine, its bandwidth of copies, and its rate of bfloat16 products."""
    import keras

    from keras_permix.bench.timing import medians, runners, seconds
    from keras_permix.ops.backend import running
    from keras_permix.utils.machine import driver, machine

    chip = running.module("runtime").chip()
    print(machine(), chip, chip and driver())
    if not (chip or dry_run):
        print(NO_GPU)
        return 1
    print(f"Python {sys.version.split()[0]}, Keras {keras.__version__}, {running.version()}")
    for name in ("triton", "jax", "jaxlib", "numpy"):
        if importlib.util.find_spec(name):
            print(name, importlib.import_module(name).__version__)
    values, size = (2**30, 8192) if chip else (2**20, 256)
    copied = runners(keras.ops.negative, keras.random.normal((values,), seed=0))[0]
    matrix = keras.ops.cast(keras.random.normal((size, size), seed=0), "bfloat16")
    product = runners(lambda x: keras.ops.matmul(x, x), matrix)[0]
    copy_ms, product_ms = medians([copied, product], 3, seconds)
    if chip:
        clocks = "clocks.sm,clocks.mem,temperature.gpu,power.draw"
        subprocess.run(["nvidia-smi", f"--query-gpu=name,{clocks}", "--format=csv"], check=False)
    rate = 2 * size**3 / product_ms / 1e9
    print(f"copy {8 * values / copy_ms / 1e6:.0f} GB/s, bfloat16 products {rate:.1f} TFLOP/s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
