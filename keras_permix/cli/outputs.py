"""Whether what a command will write can be written: asked before the work begins."""

import tempfile


def check_file(argument, path):
    """Raise unless a file can be written; what it holds stays.

    Args:
        argument: The option that names it, for the message.
        path: The file. It may be absent, and folders on the way to it.

    Raises:
        ValueError: names the option and the file.
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
