"""Parse the arguments of `permix`."""

import argparse
from pathlib import Path

from keras_permix._version import __version__

VERBS = {
    "list": "list the presets",
    "info": "show a preset or a model",
    "predict": "predict images, texts or molecules with a preset",
    "train": "train a model from a recipe, or resume a stopped run",
    "lra": "train models on the Long Range Arena",
    "evaluate": "score a preset",
    "bench": "measure operators or models on this machine",
    "verify": "check presets",
    "backend": "show or choose Keras' backend",
}


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """Help with the defaults that say something, where a text does not tell them itself."""

    def _get_help_string(self, action):
        told = "default:" in (action.help or "")
        return (
            action.help
            if told or action.default in (None, False, [])
            else super()._get_help_string(action)
        )


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong."""

    def __init__(self, **options):
        super().__init__(formatter_class=Help, **options)

    def parse_known_args(self, args=None, namespace=None):
        # Refused here, so that a command names its own help.
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown

    def error(self, message):
        self.exit(2, f"permix: error: {message} (see `{self.prog} --help`)\n")


def given(text):
    """The text of an argument; an empty one names no set, recipe or preset.

    Raises:
        ArgumentTypeError: for an empty text.
    """
    if not text:
        raise argparse.ArgumentTypeError("must not be empty. Received: ''")
    return text


def given_path(text):
    """The path that an argument names; an empty text is not the current folder."""
    return Path(given(text))


def add_overrides(parser, text):
    """Add `--set KEY=VALUE`, which may come several times."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help=text
    )


def add_data_dir(parser):
    """Add `--data-dir`."""
    parser.add_argument("--data-dir", type=given_path, help="folder with data files")


def add_verbose(parser, default):
    """Add `--verbose`, as Keras' `fit` takes it."""
    parser.add_argument(
        "--verbose", type=int, choices=(0, 1, 2), default=default, help="progress of fit"
    )


def parse(argv, load):
    """Parse the arguments of `permix`.

    Args:
        argv: A list of strings.
        load: Function from the name of a verb to its module, called for the one in `argv`.
    """
    parser = Parser(
        prog="permix",
        description="Token mixing without attention. KERAS_BACKEND chooses jax, tensorflow, torch.",
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
        verb.add_argument("--traceback", action="store_true", help="show the traceback of errors")
    return parser.parse_args(argv)
