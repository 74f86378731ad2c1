"""Presets to the hubs: `hf://` and `kaggle://` handles."""

import tempfile
from pathlib import Path

from keras_permix._typing import Model
from keras_permix.zoo.presets.handles import HUBS, hub_package, reaching

FORMS = tuple(f"{scheme}://{form}" for scheme, (_, form) in HUBS.items())

UPLOADED = "uploaded. Check the name, the connection, and that you are logged in"


def upload_preset(model: Model, handle: str, **metadata: object) -> None:
    """Write `model` as a preset and upload it; see `ZooModel.upload_preset`."""
    scheme, _, name = handle.partition("://")
    if scheme not in HUBS or name.count("/") != HUBS[scheme][1].count("/"):
        raise ValueError(f"`handle` must be one of {', '.join(FORMS)}. Received: handle={handle!r}")
    package = hub_package(handle, HUBS[scheme][0])
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "preset"
        model.save_to_preset(folder, **metadata)
        with reaching(handle, UPLOADED):
            if scheme == "hf":
                package.create_repo(name, exist_ok=True)
                package.upload_folder(repo_id=name, folder_path=str(folder))
            else:
                package.model_upload(name, str(folder))
