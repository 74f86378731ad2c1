"""Test that damaged, wrong and malicious presets raise clear errors and run no code."""

import errno
import json
import os
import re
import shutil

import pytest

from keras_permix import zoo
from keras_permix.zoo import ZooModel
from tests.zoo.models import edit_json, list_anew, tiny


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("presets") / "original"
    tiny().save_to_preset(folder)
    return folder


@pytest.fixture
def preset(original, tmp_path):
    return shutil.copytree(original, tmp_path / "preset")


def refuses(preset, error, message, cls=zoo.CSPViT, **kwargs):
    with pytest.raises(error, match=message):
        cls.from_preset(preset, **kwargs)


def test_unknown_name_raises():
    refuses("tset", ValueError, "`preset` must be a name .*Did you mean cspvit/test.*'tset'")
    refuses("cspvit", ValueError, r"mean cspvit/\w+ or .* or cspvit/\w+\?", cls=ZooModel)
    refuses("dogs_vs_cats", ValueError, "Another class has it: slicevit/dogs_vs_cats. Received")
    refuses("../cspvit/test", ValueError, r"Received: '\.\./cspvit/test'")


@pytest.mark.parametrize(
    "name", ["x" * 5000, "a\0b", "", None], ids=["long", "null", "empty", "None"]
)
@pytest.mark.parametrize("cls", [zoo.CSPViT, ZooModel])
def test_invalid_name_raises(name, cls):
    message = "`preset` must be a name .* Received: " + re.escape(repr(str(name)))
    refuses(name, ValueError, message, cls=cls)


