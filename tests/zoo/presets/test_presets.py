"""Test presets: files, round trips, metadata and listing."""

import hashlib
import json

import h5py
import numpy as np
import pytest

from keras_permix import zoo
from keras_permix.recipes import find
from keras_permix.zoo.model import ZooModel
from keras_permix.zoo.presets import names
from keras_permix.zoo.presets.probe import verify_probe
from tests.harness import assert_close, check_preset
from tests.zoo.models import logits, tiny, weights


@pytest.mark.parametrize("name", [f"{name.lower()}/test" for name in zoo.MODELS])
def test_the_test_preset(name, tmp_path):
    check_preset(name, tmp_path)


TRAINED = [
    name for name, info in zoo.list_presets().items()
    if info.has_weights and not name.endswith("/test")
]  # fmt: skip


@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_preset_matches_its_probe(name):
    error, atol = verify_probe(name)
    assert error <= atol <= 1e-4


@pytest.mark.parametrize("class_name", zoo.MODELS)
def test_round_trip(class_name, tmp_path):
    model = tiny(class_name)
    model.save_to_preset(tmp_path / "preset")
    loaded = zoo.MODELS[class_name].from_preset(tmp_path / "preset")
    np.testing.assert_array_equal(logits(loaded), logits(model))
    assert {**loaded.get_config(), "name": model.name} == model.get_config()
    assert type(ZooModel.from_preset(tmp_path / "preset")) is zoo.MODELS[class_name]


@pytest.mark.parametrize("dtype, stored", [("float32", "float16"), ("bfloat16", "float32")])
def test_weights_are_stored_in_another_dtype(dtype, stored, tmp_path):
    model = tiny(dtype=dtype)
    model.save_to_preset(tmp_path / "preset", weights_dtype=stored)
    kinds = set()
    with h5py.File(tmp_path / "preset" / "model.weights.h5") as file:
        file.visititems(lambda _, item: kinds.add(getattr(item, "dtype", None)))
    assert kinds == {None, np.dtype(stored)}
    loaded = weights(zoo.CSPViT.from_preset(tmp_path / "preset"))
    for path, value in weights(model).items():
        np.testing.assert_array_equal(loaded[path], value.astype(stored).astype("float32"))


def test_metadata(tmp_path):
    model = tiny()
    known = dict(labels=["a", "b", "c"], data="toys", license="MIT", scores={"toys/test/top1": 0.5})
    model.save_to_preset(tmp_path / "preset", **known)
    files = {path.name: path for path in (tmp_path / "preset").iterdir()}
    assert sorted(files) == sorted(
        ["config.json", "metadata.json", "model.weights.h5", "preprocessor.json", "task.json"]
    )
    metadata = json.loads(files.pop("metadata.json").read_text())
    assert metadata["files"] == {
        name: {
            "bytes": len(path.read_bytes()),
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for name, path in files.items()
    }
    assert metadata["parameter_count"] == model.count_params()
    size_and_range = {"size": 8, "range": [0, 255]}
    assert metadata["input"] == {**size_and_range, "mean": [0.5] * 3, "std": [0.5] * 3}
    assert {key: metadata[key] for key in known} == known
    assert metadata["commit"] is None and metadata["recipe"] is None
    images = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), dtype="uint8")
    assert_close(metadata["probe"]["outputs"], model.predict(images, verbose=0), kind="model")
    config = json.loads(files["config.json"].read_text())
    assert sorted(config) == ["class_name", "config", "module", "registered_name"]


def test_saving_again_replaces_preset(tmp_path):
    tiny().save_to_preset(tmp_path / "preset")
    model = tiny(num_classes=4)
    model.save_to_preset(tmp_path / "preset")
    np.testing.assert_array_equal(
        logits(zoo.CSPViT.from_preset(tmp_path / "preset")), logits(model)
    )
    assert [path.name for path in tmp_path.iterdir()] == ["preset"]


