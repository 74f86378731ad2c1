"""Checks that tests share, one function per kind of thing. They assert by themselves."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_permix import zoo
from keras_permix.zoo.presets.probe import verify_probe
from tests.backends import quick
from tests.tolerances import TOLERANCES

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
BACKENDS = ("jax", "tensorflow", "torch")


def to_numpy(x):
    """A tensor as an array; bfloat16, which NumPy lacks, as float32."""
    if keras.backend.standardize_dtype(x.dtype) == "bfloat16":
        x = keras.ops.cast(x, "float32")
    return keras.ops.convert_to_numpy(x)


def load_golden(name):
    """The arrays of a golden file, by name."""
    with np.load(GOLDEN / f"{name}.npz") as arrays:
        return dict(arrays)


def assert_close(actual, desired, dtype="float32", kind="layer"):
    """Assert that values are as near as the table of tolerances asks."""
    np.testing.assert_allclose(actual, desired, **TOLERANCES[kind][dtype])


def check_layer(make, shape, *, numerics=True, continuous=True, masked=True):
    """What every layer keeps: shapes, masks, config, files, dtypes, and that it learns.

    Args:
        make: Makes a new layer; takes further arguments of the layer such as `dtype`.
        shape: (batch, tokens, channels) to call it with.
        numerics: Whether to check low precision and training, which take the most time.
        continuous: Whether close inputs give close outputs, so that low precision stays near
            float32. (Ranks taken from rounded values do not.)
        masked: Whether a mask changes the result, as it does where tokens are mixed.
    """
    inputs = np.random.default_rng(0).normal(size=shape).astype("float32")
    layer = make()
    outputs = to_numpy(layer(inputs))
    _check_shapes(layer, inputs, outputs)
    _check_functional(layer, inputs, outputs)
    if masked:
        _check_mask(layer, inputs)
    _check_config(layer, inputs, outputs)
    _check_file(layer, inputs, outputs)
    if numerics:
        for policy in ("mixed_bfloat16", "mixed_float16"):
            _check_precision(make(dtype=policy), layer, inputs, outputs if continuous else None)
        _check_fit(make(), inputs)


def _check_shapes(layer, inputs, outputs):
    assert layer.compute_output_shape(inputs.shape) == outputs.shape
    spec = layer.compute_output_spec(keras.KerasTensor((None, *inputs.shape[1:])))
    assert (spec.shape, spec.dtype) == ((None, *outputs.shape[1:]), "float32")
    assert outputs.dtype == "float32"


def _check_functional(layer, inputs, outputs):
    """Symbolic, compiled and eager calls agree, whatever the batch and the tokens."""
    for tokens in (inputs.shape[1], None):
        model = functional(layer, (tokens, *inputs.shape[2:]))
        assert model.output_shape == (None, tokens, *outputs.shape[2:])
        assert_close(model.predict(inputs, verbose=0), outputs)
        assert_close(model.predict(inputs[:1], verbose=0), outputs[:1])


def _check_mask(layer, inputs):
    """Padding changes nothing at real tokens, and a mask arrives from the layer before."""
    call = quick(lambda inputs, mask: layer(inputs, mask=mask))
    mask = np.random.default_rng(1).random(inputs.shape[:2]) < 0.7
    masked, unmasked = to_numpy(call(inputs, mask)), to_numpy(layer(inputs))
    other = np.where(mask[..., None], inputs, inputs + 100).astype("float32")
    assert_close(to_numpy(call(other, mask))[mask], masked[mask])
    assert not np.allclose(masked[mask], unmasked[mask])
    assert_close(to_numpy(call(inputs, np.ones_like(mask))), unmasked)

    sequence = keras.Input(inputs.shape[1:])
    marked = keras.layers.Masking()(sequence)
    model = keras.Model(sequence, layer(marked))
    assert_close(model.predict(inputs * mask[..., None], verbose=0)[mask], masked[mask])
    assert layer.supports_masking


def _check_config(layer, inputs, outputs):
    config = _through_json(keras.saving.serialize_keras_object(layer))
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is type(layer)
    assert _through_json(again.get_config()) == _through_json(layer.get_config())
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(to_numpy(again(inputs)), outputs)


def _through_json(config):
    """A config as a file has it, where Keras' shapes of wrapped layers become lists."""
    return json.loads(json.dumps(config))


def _check_file(layer, inputs, outputs):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.keras")
        functional(layer, inputs.shape[1:]).save(path)
        loaded = keras.saving.load_model(path)
    np.testing.assert_array_equal(to_numpy(loaded(inputs)), outputs)


def _check_precision(low, layer, inputs, outputs):
    low.build(inputs.shape)
    low.set_weights(layer.get_weights())
    compute = low.compute_dtype
    # JAX does not compile attention in float16 for a CPU.
    result = (low if compute == "float16" else quick(low))(inputs)
    assert keras.backend.standardize_dtype(result.dtype) == compute
    assert {weight.dtype for weight in low.weights} == {low.variable_dtype}
    result = to_numpy(result)
    assert np.isfinite(result).all()
    if outputs is not None:
        assert_close(result, outputs, dtype=compute)


