"""Test LoRA, int8 quantization, rematerialization and compiled training."""

import functools

import keras
import numpy as np
import pytest

from keras_permix.layers import CSP, MixerBlock
from tests.harness import assert_close, check_extended, fit_classifier, fit_once, to_numpy
from tests.zoo.models import TINY, logits, tiny

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), "uint8")
CLASSES = pytest.mark.parametrize("class_name", ["CSPViT", "ViT"])
# Arguments that disable dropout.
NO_DROPOUT = {
    **dict.fromkeys(
        ("Graphormer", "SliceGraphormer"),
        dict(dropout=0.0, attention_dropout=0.0, input_dropout=0.0),
    ),
    "SimpleTRON": dict(dropout=0.0),
}
# Keras implements these features, and our layers are the same on all backends. So one model is
# tested on all backends, and the others on one.
MODELS = [
    pytest.param(name, marks=[pytest.mark.once] * (name != "CSPViT"), id=name) for name in TINY
]
EACH_MODEL = pytest.mark.parametrize("class_name", MODELS)
# The blocks of a ButterflyMixer have neither LoRA nor quantization.
EACH_DENSE = pytest.mark.parametrize(
    "class_name", [model for model in MODELS if model.id != "ButterflyMixer"]
)
ON = keras.config.backend()


def with_lora(class_name):
    """Build a model in which only LoRA weights are trainable, in the blocks' dense layers."""
    model = tiny(class_name, **NO_DROPOUT.get(class_name, {}))
    for weight in model.trainable_weights:
        weight.trainable = False
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Dense) and "block_" in layer.path:
            layer.enable_lora(2)
    return model


@EACH_DENSE
def test_lora_trains_only_lora_weights(class_name):
    model = with_lora(class_name)
    before = {weight.path: to_numpy(weight) for weight in model.weights}
    plain = tiny(class_name, **NO_DROPOUT.get(class_name, {}))
    assert_close(logits(model), logits(plain), kind="model")
    for rate in (0.1, 0.03):  # b is zero at first, so a has no gradient then
        fit_once(model, keras.optimizers.Lion(rate))  # its steps ignore the size of gradients
    for weight in model.weights:
        changed = not np.array_equal(to_numpy(weight), before[weight.path])
        assert changed == ("lora" in weight.path), weight.path
    enabled = [layer for layer in model._flatten_layers() if getattr(layer, "lora_enabled", 0)]
    assert len(enabled) >= 4
    assert sum("lora" in path for path in before) == 2 * len(enabled)


@pytest.mark.parametrize("class_name", ["CSPViT", "ViT"])
def test_lora_is_merged_into_a_file(class_name, tmp_path):
    model = with_lora(class_name)
    fit_classifier(model, IMAGES)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_close(to_numpy(loaded(IMAGES)), to_numpy(model(IMAGES)), kind="model")
    part = keras.Model(model.input, model.get_layer("block_0").output)
    part.save(tmp_path / "part.keras")
    loaded = keras.saving.load_model(tmp_path / "part.keras")
    assert_close(to_numpy(loaded(IMAGES)), to_numpy(part(IMAGES)), kind="model")


@CLASSES
@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method:UserWarning")
def test_int8_stays_close_and_is_saved(class_name, tmp_path):
    model = tiny(class_name, hidden_dim=32, mlp_dim=64)
    expected = model.predict(IMAGES, verbose=0)
    model.quantize("int8")
    quantized = model.predict(IMAGES, verbose=0)
    kernels = [weight for weight in model.weights if weight.dtype == "int8"]
    assert len(kernels) == 2 * 4 + 2  # the blocks' dense layers, patch embedding and head
    assert not np.array_equal(quantized, expected)
    assert_close(quantized, expected, dtype="int8", kind="model")
    inner = to_numpy(model.features(IMAGES, layers=[-1])[0])
    np.testing.assert_array_equal(to_numpy(model.backbone(IMAGES)), inner)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(IMAGES, verbose=0), quantized)


