"""Run the test suite once per installed Keras backend.

    python -m tests [BACKEND …] [--thorough] [pytest arguments …]

Keras fixes its backend at import, so each backend gets its own worker processes: one per core and
per `GIGABYTES` of memory, at most `WORKERS`. `-n 0` runs the tests in a single process.

The backend of a test depends only on the test:

- `pytest.mark.once` (needs no backend, or gives the same result on all): the last backend, which
  starts fastest.
- `pytest.mark.everywhere` (compares numbers with a reference): every backend.
- All other tests: one backend, chosen by a hash of the test id; half of them run on the last one.

With `--thorough`, a single backend, or pytest arguments, all tests but `once` run on every backend.
Only `make test-accelerators` interprets kernels. On JAX and TensorFlow, tests that compile programs
with default options run in separate processes. `-m EXPRESSION` replaces this selection.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from importlib.metadata import version
from pathlib import Path

BACKENDS = ("jax", "tensorflow", "torch")
ROOT = Path(__file__).resolve().parents[1]
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}
SHARE = "KERAS_PERMIX_SHARE"  # the share of the tests to run: "0/3" is the first of three
NO_TESTS = 5  # pytest's exit code if it collected no tests
# JAX and TensorFlow read these flags once per process.
FAST_COMPILATION = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_parallel_codegen_split_count=1"
)
UNFUSED = " --xla_cpu_use_fusion_emitters=false"  # JAX 0.11 and newer abort on this flag
# Prefixes of ids of tests that compile with default options: they compare bits or run examples.
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
GIGABYTES = 5  # per worker; JAX workers need the most, up to 3.7


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
    results = {}
    for number, (name, marks) in enumerate(chosen.items()):
        share = {} if thorough else {SHARE: f"{number}/{len(chosen)}"}
        results[name] = run_all(name, marks, arguments, share)
    print()
    for name, (code, counts, seconds) in results.items():
        print(f"{name}: {describe(counts)} in {seconds:.0f} s{f' (exit {code})' if code else ''}")
    outcomes = zip(*(counts for _, counts, _ in results.values()), strict=True)
    print(f"all: {describe(map(sum, outcomes))}")
    return int(any(code for code, _, _ in results.values()))


def run_all(backend, marks, arguments, share):
    """Run the tests on one backend. Returns the exit code, counts of outcomes, and seconds."""
    runs = [(share, marks, arguments)]
    quick = fast_compilation(backend)
    if quick and "-m" not in arguments:
        files = sorted({name.partition("::")[0] for name in AS_USERS_DO})
        asked = [word.partition("::")[0] for word in arguments if word.startswith("tests")]
        runs = [({**share, **quick}, f"{marks} and not as_users_do", arguments)]
        if not asked or any(a.startswith(b) or b.startswith(a) for a in asked for b in files):
            runs.append((share, f"{marks} and as_users_do", arguments or files))
    done = [run(backend, flags, ["-m", marks, *arguments]) for flags, marks, arguments in runs]
    codes, counts, seconds = zip(*done, strict=True)
    code = max(set(codes) - {NO_TESTS}, default=NO_TESTS)
    return code, tuple(map(sum, zip(*counts, strict=True))), sum(seconds)


def fast_compilation(backend):
    """Return environment variables that shorten most tests by up to 40 %; none for PyTorch."""
    if backend == "torch":
        return {}
    knows = backend == "tensorflow" or [*map(int, version("jax").split(".")[:2])] < [0, 11]
    return {"XLA_FLAGS": FAST_COMPILATION + (UNFUSED if knows else "")}


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
    """Return the arguments of pytest-xdist, if it is installed."""
    if not importlib.util.find_spec("xdist"):
        return []
    return ["-n", str(workers(os.cpu_count(), memory())), "--dist", "worksteal"]


def threads():
    """Return the environment that shares the cores between the OpenMP threads of all workers."""
    if not importlib.util.find_spec("xdist"):
        return {}
    return {"OMP_NUM_THREADS": str(os.cpu_count() // workers(os.cpu_count(), memory()))}


def workers(cores, memory):
    """Return the number of workers for a machine with `cores` cores and `memory` bytes."""
    return max(1, min(WORKERS, cores, memory // (GIGABYTES * 10**9)))


def memory():
    """Return the memory of this machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def count(report):
    """Count passed, failed and skipped tests in a JUnit report; zeros if there is no report."""
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
