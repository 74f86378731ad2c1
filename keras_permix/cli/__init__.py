"""Run the `permix` command: one module per verb."""

import os
import sys
import warnings
from typing import Any

from keras_permix.cli.common import parse, say_error

STOPPED = 130  # exit code after SIGINT
CLOSED_PIPE = 141  # exit code after SIGPIPE


def command() -> None:
    """Run `main` and end the process with its exit code."""
    warnings.formatwarning = _in_one_line
    sys.exit(main())


def main(argv: list[str] | None = None) -> int:
    """Run the `permix` command.

    Args:
        argv: Arguments. `None`: those of the process.

    Returns:
        The exit code: 0, 1 if a check or an input failed, 2 for an error, 130 after Ctrl-C.

    Example:
        >>> from keras_permix.cli import main
        >>> main(["info", "cspvit/test"])
        cspvit/test
        ...
        class                 CSPViT
        ...
        0
    """
    argv = sys.argv[1:] if argv is None else argv
    try:
        code = _run(argv)
        print(end="", flush=True)
        return code
    except BrokenPipeError:  # as in `permix list | head -1`
        # Python flushes again as the process ends, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except KeyboardInterrupt:
        print("permix: stopped", file=sys.stderr)
        return STOPPED
    except SystemExit:
        raise
    except BaseException as error:  # A panic of tokenizers is not an `Exception`.
        if "--traceback" in argv:
            sys.excepthook(*sys.exc_info())
        say_error(_explain(error))
        return 2


def _run(argv):
    from importlib import import_module

    arguments = parse(argv, lambda verb: import_module(f"keras_permix.cli.{verb}"))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if arguments.keep_memory and not arguments.plain:
        from keras_permix.utils import machine

        machine.keep_freed_memory()
    package: Any = sys.modules["keras_permix"]
    if arguments.needs_keras and not hasattr(package, "__version__"):
        package.__spec__.loader.exec_module(package)  # `permix.py` did not run it.
    return arguments.run(arguments)


def _explain(error):
    from keras_permix.utils.machine import is_out_of_memory

    if isinstance(error, ValueError | OSError | ImportError | FloatingPointError):
        return error
    if is_out_of_memory(error):
        return (
            "The model and the batch must fit into memory; reduce their sizes. "
            f"Received: {str(error)[:200] or error!r}"
        )
    return f"{type(error).__name__}: {error} (if all values are valid, report it with --traceback)"


def _in_one_line(message, category, filename, lineno, line=None):
    return f"permix: warning: {' '.join(str(message).split())}\n"
