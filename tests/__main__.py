"""Run the test suite once for each Keras backend that is installed.

    python -m tests [BACKEND …] [--thorough] [arguments of pytest …]

Keras fixes its backend when it is imported, so each backend has processes of its own: one for each
core and each `GIGABYTES` of memory, up to `WORKERS`, which share the cores. `-n 0` keeps the tests
in a single one. Tests that need no backend, or would find the same on all (`pytest.mark.once`), run
on the last of them, which starts soonest. Of the others, those that hold a backend to numbers
(`pytest.mark.everywhere`) run on each, and the rest take turns: each runs on one backend, and at
the next commit on the next; examples that need one backend run at every third commit. None takes
turns with `--thorough`, on a single backend, or where arguments of pytest choose among them.
Kernels are interpreted by `make test-accelerators` alone. On TensorFlow those that compile as users
do have a run of their own. An `-m EXPRESSION` chooses in place of all this.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

BACKENDS = ("jax", "tensorflow", "torch")
ROOT = Path(__file__).resolve().parents[1]
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}
TURN = "KERAS_PERMIX_TURN"  # which of the tests that take turns run: "0/3" is the first of three
NO_TESTS = 5  # pytest's exit code where it was given none
# TensorFlow reads XLA's flags once per process. With these it compiles in a third of the time.
SOON = {
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
}
# What is compiled as users compile it, by how names begin: what compares bits of whole programs, or
# is what users run.
AS_USERS_DO = (
    "tests/accelerators",
    "tests/export",
    "tests/ops/test_golden.py",
    "tests/ops/test_masks.py::test_masked_and_compiled",
    "tests/ops/test_oracle.py::test_compiled",
    "tests/ops/test_oracle.py::test_large",
    "tests/ops/test_oracle.py::test_nan",
    "tests/ops/test_oracle.py::test_subnormal",
    "tests/ops/test_oracle.py::test_zeros",
    "tests/test_examples.py",
)
WORKERS = 4
GIGABYTES = 5  # those of JAX, which take the most, were seen at 3.7


def main(arguments):
    installed = [name for name in BACKENDS if importlib.util.find_spec(name)]
    asked = [argument for argument in arguments if argument in BACKENDS]
    absent = [name for name in asked if name not in installed]
    if absent or not installed:
        print(f"tests: not installed: {', '.join(absent or BACKENDS)}", file=sys.stderr)
        return 2
    arguments = [word for word in arguments if word not in BACKENDS]
    thorough = bool(arguments)
    arguments = [word for word in arguments if word != "--thorough"]
    *others, last = asked or installed
    chosen = dict.fromkeys(others, "not interpreted and not once") | {last: "not interpreted"}
    turns = [{}] * len(chosen) if thorough else turns_of(len(chosen), commits())
    results = {
        name: run_all(name, marks, arguments, turn)
        for (name, marks), turn in zip(chosen.items(), turns, strict=True)
    }
    print()
    for name, (code, counts, seconds) in results.items():
        print(f"{name}: {describe(counts)} in {seconds:.0f} s{f' (exit {code})' if code else ''}")
    outcomes = zip(*(counts for _, counts, _ in results.values()), strict=True)
    print(f"all: {describe(map(sum, outcomes))}")
    return int(any(code for code, _, _ in results.values()))


def turns_of(backends, start):
    """What says in the environment of each of so many backends whose turn it is there."""
    return [{TURN: f"{(number + start) % backends}/{backends}"} for number in range(backends)]


def commits():
    """How many commits led here; 0 where git does not know."""
    command = ["git", "rev-list", "--count", "HEAD"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return 0
    return int(done.stdout or 0)


def run_all(backend, marks, arguments, turn):
    """Run the tests on one backend. Returns the exit code, counts of outcomes, and seconds."""
    runs = [(turn, marks, arguments)]
    if backend == "tensorflow" and "-m" not in arguments:
        files = sorted({name.partition("::")[0] for name in AS_USERS_DO})
        runs = [
            ({**turn, **SOON}, f"{marks} and not as_users_do", arguments),
            (turn, f"{marks} and as_users_do", arguments or files),
        ]
    done = [run(backend, flags, ["-m", marks, *arguments]) for flags, marks, arguments in runs]
    codes, counts, seconds = zip(*done, strict=True)
    code = max(set(codes) - {NO_TESTS}, default=NO_TESTS)
    return code, tuple(map(sum, zip(*counts, strict=True))), sum(seconds)


def run(backend, flags, arguments):
    """Run pytest on one backend. Returns its exit code, counts of outcomes, and seconds."""
    print(f"\n{backend}: python -m pytest {' '.join(arguments)}", flush=True)
    environment = {**QUIET, **threads(), **flags, **os.environ, "KERAS_BACKEND": backend}
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *parallel(), *arguments]
        code = subprocess.run(command, cwd=ROOT, env=environment).returncode
        counts = count(report)
    return code, counts, time.perf_counter() - start


def parallel():
    """Arguments of pytest-xdist, where it is installed."""
    if not importlib.util.find_spec("xdist"):
        return []
    return ["-n", str(workers(os.cpu_count(), memory())), "--dist", "worksteal"]


def threads():
    """Threads of OpenMP in each process: no more in all than there are cores, or they wait."""
    if not importlib.util.find_spec("xdist"):
        return {}
    return {"OMP_NUM_THREADS": str(os.cpu_count() // workers(os.cpu_count(), memory()))}


def workers(cores, memory):
    """How many processes a machine of so many cores and bytes has room for."""
    return max(1, min(WORKERS, cores, memory // (GIGABYTES * 10**9)))


def memory():
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def count(report):
    """Passed, failed and skipped tests of a JUnit report; nothing if pytest died before it."""
    if not report.is_file():
        return 0, 0, 0
    suite = ElementTree.parse(report).find("testsuite")
    tests, failures, errors, skipped = (
        int(suite.get(key)) for key in ("tests", "failures", "errors", "skipped")
    )
    return tests - failures - errors - skipped, failures + errors, skipped


def describe(counts):
    passed, failed, skipped = counts
    return f"{passed} passed, {failed} failed, {skipped} skipped"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
