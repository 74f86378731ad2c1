"""Download and upload presets by `hf://` and `kaggle://` handles."""

import tempfile
from pathlib import Path
from typing import Any

from keras_permix._typing import Model
from keras_permix.utils.checks import import_extra
from keras_permix.zoo.presets.folder import METADATA_FILE, PresetFiles, open_preset, reaching

# The package of each hub, and the form of names after `://`.
HUBS = {
    "hf": ("huggingface_hub", "USER/MODEL"),
    "kaggle": ("kagglehub", "USER/MODEL/keras/VARIATION"),
}


def open_handle(handle: str) -> PresetFiles:
    """Download the files that the metadata of a preset lists, all of one version."""
    hub, scheme, name = _split(handle)
    download = hub.hf_hub_download if scheme == "hf" else hub.model_download
    with reaching(handle):
        folder = Path(download(name, METADATA_FILE)).parent
    files, version = open_preset(folder), {}
    if scheme == "hf":
        version = {"revision": folder.name}
    elif name.count("/") == HUBS["kaggle"][1].count("/"):
        name = f"{name}/{folder.name}"  # with the version
    with reaching(handle):
        for file in files.names:
            download(name, file, **version)
    return files


def upload_preset(model: Model, handle: str, **metadata: object) -> None:
    """Write `model` as a preset and upload it; see `ZooModel.upload_preset`."""
    hub, scheme, name = _split(handle)
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "preset"
        model.save_to_preset(folder, **metadata)
        with reaching(handle, "uploaded. Check the name, the connection, and your login"):
            if scheme == "hf":
                hub.create_repo(name, exist_ok=True)
                hub.upload_folder(repo_id=name, folder_path=str(folder))
            else:
                hub.model_upload(name, str(folder))


def _split(handle: str) -> tuple[Any, str, str]:
    """Return the package of a hub, the scheme and the name in a handle."""
    scheme, _, name = handle.partition("://")
    if scheme not in HUBS or name.count("/") < HUBS[scheme][1].count("/"):
        forms = " or ".join(f"{scheme}://{form}" for scheme, (_, form) in HUBS.items())
        raise ValueError(f"The handle of a preset must be {forms}. Received: {handle!r}")
    return import_extra(HUBS[scheme][0], "hub", f"`{handle}`"), scheme, name
