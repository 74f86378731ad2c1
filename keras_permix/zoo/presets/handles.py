"""Presets on the web: `hf://`, `kaggle://` and `https://` handles."""

import contextlib
import re
import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

from keras_permix._typing import StrPath
from keras_permix.utils.files import sha256_of, sha256_of_file, write_bytes
from keras_permix.zoo.presets.fetch import TIMEOUT, fetch
from keras_permix.zoo.presets.folder import METADATA_FILE, METADATA_LIMIT, PresetFiles, open_preset

# Of each hub its package, and what follows `://`.
HUBS = {
    "hf": ("huggingface_hub", "USER/MODEL"),
    "kaggle": ("kagglehub", "USER/MODEL/keras/VARIATION"),
}
FORMS = (
    *(f"{scheme}://{form}" for scheme, (_, form) in HUBS.items()),
    f"https://…/{METADATA_FILE}#sha256=…",
    "https://….zip#sha256=…",
)
ARCHIVE_LIMIT = 2**32  # bytes
FETCHED = "fetched. Check the name and the connection"


def open_handle(handle: str) -> PresetFiles:
    """Fetch what a handle names and open it as a preset.

    * `https://…/metadata.json#sha256=…`: the other files have their own URLs in it, or lie beside.
    * `https://….zip#sha256=…`: the preset's folder, or its files, as one archive.
    * `hf://USER/MODEL` and `kaggle://USER/MODEL/keras/VARIATION`: with the `[hub]` extra, whose
      packages download by limits of time of their own. Only the files that the metadata lists are
      fetched, of one version, and checked as those of any folder are. Hugging Face says beforehand
      how large they are: what is larger than listed is not fetched. Kaggle is not asked.

    Raises:
        ValueError: for another form, a file that is not what its checksum says, or one that is
            larger than its metadata says or metadata may be.
        ConnectionError: if something cannot be fetched.
        ImportError: if the package that a handle needs is not installed.
    """
    scheme, _, rest = handle.partition("://")
    if scheme == "hf":
        return _open_hugging_face(handle, rest)
    if scheme == "kaggle":
        return _open_kaggle(handle, rest)
    address, _, digest = handle.partition("#sha256=")
    if re.fullmatch(r"[0-9a-f]{64}", digest):
        if address.endswith(f"/{METADATA_FILE}"):
            path = fetch(address, METADATA_FILE, digest, METADATA_LIMIT, exact=False)
            return open_preset(path.parent, url=address.rpartition("/")[0])
        if address.endswith(".zip"):
            return unpack(fetch(address, "preset.zip", digest, ARCHIVE_LIMIT, exact=False))
    raise ValueError(
        f"A preset on the web is named as one of {', '.join(FORMS)}; the SHA-256 is 64 lower-case "
        f"hex digits. Received: {handle!r}"
    )


def unpack(archive: StrPath) -> PresetFiles:
    """Unpack a preset from a zip file into a folder beside it, and open it.

    What lies there already as the archive has it is not unpacked again. Only the files that its
    metadata lists are read from the archive, no longer than is listed.

    Raises:
        ValueError: if the archive is damaged, or holds no metadata or more than one.
    """
    folder = Path(archive).with_suffix("")
    folder.mkdir(exist_ok=True)
    with _reading(archive):
        zipped = zipfile.ZipFile(archive)
    with zipped:
        return _unpack(zipped, folder)


@contextlib.contextmanager
def _reading(archive):
    try:
        yield
    except Exception as error:  # Each compression has exceptions of its own.
        raise ValueError(
            "The archive of a preset must be a zip file that can be read. "
            f"Received: {archive} ({error})"
        ) from error


def _unpack(zipped, folder):
    held = zipped.namelist()
    roots = [name for name in held if name.rpartition("/")[2] == METADATA_FILE]
    if len(roots) != 1:
        raise ValueError(
            f"The archive of a preset must hold one `{METADATA_FILE}`. "
            f"Received: {zipped.filename} with {held[:8]}"
        )
    root = roots[0].removesuffix(METADATA_FILE)
    metadata = _inflate(zipped, roots[0], METADATA_LIMIT)
    if not _lies_at(folder / METADATA_FILE, sha256_of(metadata)):
        write_bytes(folder / METADATA_FILE, metadata)
    files = open_preset(folder)
    for name, entry in files.metadata["files"].items():
        if root + name in held and not _lies_at(folder / name, entry["sha256"]):
            content = _inflate(zipped, root + name, entry["bytes"])
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(folder / name, content)
    return files


def _lies_at(path, sha256):
    return path.is_file() and sha256_of_file(path) == sha256


def _inflate(zipped, name, size):
    """A file of an archive, of which no more than `size` bytes are unpacked."""
    with _reading(zipped.filename), zipped.open(name) as file:
        content = file.read(size + 1)
    if len(content) > size:
        raise ValueError(
            f"`{name}` must hold no more than {size:,} bytes. "
            f"Received: more in the archive {zipped.filename}"
        )
    return content


def hub_package(handle: str, name: str) -> ModuleType:
    """Import the package that a handle needs.

    Raises:
        ImportError: if it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f'This handle needs the package {name}: pip install "keras_permix[hub]". '
            f"Received: {handle!r}"
        ) from error


@contextlib.contextmanager
def reaching(handle: str, done: str) -> Iterator[None]:
    """Explain what goes wrong on the way to a hub, each of which has exceptions of its own.

    Raises:
        ConnectionError: for any exception.
    """
    try:
        yield
    except Exception as error:
        raise ConnectionError(
            f"`{handle}` could not be {done}. Received: {type(error).__name__}: {error}"
        ) from error


def _open_hugging_face(handle, repository):
    folder = _snapshot(handle, repository, {METADATA_FILE: METADATA_LIMIT})
    files = open_preset(folder, root=folder.parent.parent)
    limits = {name: entry["bytes"] for name, entry in files.metadata["files"].items()}
    _snapshot(handle, repository, limits, revision=folder.name)  # It is named for its commit.
    return files


def _snapshot(handle, repository, limits, **version):
    """Fetch files of a repository, no larger than so many bytes, into the folder of a commit."""
    hub = hub_package(handle, HUBS["hf"][0])
    wanted = dict(repo_id=repository, allow_patterns=[*limits], **version)
    with reaching(handle, FETCHED):
        try:
            asked = dict(files_metadata=True, timeout=TIMEOUT, **version)
            found = hub.model_info(repository, **asked).siblings
        except Exception:
            # Without a connection what lies in the package's cache will do.
            with contextlib.suppress(Exception):
                return Path(hub.snapshot_download(**wanted, local_files_only=True))
            raise
    sizes = {file.rfilename: file.size or 0 for file in found}
    for name, limit in limits.items():
        if sizes.get(name, 0) > limit:
            raise ValueError(
                f"`{name}` must hold {limit:,} bytes at most. Check the name, and what was "
                f"uploaded there. Received: {sizes[name]:,} in {handle}"
            )
    with reaching(handle, FETCHED):
        return Path(hub.snapshot_download(**wanted))


def _open_kaggle(handle, model):
    hub = hub_package(handle, HUBS["kaggle"][0])
    with reaching(handle, FETCHED):
        folder = Path(hub.model_download(model, METADATA_FILE)).parent
    files = open_preset(folder)
    if model.count("/") == HUBS["kaggle"][1].count("/") and folder.name.isdigit():
        model = f"{model}/{folder.name}"  # which is named for its version
    with reaching(handle, FETCHED):
        for name, entry in files.metadata["files"].items():
            if not entry.get("url"):
                hub.model_download(model, name)
    return files
