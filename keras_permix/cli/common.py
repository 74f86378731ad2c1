"""Print errors and tables, and check output paths, for several commands."""

import sys
import tempfile
from importlib.util import find_spec

from keras_permix.utils.formatting import format_score, printable


def say_error(error):
    """Print an error on one line of stderr."""
    print(f"permix: error: {printable(' '.join(str(error).split()))}", file=sys.stderr)


def check_file(argument, path):
    """Check that a file can be written, without changing it.

    Args:
        argument: The name of the option, for the error message.
        path: The file. It and its folders need not exist.

    Raises:
        ValueError: If the file cannot be written.
    """
    _check(argument, path, "file")


def check_folder(argument, path):
    """Check that files can be written to a folder, which need not exist."""
    _check(argument, path, "folder")


def _check(argument, path, kind):
    try:
        if kind == "file" and path.exists():
            path.open("ab").close()
        else:
            parent = path if kind == "folder" else path.parent
            nearest = next(
                folder for folder in (parent, *parent.absolute().parents) if folder.exists()
            )
            tempfile.TemporaryFile(dir=nearest).close()
    except OSError as error:
        raise ValueError(
            f"`{argument}` must be a {kind} that can be written. "
            f"Received: {path} ({error.strerror or error})"
        ) from error


def trained_preset(preset):
    """Return the `PresetInfo` of a preset with weights.

    Args:
        preset: Name, folder or handle.

    Raises:
        ValueError: If the name is unknown or the preset has no weights.
    """
    from keras_permix.recipes.find import WEIGHTS_FILE
    from keras_permix.zoo import preset_info
    from keras_permix.zoo.presets.names import untrained

    info = preset_info(preset)
    if info.files is None or WEIGHTS_FILE not in info.files.names:
        raise ValueError(f"{untrained(info)}. Received: {preset!r}")
    return info


def format_table(header, rows):
    """Format rows of strings as a table, on a terminal with `rich` if it is installed."""
    lines = [[printable(cell) for cell in line] for line in (header, *rows)]
    if sys.stdout.isatty() and find_spec("rich"):
        return _rich_table(*lines)
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _rich_table(header, *rows):
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for cell in header:
        table.add_column(Text(cell))
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console()
    with console.capture() as captured:
        console.print(table)
    return captured.get().rstrip("\n")


def format_scores(scores):
    """Return the measured scores as text, or a dash without any."""
    measured = {key: value for key, value in (scores or {}).items() if value is not None}
    return ", ".join(f"{key} {format_score(key, value)}" for key, value in measured.items()) or "–"
