"""Parse arguments, check output paths, and print errors and tables."""

import argparse
import sys
import tempfile
from pathlib import Path

from keras_permix._version import __version__
from keras_permix.utils.formatting import format_score, printable

VERBS = {
    "list": "list available presets",
    "info": "show details of a preset or model",
    "predict": "run a preset on images, texts or molecules",
    "train": "train a model from a recipe, or resume a run",
    "sweep": "train a recipe over a grid of values and seeds",
    "lra": "run the Long Range Arena benchmark",
    "evaluate": "evaluate a preset on a data set",
    "bench": "benchmark ops, layers or models on this machine",
    "verify": "check the outputs of presets on every backend",
    "backend": "show or set the Keras backend",
}


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """Show the default of an option, unless its help text already does."""

    def _get_help_string(self, action):
        if "default:" in (action.help or "") or action.default in (None, False, []):
            return action.help
        return super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """Report errors on one line."""

    def __init__(self, **options):
        super().__init__(formatter_class=Help, allow_abbrev=False, **options)

    def error(self, message):
        self.exit(2, f"permix: error: {message} (see `{self.prog} --help`)\n")


def parse(argv, load):
    """Parse the arguments of `permix`; `load` imports the module of the command in `argv`."""
    parser = Parser(
        prog="permix",
        description="Train and run models that mix tokens without attention. Set KERAS_BACKEND to "
        "jax, tensorflow or torch to choose the backend.",
    )
    parser.add_argument("--version", action="version", version=f"keras_permix {__version__}")
    parser.set_defaults(needs_keras=True, keep_memory=False, plain=False)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    verbs = {name: subparsers.add_parser(name, help=text) for name, text in VERBS.items()}
    name = next((word for word in argv if not word.startswith("-")), None)
    if name in verbs:
        module = load(name)
        verbs[name].description = module.__doc__
        verbs[name].set_defaults(run=module.run)
        module.add_arguments(verbs[name])
    for verb in (parser, *verbs.values()):
        verb.add_argument(
            "--traceback", action="store_true", help="print the full traceback of an error"
        )
    arguments, rest = parser.parse_known_args(argv)
    # argparse ends a list of inputs at an option, and an empty list even before one.
    if rest and (not hasattr(arguments, "inputs") or any(word[0:1] == "-" for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        arguments.inputs += rest
    return arguments


def add_overrides(parser, text):
    """Add the repeatable option `--set KEY=VALUE`."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help=text
    )


def given_path(text):
    """Return an argument as a path. `Path("")` would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty. Received: ''")
    return Path(text)


def add_data_dir(parser):
    """Add `--data-dir`."""
    parser.add_argument("--data-dir", type=given_path, help="folder that holds the data files")


def add_training(parser, smoke, verbose):
    """Add `--data-dir`, `--smoke` with a help text, and `--verbose` with a default."""
    add_data_dir(parser)
    parser.add_argument("--smoke", action="store_true", help=smoke)
    parser.add_argument(
        "--verbose",
        type=int,
        choices=(0, 1, 2),
        default=verbose,
        help="progress output of fit: 0 silent, 1 progress bar, 2 one line per epoch",
    )
    parser.set_defaults(keep_memory=True)


def check_output(path, endings=()):
    """Check the ending of an output file, and that it can be written, without changing it."""
    if endings and path.suffix not in endings:
        raise ValueError(f"`--out` must end in {' or '.join(endings)}. Received: {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.open("ab").close()
    else:
        tempfile.TemporaryFile(dir=path.parent).close()


def say_error(error):
    """Print an error on one line of stderr."""
    print(f"permix: error: {printable(' '.join(str(error).split()))}", file=sys.stderr)


def format_table(header, rows):
    """Format rows of strings as a table."""
    lines = [[printable(cell) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def format_scores(scores):
    """Return the measured scores as text, or a dash without any."""
    measured = {key: value for key, value in (scores or {}).items() if value is not None}
    return ", ".join(f"{key} {format_score(key, value)}" for key, value in measured.items()) or "–"
