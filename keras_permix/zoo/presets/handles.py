"""Download and upload presets by `hf://`, `kaggle://` and `https://` handles."""

import contextlib
import re
import tempfile
import zipfile
from pathlib import Path

from keras_permix._typing import Model, StrPath
from keras_permix.utils.checks import import_extra
from keras_permix.utils.files import sha256_of, sha256_of_file, write_bytes
from keras_permix.zoo.presets.fetch import fetch
from keras_permix.zoo.presets.folder import METADATA_FILE, METADATA_LIMIT, PresetFiles, open_preset

# The package of each hub, and the form of names after `://`.
HUBS = {
    "hf": ("huggingface_hub", "USER/MODEL"),
    "kaggle": ("kagglehub", "USER/MODEL/keras/VARIATION"),
}
UPLOAD_FORMS = [f"{scheme}://{form}" for scheme, (_, form) in HUBS.items()]
FORMS = [*UPLOAD_FORMS, f"https://…/{METADATA_FILE}#sha256=…", "https://….zip#sha256=…"]
ARCHIVE_LIMIT = 2**32  # bytes


def open_handle(handle: str) -> PresetFiles:
    """Download the preset of a handle and open it.

    * `https://…/metadata.json#sha256=…`: the other files have URLs in it, or are next to it.
    * `https://….zip#sha256=…`: the folder of the preset, or its files, as one archive.
    * `hf://USER/MODEL` and `kaggle://USER/MODEL/keras/VARIATION`: require the extra `hub`. Only the
      files that the metadata lists are downloaded, all of one version.
    """
    scheme, _, rest = handle.partition("://")
    if scheme == "hf":
        return _open_hugging_face(handle, rest)
    if scheme == "kaggle":
        return _open_kaggle(handle, rest)
    address, _, digest = handle.partition("#sha256=")
    if re.fullmatch(r"[0-9a-f]{64}", digest):
        if address.endswith(f"/{METADATA_FILE}"):
            path = fetch(address, METADATA_FILE, digest, METADATA_LIMIT, exact=False, trusted=True)
            return open_preset(path.parent, url=address.rpartition("/")[0])
        if address.endswith(".zip"):
            path = fetch(address, "preset.zip", digest, ARCHIVE_LIMIT, exact=False, trusted=True)
            return unpack(path)
    raise ValueError(
        f"The handle of a preset must be one of {', '.join(FORMS)}, with a SHA-256 of 64 "
        f"lower-case hex digits. Received: {handle!r}"
    )


def unpack(archive: StrPath) -> PresetFiles:
    """Unpack the files of a preset from a zip file into a folder next to it, and open it.

    Only the files that the metadata lists are unpacked, up to their listed sizes. Files that have
    been unpacked before are kept.
    """
    folder = Path(archive).with_suffix("")
    with _reading(archive):
        zipped = zipfile.ZipFile(archive)
    with zipped:
        held = zipped.namelist()
        roots = [name for name in held if name.rpartition("/")[2] == METADATA_FILE]
        if len(roots) != 1:
            raise ValueError(
                f"The archive of a preset must contain one `{METADATA_FILE}`. "
                f"Received: {archive} with {held[:8]}"
            )
        root = roots[0].removesuffix(METADATA_FILE)
        _extract(zipped, roots[0], folder / METADATA_FILE, METADATA_LIMIT)
        files = open_preset(folder)
        for name, entry in files.metadata["files"].items():
            if root + name in held and not _holds(folder / name, entry["sha256"]):
                _extract(zipped, root + name, folder / name, entry["bytes"])
    return files


def upload_preset(model: Model, handle: str, **metadata: object) -> None:
    """Write `model` as a preset and upload it; see `ZooModel.upload_preset`."""
    scheme, _, name = handle.partition("://")
    if scheme not in HUBS or name.count("/") != HUBS[scheme][1].count("/"):
        raise ValueError(
            f"`handle` must be one of {', '.join(UPLOAD_FORMS)}. Received: handle={handle!r}"
        )
    hub = import_extra(HUBS[scheme][0], "hub", f"`{handle}`")
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "preset"
        model.save_to_preset(folder, **metadata)
        with _reaching(handle, "uploaded. Check the name, the connection, and your login"):
            if scheme == "hf":
                hub.create_repo(name, exist_ok=True)
                hub.upload_folder(repo_id=name, folder_path=str(folder))
            else:
                hub.model_upload(name, str(folder))


def _open_hugging_face(handle, repository):
    hub = import_extra("huggingface_hub", "hub", f"`{handle}`")
    with _reaching(handle):
        folder = Path(hub.hf_hub_download(repository, METADATA_FILE)).parent
    files = open_preset(folder, root=folder.parent.parent)
    at = {"revision": folder.name}  # the commit
    cached = [hub.try_to_load_from_cache(repository, name, **at) for name in files.names]
    if not all(isinstance(path, str) for path in cached):
        with _reaching(handle):
            found = hub.model_info(repository, files_metadata=True, **at).siblings
        for file in found:
            listed = files.metadata["files"].get(file.rfilename)
            if listed and file.size is not None and file.size != listed["bytes"]:
                raise ValueError(
                    f"`{file.rfilename}` must have {listed['bytes']:,} bytes, as `{METADATA_FILE}` "
                    f"lists. It was not downloaded. Received: {file.size:,} bytes at {handle}"
                )
    with _reaching(handle):
        for name in files.names:
            hub.hf_hub_download(repository, name, **at)
    return files


def _open_kaggle(handle, model):
    hub = import_extra("kagglehub", "hub", f"`{handle}`")
    with _reaching(handle):
        folder = Path(hub.model_download(model, METADATA_FILE)).parent
    files = open_preset(folder)
    if model.count("/") == HUBS["kaggle"][1].count("/") and folder.name.isdigit():
        model = f"{model}/{folder.name}"  # with the version
    with _reaching(handle):
        for name, entry in files.metadata["files"].items():
            if not entry.get("url"):
                hub.model_download(model, name)
    return files


@contextlib.contextmanager
def _reaching(handle, done="downloaded. Check the name and the connection"):
    try:
        yield
    except Exception as error:
        raise ConnectionError(
            f"`{handle}` could not be {done}. Received: {type(error).__name__}: {error}"
        ) from error


@contextlib.contextmanager
def _reading(archive):
    try:
        yield
    except Exception as error:  # Each compression raises different exceptions.
        raise ValueError(
            f"The archive of a preset must be a readable zip file. Received: {archive} ({error})"
        ) from error


def _holds(path, sha256):
    return path.is_file() and sha256_of_file(path) == sha256


def _extract(zipped, name, path, size):
    """Unpack at most `size` bytes of a file of an archive, unless `path` holds them."""
    with _reading(zipped.filename), zipped.open(name) as file:
        content = file.read(size + 1)
    if len(content) > size:
        raise ValueError(
            f"`{name}` must contain no more than {size:,} bytes. "
            f"Received: more in the archive {zipped.filename}"
        )
    if not _holds(path, sha256_of(content)):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content)