@EACH_DENSE
@pytest.mark.filterwarnings("ignore:.*does not have a `quantize` method")
def test_extracted_blocks_stay_quantized(class_name, tmp_path):
    """Keras restores quantization of a functional model's layers, but not of their sublayers."""
    model = tiny(class_name)
    model.quantize("int8")
    check_extended(model, model.make_inputs(0, 4), model.backbone.outputs[0])
    for file in ("first.keras", "second.keras"):
        model.save(tmp_path / file)
        loaded = keras.saving.load_model(tmp_path / file)
        assert loaded.get_config() == {**model.get_config(), "name": loaded.name}
        np.testing.assert_array_equal(logits(loaded), logits(model))
        model = loaded
    assert sum(weight.dtype == "int8" for weight in model.weights) > 2


def in_sequential():
    return keras.Sequential([keras.Input((16, 8)), MixerBlock(CSP(), 12, name="block")])


def in_submodel():
    tokens = keras.Input((16, 8))
    return keras.Model(tokens, keras.Sequential([MixerBlock(CSP(), 12, name="block")])(tokens))


def in_time_distributed():
    frames = keras.Input((3, 16, 8))
    block = MixerBlock(CSP(), 12, name="block")
    return keras.Model(frames, keras.layers.TimeDistributed(block)(frames))


@pytest.mark.parametrize("make", [in_sequential, in_submodel, in_time_distributed])
@pytest.mark.filterwarnings("ignore:.*does not have a `quantize` method")
def test_saved_blocks_stay_quantized(make, tmp_path):
    model = make()
    model.quantize("int8")
    x = np.random.default_rng(0).normal(size=(2, *model.input_shape[1:])).astype("float32")
    model.save(tmp_path / "first.keras")
    loaded = keras.saving.load_model(tmp_path / "first.keras")
    loaded.save(tmp_path / "second.keras")
    expected = to_numpy(model(x))
    for copy in (loaded, keras.saving.load_model(tmp_path / "second.keras")):
        assert sum(weight.dtype == "int8" for weight in copy.weights) == 4
        np.testing.assert_array_equal(to_numpy(copy(x)), expected)


@pytest.mark.skipif(ON == "tensorflow", reason="Keras cannot train under RematScope there")
@pytest.mark.parametrize("mode", ["full", pytest.param("activations", marks=pytest.mark.once)])
@EACH_MODEL
def test_rematerialization_trains_alike(class_name, mode):
    changes = NO_DROPOUT.get(class_name, {})
    with keras.RematScope(mode=mode):
        model = tiny(class_name, **changes)
        loss = fit_once(model)
    plain = tiny(class_name, **changes)
    assert_close(loss, fit_once(plain))
    for weight, other in zip(model.weights, plain.weights, strict=True):
        assert_close(to_numpy(weight), to_numpy(other), kind="model")


def test_rematerialized_model_predicts():
    with keras.RematScope(mode="full"):
        model = tiny()
    assert_close(to_numpy(model(IMAGES)), to_numpy(tiny()(IMAGES)), kind="model")


@pytest.mark.filterwarnings("ignore")  # of PyTorch's compiler
@pytest.mark.skipif(ON != "torch", reason="the compiler of PyTorch traces NumPy")
def test_compiled_step_of_arrays(monkeypatch):
    import torch

    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    losses = []
    for jit_compile in (False, True):
        model = tiny()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss, jit_compile=jit_compile)
        losses.append(model.train_on_batch(IMAGES, np.arange(4) % 3))
    assert_close(*losses)


@CLASSES
@pytest.mark.skipif(ON == "torch", reason="torch.compile takes minutes for a step of Keras' fit")
def test_compiled_training_step(class_name):
    model = tiny(class_name)
    logits = to_numpy(model(IMAGES)).astype("float64")
    before = to_numpy(model.get_layer("block_0").mlp_in.kernel)
    loss = fit_classifier(model, IMAGES, jit_compile=True)
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    labels = np.arange(4) % 3
    assert_close(loss, -np.log(probabilities[np.arange(4), labels]).mean(), kind="model")
    assert not np.array_equal(to_numpy(model.get_layer("block_0").mlp_in.kernel), before)
