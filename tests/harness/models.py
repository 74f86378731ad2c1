"""What every model of images keeps."""

import json
import tempfile
from pathlib import Path

import keras
import numpy as np

from tests.harness.layers import check_extended
from tests.harness.values import assert_close, to_numpy


def check_model(make, image_size):
    """What every image model keeps: input types, features, dtypes, config, files, parts, learning.

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
    check_extended(model, images, model.layers[len(model.layers) // 2].output)
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
