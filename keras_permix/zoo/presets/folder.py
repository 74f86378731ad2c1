"""Locate, download and verify the files of a preset."""

import dataclasses
import json
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from keras_permix._typing import StrPath
from keras_permix.recipes.find import CONFIG_FILE, METADATA_FILE, WEIGHTS_FILE
from keras_permix.utils.files import read_with_sha256, sha256_of
from keras_permix.zoo.presets.fetch import fetch

PREPROCESSOR_FILE = "preprocessor.json"
TASK_FILE = "task.json"
PRESET_FILES = (CONFIG_FILE, METADATA_FILE, PREPROCESSOR_FILE, TASK_FILE, WEIGHTS_FILE)

METADATA_LIMIT = 2**24  # bytes
ASSET_LIMIT = 2**26  # bytes of each file except the weights
JSON_DEPTH = 64  # limit of objects and lists inside each other
SHA256 = re.compile(r"[0-9a-f]{64}")
PLAIN_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.\-]*"
FILE_NAME = re.compile(f"{PLAIN_NAME}(/{PLAIN_NAME})*")


@dataclasses.dataclass(frozen=True)
class PresetFiles:
    """Hold the files of a preset, which may be partly remote.

    Args:
        folder: Folder of the files, which may be in sub-folders.
        metadata: The object in `metadata.json`.
        url: URL of the files that the folder lacks and that have no URL in the metadata, or `None`.
        root: Folder that links in the preset may not leave. `None`: `folder`. (The Hugging Face
            cache links from a snapshot to files in another folder.)
    """

    folder: Path
    metadata: dict[str, Any]
    url: str | None = None
    root: Path | None = None
    _contents: dict = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @property
    def names(self) -> list[str]:
        """Return the relative POSIX paths of all files except `metadata.json`."""
        return list(self.metadata["files"])

    def has(self, name: str) -> bool:
        """Return whether a listed file exists or can be downloaded. Its content is not checked."""
        return name in self.names and bool((self.folder / name).is_file() or self._source(name))

    def content(self, name: str) -> bytes:
        """Return the verified bytes of the file `name`, and download it if necessary.

        All files except the weights are cached.

        Raises:
            FileNotFoundError: if it is absent and has no URL.
            ConnectionError: if it cannot be downloaded.
            ValueError: if it is not listed, truncated, corrupt, or outside the folder.
        """
        if name in self._contents:
            return self._contents[name]
        if name not in self.names:
            raise ValueError(
                f"The preset {self.folder} must list `{name}` in its {METADATA_FILE}. "
                f"Received: {self.names}"
            )
        entry, path = self.metadata["files"][name], self.folder / name
        if path.exists():
            _check_inside(path, self.root or self.folder)
        else:
            path = self._fetched(name, entry)
        content = read_with_sha256(path, entry["sha256"], entry["bytes"])
        if name != WEIGHTS_FILE:
            self._contents[name] = content
        return content

    def verify(self, skip: Iterable[str] = ()) -> None:
        """Download and verify all files except `skip`; raises the errors of `content`."""
        for name in self.names:
            if name not in skip:
                self.content(name)

    def json(self, name: str) -> dict[str, Any]:
        """Return the object in the verified JSON file `name`."""
        return parse_json(self.content(name), self.folder / name)

    def _source(self, name):
        own = self.metadata["files"][name].get("url")
        return own or (f"{self.url}/{name}" if self.url else None)

    def _fetched(self, name, entry):
        url = self._source(name)
        if url is None:
            raise FileNotFoundError(
                f"The preset must contain `{name}` ({entry['bytes']:,} bytes, SHA-256 "
                f"{entry['sha256']}), for which it has no URL. Copy the whole preset. "
                "The wheel of keras_permix omits large weights; its repository has them. "
                f"Received: a folder without {self.folder / name}"
            )
        # URLs in the metadata are not trusted: they may not name a private address.
        return fetch(url, name, entry["sha256"], entry["bytes"], trusted=not entry.get("url"))


