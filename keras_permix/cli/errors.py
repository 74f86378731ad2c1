"""What is wrong, in one line."""

import sys


def say_error(error):
    """Print an error, however many lines it has, as the one line that a command ends with."""
    print(f"permix: error: {' '.join(str(error).split())}", file=sys.stderr)
