"""Where files are kept that can be had again: a folder in Keras' own cache."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """`keras_permix` in the folder that `KERAS_HOME` names, else in `.keras` at home.

    Example:

    >>> from keras_permix.cache_folder import cache_folder
    >>> cache_folder().name
    'keras_permix'
    """
    home = os.environ.get("KERAS_HOME")
    return (Path(home) if home else Path.home() / ".keras") / "keras_permix"
