"""Start the `permix` command without Keras; the verbs that need Keras import it."""

import importlib.util
import sys


def command() -> None:
    """Run the command and end the process with its exit code."""
    # `keras_permix/__init__.py` imports Keras. The modules of the package do not need it to run.
    spec = importlib.util.find_spec("keras_permix")
    if "keras_permix" not in sys.modules:
        sys.modules["keras_permix"] = importlib.util.module_from_spec(spec)
    from keras_permix.cli import command

    command()


if __name__ == "__main__":
    command()
