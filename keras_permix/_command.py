"""Whether this process is the `permix` command, which imports Keras only where it computes."""

import sys
from pathlib import PurePath


def runs():
    """Whether the process was started as `permix`, or as `python -m keras_permix.cli`.

    All others have Keras imported with the package, and what is in it registered with Keras.
    """
    script = PurePath(*sys.argv[:1])
    return script.stem == "permix" or "keras_permix.cli" in sys.orig_argv
