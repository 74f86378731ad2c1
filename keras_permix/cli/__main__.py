"""`python -m keras_permix.cli`, the same as `permix`."""

from keras_permix.cli import command

command()
