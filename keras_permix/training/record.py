"""What a run folder says of its run: name, command, and the commit that trained it."""

import datetime
import json
import os
import subprocess
from pathlib import Path

import keras_permix

FILE = "run.json"


def begin_record(folder, run):
    """Note in a run folder what is trained there and by which commit.

    A run that is resumed by another commit has both in its record.

    Args:
        folder: The run folder, which exists.
        run: The `Run`.

    Returns:
        The record as a dict.
    """
    path = Path(folder) / FILE
    record = {
        "name": run.name,
        "recipe": run.source,
        "command": run.command,
        "smoke": run.smoke,
        "version": keras_permix.__version__,
        "commits": [],
        "started": datetime.date.today().isoformat(),
    }
    if path.is_file():
        record = read_record(folder)
    commit = current_commit()
    if commit is not None and commit not in record["commits"]:
        record["commits"].append(commit)
    new = path.with_name(f".{FILE}.new")
    new.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    os.replace(new, path)
    return record


def read_record(folder):
    """The record of a run folder.

    Raises:
        ValueError: if the folder holds none.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        raise ValueError(f"`{FILE}` must lie in the folder of a run. Received: {folder}")
    return json.loads(path.read_text(encoding="utf-8"))


def current_commit():
    """The commit that this package is checked out at, "-dirty" where files differ from it.

    Returns:
        40 hex digits and perhaps "-dirty"; `None` for an installed package.
    """
    package = Path(__file__).resolve().parents[1]
    tracked = _git(package, "ls-files", "--error-unmatch", "__init__.py")
    if tracked is None:
        return None
    return _git(package, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")


def _git(folder, *arguments):
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
