"""Processes that tests start."""

import os

from tests.backends import BACKEND
from tests.harness.values import ROOT

ALONE = ROOT / "tests" / "harness" / "alone"


def environment(backend=BACKEND, **changes):
    """Variables of a process that finds the checkout, and of the frameworks only its own.

    Args:
        backend: Which that is.
        **changes: More variables.
    """
    found = {"KERAS_BACKEND": backend, "PYTHONPATH": os.pathsep.join([str(ALONE), str(ROOT)])}
    return {**os.environ, **found, **changes}
