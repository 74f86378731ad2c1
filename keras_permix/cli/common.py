"""Helpers of several commands: messages, tables, and checks before the work begins."""

import sys
import tempfile

from keras_permix.utils.formatting import format_score, printable


def say_error(error):
    """Print an error on one line of stderr."""
    print(f"permix: error: {printable(' '.join(str(error).split()))}", file=sys.stderr)


def check_file(argument, path):
    """Raise unless a file can be written. Its content stays.

    Args:
        argument: The option that names the file, for the message.
        path: The file. It and its folders may be absent.

    Raises:
        ValueError: if it cannot be written.
    """
    _check(argument, path, "file")


def check_folder(argument, path):
    """Raise unless files can be written in a folder, which may be absent; see `check_file`."""
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
    """Return the `PresetInfo` of a preset that has weights.

    Args:
        preset: Name, folder or handle.

    Raises:
        ValueError: for an unknown name or a preset without weights.
    """
    from keras_permix.recipes.find import WEIGHTS_FILE
    from keras_permix.zoo import preset_info
    from keras_permix.zoo.presets.names import untrained

    info = preset_info(preset)
    if info.files is None or WEIGHTS_FILE not in info.files.names:
        raise ValueError(f"{untrained(info)}. Received: {preset!r}")
    return info


def format_table(header, rows):
    """Return rows of strings as text in columns of equal width."""
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
