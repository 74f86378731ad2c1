"""Check that presets reproduce their stored outputs on every installed backend.

Each backend runs in a separate process. It loads every preset, verifies the checksums, and compares
the outputs with the probe of the preset.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from keras_permix.cli.common import format_table
from keras_permix.utils.formatting import counted


def add_arguments(parser):
    parser.add_argument(
        "presets",
        nargs="*",
        metavar="PRESET",
        help="names, folders or handles (default: all presets with weights)",
    )
    parser.add_argument(
        "--backend",
        action="append",
        dest="backends",
        help="check only this backend; may be repeated",
    )
    parser.add_argument(
        "--here", action="store_true", help="check in this process and print JSON lines"
    )


def run(arguments):
    """Print a row per preset and backend. Return the exit code."""
    from keras_permix._backend import check_installed, installed_backends
    from keras_permix.zoo import list_presets

    presets = arguments.presets or [
        name for name, info in list_presets().items() if info.has_weights
    ]
    if arguments.here:
        results = []
        for preset in presets:
            results.append(verify_here(preset))
            print(json.dumps(results[-1]), flush=True)
        return 0 if all(map(passes, results)) else 1
    for backend in arguments.backends or []:
        check_installed("--backend", backend)
    rows, problems = [], []
    for backend in arguments.backends or installed_backends():
        number = counted(len(presets), "preset")
        print(f"{backend}: {number}", file=sys.stderr, flush=True)
        for result in verify_on(backend, presets):
            numbers, verdict = "–", "FAIL: see below"
            if "problem" in result:
                problems.append(f"{result['preset']} on {backend}: {result['problem']}")
            else:
                numbers = f"{result['error']:.1e} / {result['atol']:.0e}"
                verdict = "pass" if passes(result) else "FAIL: outputs differ"
            rows.append((result["preset"], backend, numbers, verdict))
    print(format_table(("preset", "backend", "largest error / allowed", "verdict"), sorted(rows)))
    for problem in problems:
        print(problem)
    return 0 if all(row[-1] == "pass" for row in rows) else 1


def passes(result):
    """Return whether a result of `verify_here` reports no problem and no difference."""
    return "problem" not in result and result["error"] <= result["atol"]


def verify_here(preset):
    """Compare a preset with its probe on the backend of this process."""
    from keras_permix.zoo.presets.probe import verify_probe

    try:
        error, atol = verify_probe(preset)
    except Exception as error:  # The other presets are checked.
        known = isinstance(error, (ValueError, OSError, ImportError))
        return {"preset": preset, "problem": " ".join(str(error if known else repr(error)).split())}
    return {"preset": preset, "error": error, "atol": atol}


def verify_on(backend, presets):
    """Return the results of `verify_here` from a process with another backend."""
    package_parent = str(Path(__file__).resolve().parents[2])
    paths = [package_parent, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "KERAS_BACKEND": backend,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONIOENCODING": "utf-8",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [sys.executable, "-m", "permix", "verify", "--here", *presets]
    done = subprocess.run(
        command, env=environment, capture_output=True, encoding="utf-8", errors="replace"
    )
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    problem = (done.stderr.strip().splitlines() or ["the process ended without a message"])[-1]
    return results + [{"preset": each, "problem": problem} for each in presets[len(results) :]]
