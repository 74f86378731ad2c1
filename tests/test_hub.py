"""Test KerasHub: load, train and save models of the zoo."""

import importlib.util
import re
import sys
import types
from collections import Counter
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.harness import ROOT, assert_close, to_numpy
from tests.zoo.models import TINY, logits, tiny

needs_hub = pytest.mark.skipif(
    importlib.util.find_spec("keras_hub") is None, reason="keras-hub is absent"
)


@pytest.fixture
def models():
    """Return `keras_hub.models` with the zoo registered."""
    import keras_permix.hub  # noqa: F401

    return importlib.import_module("keras_hub.models")


@pytest.fixture
def folder(tmp_path):
    """Return the folder of a preset of a tiny CSPViT."""
    tiny().save_to_preset(tmp_path / "preset")
    return str(tmp_path / "preset")


@needs_hub
def test_classifier_matches_model(models, folder):
    classifier = models.ImageClassifier.from_preset(folder)
    images = tiny().make_inputs(3, 2)
    np.testing.assert_array_equal(to_numpy(classifier(images)), logits(tiny()))
    assert_close(classifier.predict(images, verbose=0), logits(tiny()), kind="model")


@needs_hub
@pytest.mark.parametrize("name", ["ButterflyMixer", "CSPMEGA", "SimpleTRON", "SliceGraphormer"])
def test_backbone_matches_features(models, name, tmp_path):
    assert name in TINY
    model = tiny(name)
    model.save_to_preset(tmp_path / "preset")
    backbone = models.Backbone.from_preset(str(tmp_path / "preset"))
    inputs = model.make_inputs(3, 2)
    expected = to_numpy(model.features(inputs, layers=[-1])[0])
    np.testing.assert_array_equal(to_numpy(backbone(inputs)), expected)


@needs_hub
@pytest.mark.parametrize(
    ("handle", "package"),
    [("hf://me/model", "huggingface_hub"), ("kaggle://me/model/keras/tiny", "kagglehub")],
)
def test_handles(models, folder, handle, package, monkeypatch):
    """The patched download functions return files of a local folder."""
    from keras_hub.src.utils import preset_utils

    requested = []

    def download(name, file=None, **kwargs):
        requested.append(name)
        file = kwargs.get("filename", file)
        return str(Path(folder, file)) if file else folder

    hub = types.SimpleNamespace(
        hf_hub_download=lambda repo_id, filename, **kwargs: download(repo_id, filename),
        try_to_load_from_cache=lambda repo_id, filename, **kwargs: str(Path(folder, filename)),
        model_info=lambda repo_id, **kwargs: types.SimpleNamespace(siblings=[]),
        snapshot_download=lambda repo_id, **kwargs: download(repo_id),
        model_download=download,
    )
    monkeypatch.setattr(preset_utils, package, hub)
    monkeypatch.setitem(sys.modules, package, hub)
    images = tiny().make_inputs(3, 2)
    classifier = models.ImageClassifier.from_preset(handle)
    np.testing.assert_array_equal(to_numpy(classifier(images)), logits(tiny()))
    name = handle.partition("://")[2]
    assert name in requested and set(requested) <= {name, f"{name}/{Path(folder).name}"}


@needs_hub
def test_num_classes_keeps_backbone(models, folder):
    model = tiny()
    model.get_layer("head_norm").gamma.assign(np.full(8, 7.0))
    model.save_to_preset(folder)
    classifier = models.ImageClassifier.from_preset(folder, num_classes=5)
    assert classifier.backbone.zoo_model.output_shape == (None, 5)
    assert np.unique(classifier.backbone.zoo_model.get_layer("head_norm").gamma) == [7]
    images = tiny().make_inputs(3, 2)
    expected = to_numpy(tiny().features(images, layers=[-1])[0])
    np.testing.assert_array_equal(to_numpy(classifier.backbone(images)), expected)
    assert classifier.predict(images, verbose=0).shape == (2, 5)
    before = [to_numpy(weight) for weight in classifier.trainable_weights]
    classifier.fit(images, np.arange(2, dtype="int32"), shuffle=False, verbose=0)
    assert not np.array_equal(before[-2], to_numpy(classifier.trainable_weights[-2]))


@needs_hub
def test_other_arguments(models, folder):
    import keras_permix.hub

    build = models.ImageClassifier.from_preset
    classifier = build(folder, num_classes=5, image_size=12, dtype="bfloat16", name="mine")
    zoo_model = classifier.backbone.zoo_model
    assert (zoo_model.get_config()["image_size"], classifier.name) == (12, "mine")
    assert zoo_model.dtype_policy.name == "bfloat16"
    backbone = models.Backbone.from_preset(folder, image_size=12)
    assert backbone.zoo_model.get_config()["image_size"] == 12
    other = keras_permix.hub.PermixImageClassifier(backbone, num_classes=4)
    assert other.output_shape == other.backbone.zoo_model.output_shape == (None, 4)
    with pytest.raises(ValueError, match="Received: .*'activation'"):
        build(folder, activation="softmax")
    with pytest.raises(ValueError, match="Received: .*'activation'"):
        keras_permix.hub.PermixImageClassifier(backbone, activation="softmax")


