"""Parse the arguments of `permix`."""

import argparse
from pathlib import Path

from keras_permix._version import __version__

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
        told = "default:" in (action.help or "")
        return (
            action.help
            if told or action.default in (None, False, [])
            else super()._get_help_string(action)
        )


class Parser(argparse.ArgumentParser):
    """Report errors on one line."""

    def __init__(self, **options):
        super().__init__(formatter_class=Help, **options)

    def parse_known_args(self, args=None, namespace=None):
        # Rejected here, so that the error refers to the help of the command.
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown

    def error(self, message):
        self.exit(2, f"permix: error: {message} (see `{self.prog} --help`)\n")


def given(text):
    """Return the text of an argument.

    Raises:
        ArgumentTypeError: If the text is empty.
    """
    if not text:
        raise argparse.ArgumentTypeError("must not be empty. Received: ''")
    return text


def given_path(text):
    """Return an argument as a path; an empty text is rejected."""
    return Path(given(text))


def add_overrides(parser, text):
    """Add the repeatable option `--set KEY=VALUE`."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help=text
    )


def add_data_dir(parser):
    """Add `--data-dir`."""
    parser.add_argument("--data-dir", type=given_path, help="folder that holds the data files")


def add_verbose(parser, default):
    """Add `--verbose`, with the values of Keras' `fit`."""
    parser.add_argument(
        "--verbose",
        type=int,
        choices=(0, 1, 2),
        default=default,
        help="progress output of fit: 0 silent, 1 progress bar, 2 one line per epoch",
    )


def parse(argv, load):
    """Parse the arguments of `permix`.

    Args:
        argv: A list of strings.
        load: Function from the name of a command to its module, called for the command in `argv`.
    """
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
        module.add_arguments(verbs[name])
    for verb in (parser, *verbs.values()):
        verb.add_argument(
            "--traceback", action="store_true", help="print the full traceback of an error"
        )
    return parser.parse_args(argv)
