"""Check what all models of the zoo support, and train models for a step."""

import json
import tempfile
from pathlib import Path

import keras
import numpy as np

from keras_permix.tasks import task_of
from tests.harness.layers import check_extended
from tests.harness.values import assert_close, to_numpy

# Weights that a step may leave unchanged: unused rows of tables, and biases of keys, which softmax
# cancels.
UNMOVED = ("position_embedding", "embedding/embeddings", "key/bias")


def check_model(make):
    """Check input types, features, config, files, submodels and training of a model.

    Args:
        make: Function that returns a new model.
    """
    model = make()
    inputs = model.make_inputs(0, 4)
    outputs = to_numpy(model(inputs))
    assert outputs.dtype == "float32" and outputs.shape == (4, *model.output_shape[1:])
    if isinstance(inputs, np.ndarray):  # images
        assert model.compute_output_shape(inputs.shape) == outputs.shape
        np.testing.assert_array_equal(to_numpy(model(inputs.astype("float32"))), outputs)
    assert_close(model.predict(inputs, verbose=0), outputs, kind="model")
    one = keras.tree.map_structure(lambda array: array[:1], inputs)
    assert_close(model.predict(one, verbose=0), outputs[:1], kind="model")
    assert not np.allclose(outputs[0], outputs[1])
    _check_model_copies(model, inputs, outputs)
    check_extended(model, inputs, model.backbone.outputs[0])
    _check_model_fit(model)


def _check_model_copies(model, inputs, outputs):
    """Check that the config and a saved file reproduce the model."""
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(model)))
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is type(model)
    assert again.get_config() == model.get_config()
    again.set_weights(model.get_weights())
    np.testing.assert_array_equal(to_numpy(again(inputs)), outputs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.keras")
        model.save(path)
        loaded = keras.saving.load_model(path)
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(to_numpy(loaded(inputs)), outputs)


def check_precision(make, policy):
    """Check that a model computes in low precision, close to float32, and returns float32.

    Args:
        make: Function that returns a new model. It accepts further arguments such as `dtype`.
        policy: A dtype policy.
    """
    model, low = make(), make(dtype=policy)
    inputs = model.make_inputs(0, 4)
    outputs = to_numpy(model(inputs))
    low.set_weights(model.get_weights())
    compute = low.dtype_policy.compute_dtype
    (tokens,) = low.features(inputs, layers=[0])
    assert keras.backend.standardize_dtype(tokens.dtype) == compute
    result = to_numpy(low(inputs))
    assert result.dtype == "float32"
    assert_close(result, outputs, dtype=compute, kind="model")


def _check_model_fit(model):
    """Check that a step of `fit` on the model's task changes all trainable weights."""
    before = [to_numpy(weight) for weight in model.trainable_weights]
    assert np.isfinite(fit_once(model))
    for weight, old in zip(model.trainable_weights, before, strict=True):
        if not any(name in weight.path for name in UNMOVED):
            assert not np.array_equal(to_numpy(weight), old), weight.path


def fit_once(model, optimizer=None, **arguments):
    """Run a step of `fit` on four generated samples of the model's task. Returns the loss."""
    task = task_of(model)
    model.compile(optimizer or keras.optimizers.SGD(0.1), task.loss(), **arguments)
    batches = task.batches(task.generate(4).train, 4, training=True)
    return model.fit(batches, verbose=0).history["loss"][0]


def fit_classifier(model, images, **arguments):
    """Run a step of `fit` on labels 0, 1, 2 … Returns the loss."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, **arguments)
    labels = np.arange(len(images)) % model.output_shape[-1]
    history = model.fit(images, labels, batch_size=len(images), verbose=0)
    return history.history["loss"][0]
