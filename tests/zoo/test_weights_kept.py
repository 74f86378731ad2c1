"""Test that failed and interrupted calls keep the weights.

On JAX, Keras takes the weights out of the model during a call.
"""

import keras
import numpy as np
import pytest

from tests.zoo.models import tiny

pytestmark = pytest.mark.everywhere

IMAGES = np.random.default_rng(0).integers(0, 256, (8, 8, 8, 3), "uint8")
LABELS = np.arange(8) % 3


class Stop(keras.callbacks.Callback):
    """Raise KeyboardInterrupt at the second batch."""

    def __init__(self, method):
        super().__init__()
        setattr(self, f"on_{method}_batch_end", self.stop)

    def stop(self, batch, logs=None):
        if batch == 1:
            raise KeyboardInterrupt


def broken(inputs, training=False):
    raise RuntimeError("no such step")


@pytest.fixture
def model():
    model = tiny(num_classes=3)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    model.fit(IMAGES, LABELS, batch_size=4, verbose=0)
    return model


@pytest.mark.parametrize("method", ["predict", "test"])
def test_interrupted_inference_keeps_weights(method, model):
    before = model.get_weights()
    with pytest.raises(KeyboardInterrupt):
        if method == "predict":
            model.predict(IMAGES, batch_size=2, verbose=0, callbacks=[Stop(method)])
        else:
            model.evaluate(IMAGES, LABELS, batch_size=2, verbose=0, callbacks=[Stop(method)])
    for weight, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)
    model.fit(IMAGES, LABELS, verbose=0)


def test_interrupted_training_keeps_finished_steps(model):
    before = model.get_weights()
    with pytest.raises(KeyboardInterrupt):
        model.fit(IMAGES, LABELS, batch_size=2, verbose=0, callbacks=[Stop("train")])
    after = model.get_weights()
    assert any((weight != old).any() for weight, old in zip(after, before, strict=True))
    model.predict(IMAGES, verbose=0)


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_failed_first_step_keeps_weights(method, model, monkeypatch):
    before, answers = model.get_weights(), model.predict(IMAGES, verbose=0)
    head = model.get_layer("head")
    model.train_function = model.test_function = model.predict_function = None
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="no such step"):
        patch.setattr(head, "call", broken)
        targets = {} if method == "predict" else {"y": LABELS}
        getattr(model, method)(IMAGES, verbose=0, **targets)
    for weight, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)
    model.train_function = model.test_function = model.predict_function = None
    np.testing.assert_array_equal(model.predict(IMAGES, verbose=0), answers)


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_training_resumes_after_weight_averaging(dtype):
    model = tiny(num_classes=3, dtype=dtype)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(0.01, use_ema=True, ema_momentum=0.5), loss)
    model.fit(IMAGES, LABELS, batch_size=4, verbose=0)
    averages = model.get_weights()
    model.train_on_batch(IMAGES, LABELS)
    model.fit(IMAGES, LABELS, batch_size=4, verbose=0)
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    assert any((a != b).any() for a, b in zip(model.get_weights(), averages, strict=True))