def open_preset(folder: StrPath, url: str | None = None, root: Path | None = None) -> PresetFiles:
    """Read and check a preset's `metadata.json`."""
    folder = Path(folder)
    path = folder / METADATA_FILE
    if not path.is_file():
        found = sorted(item.name for item in folder.iterdir())[:8]
        below = folder / "preset"  # `folder` may be that of a run
        hint = f"there is one in {below}" if (below / METADATA_FILE).is_file() else None
        raise FileNotFoundError(
            f"A preset folder must contain `{METADATA_FILE}`; "
            f"{hint or 'write one with `model.save_to_preset`'}. Received: {folder} with {found}"
        )
    _check_inside(path, root or folder)
    metadata = read_json(path)
    _check_metadata(metadata, path)
    return PresetFiles(folder, metadata, url, root)


def read_json(path: StrPath) -> dict[str, Any]:
    """Return the object in a JSON file."""
    with open(path, "rb") as file:
        content = file.read(METADATA_LIMIT + 1)
    if len(content) > METADATA_LIMIT:
        raise ValueError(
            f"`{path}` must contain no more than {METADATA_LIMIT:,} bytes. Received: a longer file"
        )
    return parse_json(content, path)


def parse_json(content: bytes, path: StrPath) -> dict[str, Any]:
    """Return the object in the bytes of a JSON file; errors name `path`."""
    try:
        value = json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)
        if _depth(value) >= JSON_DEPTH:
            raise ValueError(f"{JSON_DEPTH} or more objects and lists inside each other")
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"`{path}` must be a JSON file; it is truncated or corrupt. Copy or download it again. "
            f"Received: {error}"
        ) from error
    if not isinstance(value, dict):
        raise ValueError(f"`{path}` must contain a JSON object. Received: a {type(value).__name__}")
    return value


def entry_of(content: bytes) -> dict[str, Any]:
    """Return the `metadata.json` entry of a file with these bytes."""
    return {"bytes": len(content), "sha256": sha256_of(content), "url": None}


def check_file_names(names: Iterable[str], source: StrPath) -> None:
    """Check that names of files are relative POSIX paths inside the folder of a preset."""
    for name in names:
        if not isinstance(name, str) or not FILE_NAME.fullmatch(name):
            raise ValueError(
                "A preset may only name files inside its folder, by plain names. "
                f"Received: {name!r} in {source}"
            )
    folders = {str(folder) for name in names for folder in PurePosixPath(name).parents}
    if wrong := sorted(set(names) & {METADATA_FILE, *folders}):
        raise ValueError(
            f"A preset may not list `{METADATA_FILE}`, or a file that is a folder of another file. "
            f"Received: {wrong} in {source}"
        )


def _check_inside(path, root):
    if not path.resolve().is_relative_to(Path(root).resolve()):
        raise ValueError(
            "A file of a preset must lie inside its folder. "
            f"Received: {path}, a link to {path.resolve()}"
        )


def _check_metadata(metadata, path):
    files = metadata.get("files")
    if not isinstance(files, dict):
        raise ValueError(
            f"`{path}` must list the preset's `files` with bytes and SHA-256, as written by "
            "`model.save_to_preset` of this package. For presets of KerasHub, use "
            f"`keras_permix.hub`. Received: the keys {sorted(metadata)}"
        )
    if type(metadata.get("parameter_count")) is not int:
        raise ValueError(
            f"`{path}` must give the `parameter_count`, an integer. "
            f"Received: {metadata.get('parameter_count')!r}"
        )
    check_file_names(files, path)
    for name, entry in files.items():
        entry = entry if isinstance(entry, dict) else {}
        size, digest, url = entry.get("bytes"), entry.get("sha256"), entry.get("url")
        right = type(size) is int and size >= 0 and SHA256.fullmatch(str(digest))
        if not right or not isinstance(url, str | None):
            raise ValueError(
                f"`files` of {path} must give bytes (an integer), sha256 (64 lower-case hex "
                f"digits) and url (a string or null) of `{name}`. Received: {entry}"
            )
        if name != WEIGHTS_FILE and size > ASSET_LIMIT:
            raise ValueError(
                f"`{name}` must contain at most {ASSET_LIMIT:,} bytes. Received: {size:,} in {path}"
            )


def _depth(value):
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)


def _refuse_constant(name):
    raise ValueError(f"{name}, which is not valid JSON")
