"""How the arguments of `permix` are read."""

import argparse

from keras_permix._version import __version__


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong."""

    def error(self, message):
        self.exit(2, f"permix: error: {message} (see `{self.prog} --help`)\n")


def make_parser(commands):
    """The parser of `permix`, to which the module of each command adds its own."""
    parser = Parser(
        prog="permix",
        description="Token mixing without attention. KERAS_BACKEND chooses jax, tensorflow, torch.",
    )
    parser.add_argument("--version", action="version", version=f"keras_permix {__version__}")
    parser.set_defaults(keep_memory=False, plain=False)
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in commands:
        command.add_parser(subparsers)
    return parser
