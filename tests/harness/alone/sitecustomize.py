"""Has Python find one framework alone, that of `KERAS_BACKEND`, as where no other is installed.

Keras imports what is installed, scikit-learn too, which takes seconds in each process that a test
starts.
"""

import os
import sys
from importlib.machinery import PathFinder

FRAMEWORKS = {"jax", "tensorflow", "torch"}
ONE = {os.environ.get("KERAS_BACKEND")} & FRAMEWORKS
OTHERS = {"sklearn", *FRAMEWORKS} - ONE if ONE else set()


class Finder(PathFinder):
    """Where Python looks for modules, but for those of others."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        """As for `PathFinder`."""
        return None if fullname in OTHERS else super().find_spec(fullname, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