def test_verify_probe_opens_preset_once(tmp_path, monkeypatch):
    tiny().save_to_preset(tmp_path / "preset")
    opened = []

    def open_preset(folder):
        opened.append(folder)
        return folder_files(folder)

    folder_files = names.open_preset
    monkeypatch.setattr(names, "open_preset", open_preset)
    error, atol = verify_probe(tmp_path / "preset")
    assert error <= atol and opened == [tmp_path / "preset"]


def test_lora_is_merged(tmp_path):
    model = tiny()
    plain = logits(model)
    dense = model.get_layer("block_0").mlp_in
    dense.enable_lora(2)
    dense.lora_kernel_b.assign(np.ones((2, 8), "float32"))
    assert np.abs(logits(model) - plain).max() > 0.01
    model.save_to_preset(tmp_path / "preset")
    loaded = zoo.CSPViT.from_preset(tmp_path / "preset")
    assert_close(logits(loaded), logits(model))
    assert loaded.count_params() < model.count_params()


@pytest.mark.filterwarnings("ignore:.*does not have a `quantize` method")
@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_quantized_model(mode, tmp_path):
    model = tiny("ViT")
    model.quantize(mode)
    model.save_to_preset(tmp_path / "preset")
    loaded = zoo.ViT.from_preset(tmp_path / "preset")
    assert_close(logits(loaded), logits(model))
    assert loaded.get_layer("head").quantization_mode == mode
    assert zoo.ViT.from_preset(tmp_path / "preset", num_classes=3).output_shape == (None, 3)
    with pytest.raises(
        ValueError, match="quantized preset supports no other arguments.* Received: .*dtype"
    ):
        zoo.ViT.from_preset(tmp_path / "preset", dtype="bfloat16")


def test_listing():
    listed = zoo.list_presets()
    assert {f"{name.lower()}/test" for name in zoo.MODELS} <= set(listed)
    info = zoo.preset_info("cspvit/test")
    assert listed["cspvit/test"] == info
    assert info.has_weights and info.class_name == "CSPViT" and info.scores is None
    assert info.parameters == zoo.CSPViT.from_preset("test").count_params()


def test_preset_without_weights():
    info = zoo.preset_info("cspvit/imagenet")
    if info.has_weights:
        pytest.skip("cspvit/imagenet has weights by now")
    assert info.parameters is None and info.scores is None
    with pytest.raises(ValueError, match="no weights.*permix train cspvit/imagenet.* Received"):
        zoo.CSPViT.from_preset("imagenet")
    small = dict(hidden_dim=8, num_layers=1, mlp_dim=8)
    model = zoo.CSPViT.from_preset("imagenet", load_weights=False, **small)
    assert model.output_shape == (None, 1000) and model.get_config()["image_size"] == 224


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return the `weights/` folder of a simulated installation."""
    path = tmp_path / "keras_permix" / "recipes" / "find.py"
    monkeypatch.setattr(find, "__file__", str(path))
    return tmp_path / "keras_permix" / "weights"


def test_presets_of_an_installed_package(installed):
    folder = installed / "vit" / "elsewhere"
    tiny("ViT").save_to_preset(folder)
    assert zoo.preset_info("vit/elsewhere").files.folder == folder
    np.testing.assert_array_equal(logits(zoo.ViT.from_preset("elsewhere")), logits(tiny("ViT")))
    assert "vit/elsewhere" in zoo.list_presets()


def test_preset_in_folder_of_another_class_raises(installed):
    tiny("ViT").save_to_preset(installed / "cspvit" / "lost")
    with pytest.raises(ValueError, match="`preset` must be of CSPViT.* of ViT"):
        zoo.CSPViT.from_preset("lost")


def test_compile_state_is_not_stored(tmp_path):
    model = tiny("CSPViT")
    model.compile("adam", "mse")
    model.fit(np.zeros((2, 8, 8, 3)), np.zeros((2, model.output_shape[-1])), verbose=0)
    model.save_to_preset(tmp_path / "preset")
    with h5py.File(tmp_path / "preset" / "model.weights.h5") as file:
        assert "layers" in file and "optimizer" not in file