@needs_hub
@pytest.mark.filterwarnings("ignore:.*does not have a `quantize` method")
def test_quantized_classifier_of_other_classes_can_be_saved(models, folder, tmp_path):
    classifier = models.ImageClassifier.from_preset(folder, num_classes=5)
    images = tiny().make_inputs(3, 2)
    classifier.quantize("int8")
    classifier.save_to_preset(str(tmp_path / "saved"))
    again = models.ImageClassifier.from_preset(str(tmp_path / "saved"))
    assert_close(to_numpy(again(images)), to_numpy(classifier(images)), dtype="int8", kind="model")


@needs_hub
@pytest.mark.parametrize("lora", [False, True])
def test_save_and_load(models, folder, lora, tmp_path):
    classifier = models.ImageClassifier.from_preset(folder)
    images = tiny().make_inputs(3, 4)
    if lora:
        classifier.backbone.enable_lora(2)
        kinds = [w.path.rpartition("/")[2] for w in classifier.backbone.trainable_weights]
        assert Counter(kinds) == {"lora_kernel_a": 4, "lora_kernel_b": 4, "bias": 2}
        classifier.compile(keras.optimizers.SGD(1.0))
        classifier.fit(images, np.arange(4, dtype="int32") % 3, shuffle=False, verbose=0, epochs=2)
        assert not np.allclose(to_numpy(classifier(images)), to_numpy(tiny()(images)), atol=1e-4)
    classifier.save_to_preset(str(tmp_path / "saved"))
    again = models.ImageClassifier.from_preset(str(tmp_path / "saved"))
    assert_close(again.predict(images, verbose=0), to_numpy(classifier(images)), kind="model")
    assert len(again.trainable_weights) == len(tiny().trainable_weights)  # LoRA is merged
    backbone = models.Backbone.from_preset(str(tmp_path / "saved"))
    expected = to_numpy(classifier.backbone(images))
    assert_close(to_numpy(backbone(images)), expected, kind="model")


@needs_hub
@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("MLPMixer", {}),
        ("PatchOnlyMLPMixer", {}),
        ("SimpleTRON", dict(mixer="fourier")),
    ],
)
def test_lora_without_projections_trains_mlps(models, name, arguments, tmp_path):
    tiny(name, **arguments).save_to_preset(tmp_path / "preset")
    backbone = models.Backbone.from_preset(str(tmp_path / "preset"))
    layers = [x for x in backbone._flatten_layers() if hasattr(x, "lora_enabled")]
    backbone.enable_lora(2)
    trained = {x.name for x in layers if x.lora_enabled}
    others = {x.name for x in layers} - trained
    assert trained and others <= {"projection", "token_embedding", "type_embedding"}
    assert all("_in" in name or "_out" in name for name in trained)


@needs_hub
@pytest.mark.once
def test_lora_of_butterflies_raises(models, tmp_path):
    tiny("ButterflyMixer").save_to_preset(tmp_path / "preset")
    backbone = models.Backbone.from_preset(str(tmp_path / "preset"))
    with pytest.raises(ValueError, match="support LoRA. Received: ButterflyMixer"):
        backbone.enable_lora(2)
    assert backbone.trainable_weights


@needs_hub
def test_preset_name_and_unknown_preset(models, tmp_path):
    assert models.Backbone.from_preset("cspvit/test", load_weights=False).count_params() > 0
    with pytest.raises(ValueError, match="Unknown preset identifier"):
        models.Backbone.from_preset(str(tmp_path / "nothing"))


@needs_hub
def test_image_classifier_rejects_other_tasks(models):
    with pytest.raises(ValueError, match="`backbone` must be of an image classifier"):
        models.ImageClassifier.from_preset("simpletron/test")


@pytest.mark.once
def test_missing_keras_hub_raises(monkeypatch):
    monkeypatch.delitem(sys.modules, "keras_permix.hub", raising=False)
    monkeypatch.setitem(sys.modules, "keras_hub.models", None)
    with pytest.raises(ImportError, match="requires KerasHub: pip install keras-hub=="):
        importlib.import_module("keras_permix.hub")


@needs_hub
@pytest.mark.once
def test_incompatible_keras_hub_raises(monkeypatch):
    monkeypatch.delitem(sys.modules, "keras_permix.hub", raising=False)
    monkeypatch.delattr("keras_hub.src.utils.preset_utils.load_json")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (version,) = re.findall(r"^HUB \?= keras-hub==(\S+)", makefile, re.MULTILINE)
    message = f"pip install keras-hub=={version}. Received: .*load_json"
    with pytest.raises(ImportError, match=message):
        importlib.import_module("keras_permix.hub")
