"""Test presets with files in subfolders, such as a tokenizer's vocabulary."""

import hashlib
import shutil

import pytest

from keras_permix import zoo
from tests.zoo.models import tiny

NAME = "assets/tokenizer/vocab.json"
CONTENT = '{"쌀": 1}'.encode()


def with_assets(assets):
    model = tiny()
    model.assets = lambda: assets
    return model


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("presets") / "original"
    with_assets({NAME: CONTENT, "assets/merges.txt": b""}).save_to_preset(folder)
    return folder


@pytest.fixture
def preset(original, tmp_path):
    return shutil.copytree(original, tmp_path / "preset")


def test_assets_are_saved_and_listed(preset):
    files = zoo.preset_info(preset).files
    assert (preset / NAME).read_bytes() == CONTENT == files.content(NAME)
    assert files.metadata["files"][NAME] == {
        "bytes": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
    }
    assert files.content("assets/merges.txt") == b"" and len(files.names) == 6
    assert zoo.CSPViT.from_preset(preset).output_shape == (None, 3)


def test_saving_again_removes_old_assets(preset):
    tiny().save_to_preset(preset)
    assert not (preset / "assets").exists()


@pytest.mark.parametrize("damage", ["flip", "truncate"])
def test_damaged_asset_raises(preset, damage):
    content = CONTENT[:-1] if damage == "truncate" else CONTENT[:-1] + b"]"
    (preset / NAME).write_bytes(content)
    with pytest.raises(ValueError, match=f"`{preset}/{NAME}` must (contain|have)"):
        zoo.CSPViT.from_preset(preset)


@pytest.mark.parametrize("part", ["assets", "assets/tokenizer", NAME])
def test_links_are_followed(preset, tmp_path, part):
    """The cache of Hugging Face links from a snapshot to files elsewhere."""
    shutil.move(preset / part, tmp_path / "outside")
    (preset / part).symlink_to(tmp_path / "outside")
    assert zoo.CSPViT.from_preset(preset).output_shape == (None, 3)