@pytest.mark.parametrize("name", ["model.weights.h5", "config.json", "preprocessor.json"])
def test_corrupt_file_raises(preset, name):
    content = bytearray((preset / name).read_bytes())
    content[len(content) // 2] ^= 1
    (preset / name).write_bytes(content)
    refuses(preset, ValueError, f"{name}` must have the SHA-256 .* Copy or download .* Received: ")


@pytest.mark.parametrize("name", ["model.weights.h5", "config.json", "task.json"])
def test_truncated_file_raises(preset, name):
    size = (preset / name).stat().st_size
    os.truncate(preset / name, size - 10)
    message = f"{name}` must have {size:,} bytes. .* Received: {size - 10:,} bytes"
    refuses(preset, ValueError, message)


def test_truncated_metadata_raises(preset):
    os.truncate(preset / "metadata.json", 100)
    refuses(preset, ValueError, "metadata.json` must be valid JSON")


@pytest.mark.parametrize("name", ["model.weights.h5", "config.json", "preprocessor.json"])
def test_missing_file_raises(preset, name):
    (preset / name).unlink()
    refuses(preset, FileNotFoundError, f"contain `{name}`.* Received: .* without it")


def test_load_weights_false_does_not_require_weights(preset):
    (preset / "model.weights.h5").unlink()
    model = zoo.CSPViT.from_preset(preset, load_weights=False)
    assert model.output_shape == (None, 3)


def test_missing_metadata_raises(preset):
    (preset / "metadata.json").unlink()
    refuses(preset, FileNotFoundError, f"metadata.json` must exist.* `preset`. Received: {preset}")


def test_wrong_class_raises(preset):
    message = "`preset` must be of ViT. Received: .* of CSPViT"
    refuses(preset, ValueError, message, cls=zoo.ViT)
    refuses("cspvit/test", ValueError, message, cls=zoo.ViT)
    refuses("vit/test", ValueError, "`preset` must be of CSPViT. Received: 'vit/test' of ViT")


@pytest.mark.parametrize("name", ["../config.json", "/etc/passwd", ".."])
def test_path_outside_folder_raises(preset, name):
    def change(metadata):
        metadata["files"][name] = metadata["files"]["config.json"]

    edit_json(preset / "metadata.json", change)
    refuses(preset, ValueError, "may only name files inside its folder.* Received: ")


def test_folder_with_the_name_of_a_preset_raises(preset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(preset, "test")
    refuses("test", ValueError, "unambiguous: write ./test .* preset cspvit/test. Received: 'test'")
    assert zoo.CSPViT.from_preset("./test").output_shape == (None, 3)


def test_quantized_dtype_raises(preset):
    with pytest.raises(ValueError, match="`dtype` must not quantize.* Received: .*int8"):
        zoo.CSPViT.from_preset(preset, dtype="int8_from_float32")


@pytest.mark.parametrize(
    "change",
    [
        {"module": "os", "class_name": "system", "registered_name": None},
        {"module": "builtins", "class_name": "CSPViT", "registered_name": None},
        {"class_name": "ZooModel", "registered_name": "keras_permix>ZooModel"},
        {"config": None},
    ],
)
def test_configuration_of_foreign_class_raises(preset, change):
    edit_json(preset / "config.json", lambda config: config.update(change))
    list_anew(preset, "config.json")
    refuses(preset, ValueError, "must be of a class of keras_permix.zoo. Received: ")
    refuses(preset, ValueError, "must be of a class of keras_permix.zoo", cls=ZooModel)


@pytest.mark.parametrize(
    "spy",
    [
        {"module": "tests.zoo.spy", "class_name": "Spy", "config": {}, "registered_name": None},
        {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"},
         "registered_name": "tests>Spy"},
        {"module": "keras.layers", "class_name": "Lambda", "config": {"function": "print"},
         "registered_name": None},
    ],
)  # fmt: skip
@pytest.mark.parametrize("key", ["dtype", "mixer", "mean"])
def test_configuration_with_foreign_object_raises(preset, spy, key):
    value = {"dtype": spy, "mixer": {"name": "csp", "dtype": spy}, "mean": [spy]}[key]
    edit_json(preset / "config.json", lambda config: config["config"].update({key: value}))
    list_anew(preset, "config.json")
    refuses(preset, ValueError, "must not name objects other than.*Received: ")


def test_metadata_list_raises(preset):
    (preset / "metadata.json").write_text("[]")
    refuses(preset, ValueError, r"metadata.json` must contain .* Received: \[\]")


def test_unwritable_target_raises(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for target in (tmp_path / "file", tmp_path / "file" / "preset"):
        with pytest.raises(OSError, match="(not be a file|Not a directory|File exists).*file"):
            tiny().save_to_preset(target)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_folder_with_other_files_raises(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"`folder` must be new, empty, .*\['thesis.tex'\]"):
        tiny().save_to_preset(tmp_path)
    assert (tmp_path / "thesis.tex").is_file()


def test_failed_save_keeps_old_preset(preset, monkeypatch):
    before = json.loads((preset / "metadata.json").read_text())

    def full_disk(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="must be writable. Received: .*No space left"):
        tiny().save_to_preset(preset)
    assert json.loads((preset / "metadata.json").read_text()) == before
    assert [path.name for path in preset.parent.iterdir()] == ["preset"]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"weights_dtype": "int4"}, "`weights_dtype` must be one of .*='int4'"),
        ({"label": ["a"]}, r"`metadata` accepts .*Did you mean `labels`.* Received: \['label'\]"),
        ({"labels": ["a"]}, "one name per class or output.*1 labels for 3 outputs"),
    ],
)  # fmt: skip
def test_invalid_save_arguments_raise(tmp_path, kwargs, message):
    with pytest.raises(ValueError, match=message):
        tiny().save_to_preset(tmp_path / "preset", **kwargs)
    assert not list(tmp_path.iterdir())


def test_weights_too_large_for_float16_raise(tmp_path):
    model = tiny()
    model.get_layer("head").bias.assign([0.0, 1e6, 0.0])
    with pytest.raises(
        ValueError, match="must be finite.* `weights_dtype` .* `head/bias` with inf"
    ):
        model.save_to_preset(tmp_path / "preset", weights_dtype="float16")
    assert not list(tmp_path.iterdir())


def test_saving_user_subclass_raises(tmp_path):
    class Mine(zoo.CSPViT):
        """A user's subclass."""

    model = Mine(image_size=8, patch_size=2, num_classes=3, hidden_dim=8, num_layers=1, mlp_dim=8)
    with pytest.raises(ValueError, match="A preset must be of a class of keras_permix.zoo.*Mine"):
        model.save_to_preset(tmp_path / "preset")


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_weights_overflowing_model_dtype_raise(tmp_path):
    model = tiny()
    model.get_layer("head").bias.assign([0.0, 1e6, 0.0])
    model.save_to_preset(tmp_path / "preset")
    refuses(tmp_path / "preset", ValueError, "finite.* `dtype` .*inf", dtype="float16")
    assert zoo.CSPViT.from_preset(tmp_path / "preset", dtype="bfloat16").count_params()
