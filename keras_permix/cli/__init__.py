"""The `permix` command: one module per command."""

import argparse
import importlib
import sys

from keras_permix.machine import keep_freed_memory

COMMANDS = ("list", "info", "predict", "train", "evaluate", "bench", "verify")


def main(argv=None):
    """Run the `permix` command.

    Args:
        argv: Arguments; `None`: those of the process.

    Returns:
        The exit code: 0, 1 if a check failed, 2 for an error that the user can mend.
    """
    arguments = _parser().parse_args(argv)
    if arguments.keep_memory:
        keep_freed_memory()
    try:
        return arguments.run(arguments)
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        message = " ".join(str(error).split())
        print(f"permix: error: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("permix: stopped", file=sys.stderr)
        return 130


def _parser():
    parser = argparse.ArgumentParser(
        prog="permix",
        description="Token mixing without attention. KERAS_BACKEND chooses jax, tensorflow, torch.",
    )
    parser.set_defaults(keep_memory=False)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in COMMANDS:
        importlib.import_module(f"keras_permix.cli.{name}").add_parser(subparsers)
    return parser
