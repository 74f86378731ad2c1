"""Images of another range than 0–255 are noticed where they come in, and nothing else is."""

import warnings

import keras
import numpy as np
import pytest

from keras_permix.data import Pipeline
from keras_permix.layers.embedding.image_range import check_image_range
from tests.backends import quick
from tests.harness import assert_close, to_numpy
from tests.zoo.models import tiny

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), "uint8")
LABELS = np.arange(4) % 3
SCALED = {"0–1": IMAGES / 255, "-1…1": IMAGES / 127.5 - 1}
WIDE = IMAGES.astype("uint16") * 257

# Every way in, but for tensors, which only whole methods look at.
WAYS = {
    "call": lambda model, x: model(x),
    "predict": lambda model, x: model.predict(x, verbose=0),
    "predict_on_batch": lambda model, x: model.predict_on_batch(x),
    "features": lambda model, x: model.features(x),
    "fit": lambda model, x: model.fit(x, LABELS, verbose=0),
    "validation": lambda model, x: model.fit(
        IMAGES, LABELS, validation_data=(x, LABELS), verbose=0
    ),
    "validation by place": lambda model, x: model.fit(
        IMAGES, LABELS, None, 1, 0, None, 0.0, (x, LABELS)
    ),
    "evaluate": lambda model, x: model.evaluate(x=x, y=LABELS, verbose=0),
    "train_on_batch": lambda model, x: model.train_on_batch(x, LABELS),
    "test_on_batch": lambda model, x: model.test_on_batch(x, LABELS),
    "pipeline": lambda model, x: model.fit(Pipeline(x, LABELS, batch_size=2), verbose=0),
}


@pytest.fixture(scope="module")
def compiled():
    model = tiny()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


@pytest.mark.parametrize("way", WAYS)
def test_images_that_cannot_be_of_the_range(way, compiled):
    with pytest.raises(ValueError, match="`x` must hold images of 0–255.*0 to 65535, uint16"):
        WAYS[way](compiled, np.where(IMAGES == IMAGES.max(), 65535, WIDE).astype("uint16"))


@pytest.mark.parametrize("way", ["call", "predict", "fit"])
@pytest.mark.parametrize("kind", SCALED)
def test_scaled_images_warn_once(way, kind, compiled, monkeypatch):
    monkeypatch.setattr(compiled, "_warned", False)
    with pytest.warns(UserWarning, match="0–255, and seems to be scaled already") as caught:
        WAYS[way](compiled, SCALED[kind])
    ours = [warning.filename for warning in caught if "0–255" in str(warning.message)]
    assert ours == [__file__]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "`x` must hold images")
        WAYS[way](compiled, SCALED[kind])


def test_compiled_functions_take_tensors(compiled):
    """Nothing within is looked at that has no values yet."""
    features = quick(lambda x: compiled.features(x, layers=[-1])[0])
    expected = to_numpy(compiled.features(IMAGES, layers=[-1])[0])
    assert_close(to_numpy(features(keras.ops.convert_to_tensor(IMAGES, "float32"))), expected)


def test_one_channel_needs_no_axis():
    model = tiny(channels=1, mean=(0.5,), std=(0.5,))
    gray = IMAGES[..., 0]
    answers = to_numpy(model(gray[..., None]))
    assert_close(model.predict(gray, verbose=0), answers)
    assert_close(to_numpy(model(gray)), answers)


def test_tensors_are_looked_at_by_whole_methods(compiled):
    with pytest.raises(ValueError, match="0–255"):
        compiled.predict(keras.ops.convert_to_tensor(1000.0 * IMAGES), verbose=0)


@pytest.mark.parametrize(
    "images",
    [IMAGES, IMAGES.astype("float16"), IMAGES.astype("int64"), 0.0 * IMAGES,
     IMAGES * 1.2 - 20, (IMAGES > 99).astype("uint8")],
    ids=["uint8", "float16", "int64", "black", "overshoot", "dark"],
)  # fmt: skip
def test_images_of_the_range_are_taken_as_they_are(images, compiled):
    compiled.predict(images, verbose=0)


@pytest.mark.parametrize(
    "images", [-70.0 + IMAGES, 70.0 + IMAGES, np.where(IMAGES == 7, np.nan, IMAGES), WIDE]
)
def test_bounds(images):
    with pytest.raises(ValueError, match="Received: x from "):
        check_image_range(np.clip(images, -65, 70000))


def test_what_is_looked_at_is_little():
    """A fraction of many images is enough, and is spread over all of them."""

    class Counting(np.ndarray):
        def __getitem__(self, part):
            seen.append(len(range(len(self))[part]))
            return np.ndarray.__getitem__(self, part)

    seen = []
    images = np.full((10_000, 1, 1, 1), 200.0)
    images[9_843:] = 1000.0
    with pytest.raises(ValueError, match="to 1000"):
        check_image_range(images.view(Counting))
    assert seen == [64]
