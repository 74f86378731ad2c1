"""Presets on the web: `hf://`, `kaggle://` and `https://` handles."""

import re
import zipfile
from pathlib import Path

from keras_permix.zoo.presets.fetch import fetch
from keras_permix.zoo.presets.folder import METADATA_FILE, PRESET_FILES, open_preset

FORMS = (
    "hf://USER/MODEL",
    "kaggle://USER/MODEL/keras/VARIATION",
    f"https://…/{METADATA_FILE}#sha256=…",
    "https://….zip#sha256=…",
)


def open_handle(handle):
    """Fetch what a handle names and open it as a preset.

    * `https://…/metadata.json#sha256=…`: the other files have their own URLs in it, or lie beside.
    * `https://….zip#sha256=…`: the preset's folder, or its files, as one archive.
    * `hf://USER/MODEL` and `kaggle://USER/MODEL/keras/VARIATION`: with the `[hub]` extra.

    Raises:
        ValueError: for another form, or a file that is not what its checksum says.
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
            folder = fetch(address, METADATA_FILE, digest).parent
            return open_preset(folder, url=address.rpartition("/")[0])
        if address.endswith(".zip"):
            return open_preset(unpack(fetch(address, "preset.zip", digest)))
    raise ValueError(
        f"A preset on the web is named as one of {', '.join(FORMS)}; the SHA-256 is 64 lower-case "
        f"hex digits. Received: {handle!r}"
    )


def unpack(archive):
    """Unpack a preset from a zip file into a folder beside it; returns the folder.

    Only the files of a preset are read from the archive, whatever else it holds, and written under
    their plain names.
    """
    folder = Path(archive).with_suffix("")
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(archive) as zipped:
        roots = [n for n in zipped.namelist() if n.rpartition("/")[2] == METADATA_FILE]
        if len(roots) != 1:
            raise ValueError(
                f"The archive of a preset must hold one `{METADATA_FILE}`. "
                f"Received: {archive} with {zipped.namelist()[:8]}"
            )
        root = roots[0].removesuffix(METADATA_FILE)
        for name in PRESET_FILES:
            if root + name in zipped.namelist():
                (folder / name).write_bytes(zipped.read(root + name))
    return folder


def _open_hugging_face(handle, repository):
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ImportError(_needs_hub(handle, "huggingface_hub")) from error
    folder = Path(_download(snapshot_download, handle, repository, allow_patterns=PRESET_FILES))
    return open_preset(folder, root=folder.parent.parent)


def _open_kaggle(handle, model):
    try:
        from kagglehub import model_download
    except ImportError as error:
        raise ImportError(_needs_hub(handle, "kagglehub")) from error
    return open_preset(_download(model_download, handle, model))


def _download(download, handle, *args, **kwargs):
    try:
        return download(*args, **kwargs)
    except Exception as error:  # Each hub has a family of exceptions of its own.
        raise ConnectionError(
            f"`{handle}` could not be fetched. Check the name and the connection. "
            f"Received: {type(error).__name__}: {error}"
        ) from error


def _needs_hub(handle, package):
    return (
        f'This handle needs the package {package}: pip install "keras_permix[hub]". '
        f"Received: {handle!r}"
    )
