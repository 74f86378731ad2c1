"""Locate, download and verify the files of a preset."""

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import keras

from keras_permix._typing import StrPath
from keras_permix.recipes.find import CONFIG_FILE, METADATA_FILE, WEIGHTS_FILE
from keras_permix.utils.files import cache_folder, read_with_sha256

PREPROCESSOR_FILE = "preprocessor.json"
TASK_FILE = "task.json"
PLAIN_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.\-]*"
FILE_NAME = re.compile(f"{PLAIN_NAME}(/{PLAIN_NAME})*")
PRESET_FILES = (CONFIG_FILE, METADATA_FILE, PREPROCESSOR_FILE, TASK_FILE, WEIGHTS_FILE)


@dataclasses.dataclass(frozen=True)
class PresetFiles:
    """Hold the files of a preset, which may be partly remote."""

    folder: Path
    metadata: dict[str, Any]  # the object in `metadata.json`
    url: str | None = None  # of a folder with the files that `folder` lacks
    _contents: dict = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @property
    def names(self) -> list[str]:
        """Return the relative POSIX paths of all files except `metadata.json`."""
        return list(self.metadata["files"])

    def has(self, name: str) -> bool:
        """Return whether a listed file exists or can be downloaded. Its content is not checked."""
        return name in self.names and ((self.folder / name).is_file() or self.url is not None)

    def content(self, name: str) -> bytes:
        """Return the verified bytes of the file `name`, and download it if necessary.

        All files except the weights are cached.

        Raises:
            FileNotFoundError: if it is absent and has no URL.
            ConnectionError: if it cannot be downloaded.
            ValueError: if it is not listed, truncated, or corrupt.
        """
        if name in self._contents:
            return self._contents[name]
        if name not in self.names:
            raise ValueError(f"`{METADATA_FILE}` must list {name}. Received: {self.names}")
        entry, path = self.metadata["files"][name], self.folder / name
        if not path.exists():
            path = self._download(name, entry)
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

    def _download(self, name, entry):
        """Download a file into Keras' cache unless it is there, and return its path."""
        if self.url is None:
            rule = f"The preset must contain `{name}`. Copy all of it: the wheel omits large files"
            raise FileNotFoundError(f"{rule}. Received: {self.folder} without it")
        digest, url = entry["sha256"], f"{self.url}/{name}"
        cache = cache_folder() / digest[:16]
        cache.mkdir(parents=True, exist_ok=True)
        with reaching(url):
            path = keras.utils.get_file(
                Path(name).name, url, cache_dir=cache, cache_subdir="", file_hash=digest
            )
        return Path(path)


@contextlib.contextmanager
def reaching(
    address: str, done: str = "downloaded. Check the name and the connection"
) -> Iterator[None]:
    """Turn the errors of network libraries into a `ConnectionError` that names the address."""
    try:
        yield
    except Exception as error:
        rule = f"`{address}` could not be {done}"
        raise ConnectionError(f"{rule}. Received: {type(error).__name__}: {error}") from error


def open_preset(folder: StrPath, url: str | None = None) -> PresetFiles:
    """Read and check a preset's `metadata.json`."""
    folder = Path(folder)
    path = folder / METADATA_FILE
    if not path.is_file():
        rule = f"`{path}` must exist. The preset of a run is in its subfolder `preset`"
        raise FileNotFoundError(f"{rule}. Received: {folder}")
    metadata = parse_json(path.read_bytes(), path)
    if not isinstance(metadata.get("files"), dict):
        rule = f"`{path}` must list the preset's `files`. For KerasHub, use `keras_permix.hub`"
        raise ValueError(f"{rule}. Received: {str(metadata)[:100]}")
    for name in metadata["files"]:  # a hub's library may write to any path
        if not FILE_NAME.fullmatch(name):
            raise ValueError(f"`{path}` may only name files inside its folder. Received: {name!r}")
    return PresetFiles(folder, metadata, url)


def parse_json(content: bytes, path: StrPath) -> dict[str, Any]:
    """Return the object in the bytes of a JSON file; errors name `path`."""
    try:
        value = json.loads(content)
    except ValueError as error:
        raise ValueError(f"`{path}` must be valid JSON. Received: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"`{path}` must contain a JSON object. Received: {value!r:.100}")
    return value
