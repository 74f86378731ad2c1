"""Hide all frameworks except that of `KERAS_BACKEND`, as if they were not installed.

Keras imports all installed frameworks and scikit-learn, which takes seconds in every process.
"""

import os
import sys
from importlib.machinery import PathFinder

FRAMEWORKS = {"jax", "tensorflow", "torch"}
ONE = {os.environ.get("KERAS_BACKEND")} & FRAMEWORKS
OTHERS = {"sklearn", *FRAMEWORKS} - ONE if ONE else set()


class Finder(PathFinder):
    """Find modules, except those in `OTHERS`."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        """Find a module like `PathFinder`."""
        return None if fullname in OTHERS else super().find_spec(fullname, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