def _check_fit(layer, inputs):
    """One step of `fit` changes every weight that can be trained, however small its gradient."""
    model = functional(layer, inputs.shape[1:])
    before = [weight.numpy() for weight in model.trainable_weights]
    model.compile(keras.optimizers.Lion(1.0), "mse")
    targets = np.random.default_rng(2).normal(size=inputs.shape).astype("float32")
    history = model.fit(inputs, targets, batch_size=len(inputs), verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert not np.array_equal(weight.numpy(), old), weight.path


def check_other_backend(layers, shape):
    """Models of one layer, saved here, give the same on another backend that is installed.

    Args:
        layers: From names to functions that make the layers.
        shape: (batch, tokens, channels) to call them with.
    """
    backend = other_backend()
    inputs = np.random.default_rng(0).normal(size=shape).astype("float32")
    outputs = {}
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "inputs.npy"), inputs)
        for name, make in layers.items():
            model = functional(make(), shape[1:])
            model.save(Path(folder, f"{name}.keras"))
            outputs[name] = to_numpy(model(inputs))
        environment = {**os.environ, "KERAS_BACKEND": backend}
        command = [sys.executable, "-m", "tests.reload", folder]
        subprocess.run(command, env=environment, cwd=ROOT, check=True)
        for name, output in outputs.items():
            assert_close(np.load(Path(folder, f"{name}.npy")), output)


def other_backend():
    """Another installed backend than this process has; without one the test is skipped."""
    here = BACKENDS.index(keras.config.backend())
    for name in (*BACKENDS[here + 1 :], *BACKENDS[:here]):
        if importlib.util.find_spec(name):
            return name
    pytest.skip("no other backend is installed")


def functional(layer, shape):
    """A model of one layer."""
    inputs = keras.Input(shape)
    return keras.Model(inputs, layer(inputs))


def check_model(make, image_size):
    """What every image model keeps: input types, features, dtypes, config, files, learning.

    Args:
        make: Makes the model; takes further arguments of it such as `dtype`.
        image_size: Side of its images.
    """
    shape = (4, image_size, image_size, 3)
    images = np.random.default_rng(0).integers(0, 256, shape, "uint8")
    model = make()
    logits = to_numpy(model(images))
    assert logits.dtype == "float32"
    assert model.compute_output_shape(images.shape) == logits.shape
    np.testing.assert_array_equal(to_numpy(model(images.astype("float32"))), logits)
    assert_close(model.predict(images, verbose=0), logits, kind="model")
    assert not np.allclose(logits[0], logits[1])
    _check_model_copies(model, images, logits)
    for policy in ("mixed_bfloat16", "mixed_float16", "bfloat16"):
        _check_model_precision(make(dtype=policy), model, images, logits)
    _check_model_fit(model, images)


def _check_model_copies(model, images, logits):
    """The config makes the same model, and so does a file."""
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(model)))
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is type(model)
    assert again.get_config() == model.get_config()
    again.set_weights(model.get_weights())
    np.testing.assert_array_equal(to_numpy(again(images)), logits)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.keras")
        model.save(path)
        loaded = keras.saving.load_model(path)
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(to_numpy(loaded(images)), logits)


def _check_model_precision(low, model, images, logits):
    low.set_weights(model.get_weights())
    compute = low.dtype_policy.compute_dtype
    (tokens,) = low.features(images, layers=[0])
    assert keras.backend.standardize_dtype(tokens.dtype) == compute
    result = to_numpy(low(images))
    assert result.dtype == "float32"
    assert_close(result, logits, dtype=compute, kind="model")


def _check_model_fit(model, images):
    before = [to_numpy(weight) for weight in model.trainable_weights]
    loss = fit_classifier(model, images)
    assert np.isfinite(loss)
    for weight, old in zip(model.trainable_weights, before, strict=True):
        if "position_embedding" in weight.path:  # of which rows may be unused
            continue
        assert not np.array_equal(to_numpy(weight), old), weight.path


def fit_classifier(model, images, **arguments):
    """One step of `fit` on labels 0, 1, 2 …; returns the loss."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, **arguments)
    labels = np.arange(len(images)) % model.output_shape[-1]
    history = model.fit(images, labels, batch_size=len(images), verbose=0)
    return history.history["loss"][0]


def check_preset(name, folder):
    """A preset loads by name and from a copy in `folder`, gives its probe's answer, and a flipped
    bit of its weights is noticed."""
    info = zoo.preset_info(name)
    model_class = zoo.MODELS[info.class_name]
    copy = shutil.copytree(info.files.folder, folder / "copy")
    by_name, by_path = (model_class.from_preset(preset) for preset in (name, copy))
    for ours, theirs in zip(by_name.weights, by_path.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs))
    assert by_name.count_params() == info.parameters
    error, atol = verify_probe(copy)
    assert error <= atol <= 1e-4, f"logits of {name} are off by {error}"
    content = bytearray((copy / "model.weights.h5").read_bytes())
    content[-1] ^= 1
    (copy / "model.weights.h5").write_bytes(content)
    with pytest.raises(ValueError, match="must have the SHA-256"):
        model_class.from_preset(copy)
