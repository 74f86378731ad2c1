"""Set up the processes that tests start."""

import os

from tests.backends import BACKEND
from tests.harness.values import ROOT

ALONE = ROOT / "tests" / "harness" / "alone"


def environment(backend=BACKEND, **changes):
    """Return environment variables for a process that imports this checkout and one framework.

    Args:
        backend: Backend of the process. Other frameworks are hidden.
        **changes: Further variables.
    """
    found = {"KERAS_BACKEND": backend, "PYTHONPATH": os.pathsep.join([str(ALONE), str(ROOT)])}
    return {**os.environ, **found, **changes}
