"""The files of a preset: where they lie, and that they are what they should be."""

import dataclasses
import hashlib
import json
import re
from pathlib import Path

from keras_permix.zoo.presets.fetch import fetch

CONFIG_FILE = "config.json"
METADATA_FILE = "metadata.json"
PREPROCESSOR_FILE = "preprocessor.json"
TASK_FILE = "task.json"
WEIGHTS_FILE = "model.weights.h5"
PRESET_FILES = (CONFIG_FILE, METADATA_FILE, PREPROCESSOR_FILE, TASK_FILE, WEIGHTS_FILE)

SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclasses.dataclass(frozen=True)
class PresetFiles:
    """A preset on disk, or partly on the web.

    Args:
        folder: Where its files lie.
        metadata: What its `metadata.json` says.
        url: Where files lie that the folder lacks and whose own URL is null, or None.
        root: Folder that no file of the preset may leave; `None`: `folder`. (The Hugging Face
            cache links from a snapshot to files beside it.)
    """

    folder: Path
    metadata: dict
    url: str | None = None
    root: Path | None = None

    @property
    def names(self):
        """Names of all files but `metadata.json`."""
        return list(self.metadata["files"])

    def has(self, name):
        """Whether a listed file is here or can be fetched; its content is not looked at."""
        entry = self.metadata["files"].get(name)
        return entry is not None and bool((self.folder / name).is_file() or self._source(name))

    def path(self, name):
        """The file `name`, fetched if need be, its size and checksum verified.

        Raises:
            FileNotFoundError: if it is absent and has no URL.
            ConnectionError: if it cannot be fetched.
            ValueError: if it is not listed, truncated, corrupt, or outside the folder.
        """
        if name not in self.metadata["files"]:
            raise ValueError(
                f"The preset {self.folder} must list `{name}` in its {METADATA_FILE}. "
                f"Received: {self.names}"
            )
        entry, path = self.metadata["files"][name], self.folder / name
        if not path.exists():
            path = self._fetched(name, entry)
        elif not path.resolve().is_relative_to((self.root or self.folder).resolve()):
            raise ValueError(
                "A file of a preset must lie inside its folder. "
                f"Received: {path}, a link to {path.resolve()}"
            )
        return verified(path, entry)

    def verify(self, skip=()):
        """Fetch and verify every file that `skip` does not name; raises as `path` does."""
        for name in self.names:
            if name not in skip:
                self.path(name)

    def json(self, name):
        """The object that the verified JSON file `name` holds."""
        return read_json(self.path(name))

    def _source(self, name):
        own = self.metadata["files"][name].get("url")
        return own or (f"{self.url}/{name}" if self.url else None)

    def _fetched(self, name, entry):
        url = self._source(name)
        if url is None:
            raise FileNotFoundError(
                f"The preset must hold `{name}` ({entry['bytes']:,} bytes, SHA-256 "
                f"{entry['sha256']}), and names no URL to fetch it from. Copy the preset again. "
                f"Received: a folder without {self.folder / name}"
            )
        return fetch(url, name, entry["sha256"])


def open_preset(folder, url=None, root=None):
    """Read a preset's `metadata.json`.

    Raises:
        FileNotFoundError: if the folder holds none.
        ValueError: if it is damaged, lacks what it must say, or names a file outside the folder.
    """
    folder = Path(folder)
    path = folder / METADATA_FILE
    if not path.is_file():
        found = sorted(item.name for item in folder.iterdir())[:8]
        raise FileNotFoundError(
            f"A preset folder must hold `{METADATA_FILE}`; write one with `model.save_to_preset`. "
            f"Received: {folder} with {found}"
        )
    metadata = read_json(path)
    _check_metadata(metadata, path)
    return PresetFiles(folder, metadata, url, root)


def read_json(path):
    """The object in a JSON file."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(
            f"`{path}` must be a JSON file; it is truncated or corrupt. Copy or fetch it again. "
            f"Received: {error}"
        ) from error
    if not isinstance(value, dict):
        raise ValueError(f"`{path}` must hold a JSON object. Received: a {type(value).__name__}")
    return value


def checksum(path):
    """The `metadata.json` entry of a file."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest, "url": None}


def verified(path, entry):
    """Return `path` if it has the size and the SHA-256 of `entry`."""
    size = path.stat().st_size
    if size != entry["bytes"]:
        raise ValueError(
            f"`{path}` must hold {entry['bytes']:,} bytes; it is truncated or of another version. "
            f"Copy or fetch it again. Received: {size:,} bytes"
        )
    digest = checksum(path)["sha256"]
    if digest != entry["sha256"]:
        raise ValueError(
            f"`{path}` must have the SHA-256 {entry['sha256']}; it is corrupt or of another "
            f"version. Copy or fetch it again. Received: {digest}"
        )
    return path


def _check_metadata(metadata, path):
    files = metadata.get("files")
    if not isinstance(files, dict):
        raise ValueError(
            f"`{path}` must list the preset's `files` with bytes and SHA-256. "
            f"Received: the keys {sorted(metadata)}"
        )
    for name, entry in files.items():
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*", name):
            raise ValueError(
                "A preset may only name files inside its own folder, by plain names. "
                f"Received: {name!r} in {path}"
            )
        entry = entry if isinstance(entry, dict) else {}
        size, digest, url = entry.get("bytes"), entry.get("sha256"), entry.get("url")
        right = isinstance(size, int) and SHA256.fullmatch(str(digest))
        if not right or not isinstance(url, str | None):
            raise ValueError(
                f"`files` of {path} must give bytes (an integer), sha256 (64 lower-case hex "
                f"digits) and url (a string or null) of `{name}`. Received: {entry}"
            )
