"""Write and read the checkpoints of a run atomically, with checksums."""

import json
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

from keras_permix._typing import StrPath
from keras_permix.utils.files import read_with_sha256, replacing_folder, sha256_of, write_bytes

GENERATIONS = 2
STATE_FILE = "state.json"
WEIGHTS_FILE = "state.weights.h5"
SUMS_FILE = "SHA256SUMS"  # in the format of `sha256sum --check`


def save_checkpoint(
    folder: StrPath, epoch: int, state: dict[str, Any], weights: bytes, best: int | None = None
) -> None:
    """Write the checkpoint of an epoch, and remove all except the last two and the best."""
    files = {STATE_FILE: json.dumps(state, indent=1).encode("utf-8"), WEIGHTS_FILE: weights}
    files[SUMS_FILE] = "".join(
        f"{sha256_of(content)}  {name}\n" for name, content in files.items()
    ).encode("ascii")
    with replacing_folder(Path(folder) / _name(epoch)) as partial:
        for name, content in files.items():
            write_bytes(partial / name, content)
    for path in _newest_first(folder)[GENERATIONS:]:
        if path.name != _name(best or 0):
            shutil.rmtree(path, ignore_errors=True)


def load_checkpoint(folder: StrPath) -> tuple[dict[str, Any], bytes, Path] | None:
    """Return the newest complete checkpoint, and warn about newer ones that are damaged.

    It consists of the state, the bytes of the weights and the path of their file.
    """
    problems = []
    for path in _newest_first(folder):
        try:
            state, weights = _read(path)
        except (OSError, ValueError) as error:
            problems.append(str(error))
            continue
        for problem in problems:
            warnings.warn(f"The run resumes from {path.name}: {problem}", stacklevel=2)
        return state, weights, path / WEIGHTS_FILE
    if problems:
        found = "; ".join(problems)
        raise ValueError(f"All checkpoints in {folder} are damaged; remove it. Received: {found}")
    return None


def read_weights(folder: StrPath, epoch: int) -> tuple[bytes, Path]:
    """Return the weights of an epoch's checkpoint and the path of their file."""
    path = Path(folder) / _name(epoch)
    return _read(path)[1], path / WEIGHTS_FILE


def _name(epoch):
    return f"epoch_{epoch:04d}"


def _newest_first(folder):
    """List the folders of checkpoints, including incomplete ones."""
    paths = Path(folder).iterdir() if Path(folder).is_dir() else ()
    found = [path for path in paths if re.fullmatch(r"epoch_\d+", path.name)]
    return sorted(found, key=lambda path: int(path.name[6:]), reverse=True)


def _read(path):
    lines = (path / SUMS_FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    sums = dict(reversed(line.split("  ", 1)) for line in lines if "  " in line)
    state, weights = (
        read_with_sha256(path / name, sums.get(name, f"listed in {SUMS_FILE}"), remedy="")
        for name in (STATE_FILE, WEIGHTS_FILE)
    )
    return json.loads(state), weights
