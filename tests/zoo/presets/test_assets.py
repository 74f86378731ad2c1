"""Test presets with files in subfolders, such as a tokenizer's vocabulary."""

import hashlib
import os
import shutil
import tracemalloc
import zipfile

import pytest

from keras_permix import zoo
from keras_permix.zoo.presets.handles import unpack
from tests.zoo.models import edit_json, tiny

NAME = "assets/tokenizer/vocab.json"
CONTENT = '{"쌀": 1}'.encode()


def with_assets(assets):
    model = tiny()
    model.assets = lambda: assets
    return model


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("presets") / "original"
    with_assets({NAME: CONTENT, "assets/merges.txt": b""}).save_to_preset(
        folder, urls={NAME: "https://example.org/vocab.json"}
    )
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
        "url": "https://example.org/vocab.json",
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
def test_link_outside_folder_raises(preset, tmp_path, part):
    shutil.move(preset / part, tmp_path / "outside")
    (preset / part).symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match="must lie inside its folder. Received: .*assets"):
        zoo.CSPViT.from_preset(preset)


@pytest.mark.parametrize(
    "name",
    ["assets/../x", "assets//x", "/assets/x", "assets/", "assets/.x", "assets\\x", "a/./b", "a/ b"],
)
def test_name_outside_folder_raises(preset, tmp_path, name):
    with pytest.raises(ValueError, match="may only name files inside its folder.* Received: "):
        with_assets({name: b""}).save_to_preset(tmp_path / "other")
    assert not (tmp_path / "other").exists()
    edit_json(preset / "metadata.json", lambda m: m["files"].update({name: m["files"][NAME]}))
    with pytest.raises(ValueError, match="may only name files inside its folder.* Received: "):
        zoo.CSPViT.from_preset(preset)


def test_conflicting_names_raise(preset, tmp_path):
    with pytest.raises(ValueError, match="may not replace config.json"):
        with_assets({"config.json": b""}).save_to_preset(tmp_path / "other")
    for names in (["assets/a", "assets/a/b"], ["config.json/a"]):
        with pytest.raises(ValueError, match="or a file that is a folder of another"):
            with_assets(dict.fromkeys(names, b"")).save_to_preset(tmp_path / "other")
    edit_json(preset / "metadata.json", lambda m: m["files"].update({"assets": m["files"][NAME]}))
    with pytest.raises(ValueError, match=r"or a file that is a folder.* Received: \['assets'\]"):
        zoo.CSPViT.from_preset(preset)


def zipped(preset, archive, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(archive, "w", compression) as file:
        for path in sorted(preset.rglob("*")):
            file.write(path, os.path.join("preset", path.relative_to(preset)))
    return archive


def test_archive(preset, tmp_path):
    files = unpack(zipped(preset, tmp_path / "archive.zip"))
    assert files.folder == tmp_path / "archive" and files.content(NAME) == CONTENT
    files.verify()


def test_archive_inflates_at_most_listed_size(preset, tmp_path):
    with open(preset / NAME, "ab") as file:
        file.truncate(2**26)
    archive = zipped(preset, tmp_path / "archive.zip")
    message = f"`preset/{NAME}` must contain no more than {len(CONTENT)} bytes.*archive.zip"
    tracemalloc.start()
    with pytest.raises(ValueError, match=message):
        unpack(archive)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**25  # metadata may take half of it
    assert not (tmp_path / "archive" / NAME).exists()


def test_damaged_archive_raises(preset, tmp_path):
    content = bytearray(zipped(preset, tmp_path / "archive.zip").read_bytes())
    content[60:400] = bytes(340)
    (tmp_path / "archive.zip").write_bytes(content)
    with pytest.raises(ValueError, match="must be a readable zip file.* .*archive.zip"):
        unpack(tmp_path / "archive.zip")
