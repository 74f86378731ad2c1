"""Whether this process is the `permix` command, which imports Keras only where it computes."""

import itertools
import sys
from pathlib import PurePath


def runs():
    """Whether the process was started as `permix`, or as `python -m keras_permix.cli`.

    All others have Keras imported with the package, and what is in it registered with Keras.
    """
    as_module = ("-m", "keras_permix.cli") in itertools.pairwise(sys.orig_argv)
    return as_module or PurePath(*sys.argv[:1]).name in ("permix", "permix.exe")
