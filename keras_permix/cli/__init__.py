"""The `permix` command: one module per command."""

import contextlib
import os
import sys
import warnings

from keras_permix.cli.errors import say_error
from keras_permix.cli.process import STOPPED, end_with

COMMANDS = ("list", "info", "predict", "train", "lra", "evaluate", "bench", "verify", "backend")
CLOSED_PIPE = 141  # what a shell says of a program that SIGPIPE ends


def command() -> None:
    """Be the process `permix`."""
    warnings.formatwarning = _in_one_line
    end_with(main)


def main(argv: list[str] | None = None) -> int:
    """Run the `permix` command.

    Args:
        argv: Arguments; `None`: those of the process.

    Returns:
        The exit code: 0, 1 if a check failed, 2 for an error that the user can mend, 130 where
        the user stopped it.

    Example:

    >>> from keras_permix.cli import main
    >>> main(["info", "cspvit/test"])
    cspvit/test
    ...
    class                 CSPViT
    ...
    0
    """
    _open_what_is_closed()
    try:
        with _written_out():
            return _run(argv)
    except BrokenPipeError:  # Who reads has read enough, as in `permix list | head -1`.
        return CLOSED_PIPE
    except (ValueError, TypeError, OSError, ImportError, FloatingPointError) as error:
        say_error(error)
        return 2
    except Exception as error:  # Each backend has exceptions of its own.
        from keras_permix.utils.machine import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        said = str(error)[:200] or repr(error)
        say_error(f"Memory must suffice for model and batch. Received: {said}")
        return 2
    except KeyboardInterrupt:
        print("permix: stopped", file=sys.stderr)
        return STOPPED


def _run(argv):
    # Imported here, where Ctrl-C is one line.
    from importlib import import_module

    from keras_permix import _backend
    from keras_permix.cli.parser import make_parser
    from keras_permix.utils import machine

    commands = [import_module(f"keras_permix.cli.{name}") for name in COMMANDS]
    arguments = make_parser(commands).parse_args(argv)
    if arguments.needs_keras:
        _backend.check()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if arguments.keep_memory and not arguments.plain:
        machine.keep_freed_memory()
    return arguments.run(arguments)


def _in_one_line(message, category, filename, lineno, line=None):
    """A warning as a user of commands reads it."""
    return f"permix: warning: {' '.join(str(message).split())}\n"


def _open_what_is_closed():
    """Where a process began without an output, as by `>&-`, nobody reads what is written.

    No file that is opened later takes the number of one, into which libraries write.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # as the lowest number that is free
        if getattr(sys, name) is None and number:
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))


@contextlib.contextmanager
def _written_out():
    """Write all output before the end, where a closed pipe or a full disk can still be told."""
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except OSError:
            # What is left would be tried again, and fail again, as the process ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise
