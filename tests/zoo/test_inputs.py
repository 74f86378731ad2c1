"""Test checks of image inputs: range, shape, type, and the containers that hold them."""

import warnings
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image

from keras_permix.layers.embedding.images import check_image_range
from tests.backends import quick
from tests.harness import assert_close, to_numpy
from tests.zoo.models import tiny

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), "uint8")
LABELS = np.arange(4) % 3
MASK = IMAGES > 99
SCALED = {
    "0–1": IMAGES / 255,
    "-1…1": IMAGES / 127.5 - 1,
    "mask": MASK.astype("int64"),
    "mask of bytes": MASK.astype("uint8"),
}
WIDE = IMAGES.astype("uint16") * 257


# Every method that accepts arrays.
WAYS = {
    "call": lambda model, x: model(x),
    "predict": lambda model, x: model.predict(x, verbose=0),
    "predict_on_batch": lambda model, x: model.predict_on_batch(x),
    "features": lambda model, x: model.features(x),
    "fit": lambda model, x: model.fit(x, LABELS, verbose=0),
    "validation": lambda model, x: model.fit(
        IMAGES, LABELS, validation_data=(x, LABELS), verbose=0
    ),
    "evaluate": lambda model, x: model.evaluate(x=x, y=LABELS, verbose=0),
    "train_on_batch": lambda model, x: model.train_on_batch(x, LABELS),
    "test_on_batch": lambda model, x: model.test_on_batch(x, LABELS),
}


@pytest.fixture(scope="module")
def compiled():
    model = tiny()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


@pytest.mark.parametrize("way", WAYS)
def test_16_bit_images_raise(way, compiled):
    with pytest.raises(ValueError, match="`x` must contain images of 0–255.*0 to 65535"):
        WAYS[way](compiled, np.where(IMAGES == IMAGES.max(), 65535, WIDE).astype("uint16"))


def test_centered_images_raise_without_16_bit_hint(compiled):
    with pytest.raises(ValueError, match=r"the model scales them\. Received: x from -128"):
        compiled.predict(np.where(IMAGES == IMAGES.min(), 0, IMAGES).astype("float32") - 128)


@pytest.mark.parametrize("way", ["call", "predict", "fit"])
@pytest.mark.parametrize("kind", SCALED)
def test_scaled_images_warn_once(way, kind, compiled, monkeypatch):
    monkeypatch.setattr(compiled, "_warned_of_range", False)
    with pytest.warns(UserWarning, match="0–255, but seems to be scaled already") as caught:
        WAYS[way](compiled, SCALED[kind])
    ours = [warning.filename for warning in caught if "0–255" in str(warning.message)]
    assert ours == [__file__]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "`x` must contain images")
        WAYS[way](compiled, SCALED[kind])


def as_dataset(*arrays):
    tensorflow = pytest.importorskip("tensorflow")
    return tensorflow.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0])


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # Keras warns for all generators
def test_tensorflow_dataset_keeps_all_batches(compiled):
    """Range checks must not consume batches of a one-time dataset, or change a shuffle."""
    tensorflow = pytest.importorskip("tensorflow")
    expected, images = to_numpy(compiled(IMAGES)), iter(IMAGES)
    spec = tensorflow.TensorSpec(IMAGES.shape[1:], "uint8")
    once = tensorflow.data.Dataset.from_generator(lambda: images, output_signature=spec)
    assert_close(compiled.predict(once.batch(3), verbose=0), expected, kind="model")
    order = list(as_dataset(np.arange(4)).shuffle(4, seed=1).as_numpy_iterator())
    shuffled = as_dataset(np.arange(4)).shuffle(4, seed=1)
    data = shuffled.map(lambda index: tensorflow.gather(IMAGES, index)).batch(4)
    assert_close(compiled.predict(data, verbose=0), expected[order], kind="model")


def test_tensorflow_dataset_of_named_inputs():
    model = tiny("SimpleTRON")
    inputs = model.make_inputs(0, 4)
    data = as_dataset(inputs).batch(2)
    assert_close(model.predict(data, verbose=0), model.predict(inputs, verbose=0), kind="model")


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (IMAGES[0], r"\(batch, height, width, 3\).* Received: images.shape=\(8, 8, 3\)"),
        (IMAGES[..., :2], r"\(batch, height, width, 3\). Received: images.shape=\(., 8, 8, 2\)"),
        (Image.fromarray(IMAGES[0]), r"\(batch, height, width, 3\).* Rec.*=\(8, 8, 3\)"),
        ("cat.png", "`keras_permix.data.read_image`. Received: x='cat.png'"),
        (np.full((1, 8, 8, 3), np.nan, "float32"), "images of 0–255.* nan to nan"),
        (None, "`x` must not be empty. Received: x=None"),
        (IMAGES[:0], "`x` must not be empty. Received: x=array"),
    ],
)
def test_invalid_image_batch_raises(x, message, compiled):
    with pytest.raises(ValueError, match=message):
        compiled.predict(x, verbose=0)
    with pytest.raises(ValueError, match=message):
        compiled.classify(x)


def assert_classified(model, images):
    """Check that `classify` gives the same result for a list as for its single images."""
    alone = [model.classify(image[None])[0] for image in images]
    for found, wanted in zip(model.classify(images), alone, strict=True):
        assert [label for label, _ in found] == [label for label, _ in wanted]
        found, wanted = ([probability for _, probability in each] for each in (found, wanted))
        assert_close(found, wanted)


def test_classify_list_of_images(compiled):
    """The images may have different sizes."""
    tensor = keras.ops.convert_to_tensor(IMAGES[0])
    mixed = [*IMAGES[:2], np.repeat(IMAGES[2], 2, 0), IMAGES[3][:5], tensor]
    assert_classified(compiled, mixed)
    with pytest.raises(ValueError, match=r"`images` must have .*images.shape=\(1, 8, 8, 1\)"):
        compiled.classify([*IMAGES[:2, ..., :1], IMAGES[2]])


def test_list_of_images_is_resized_to_one_batch(compiled, monkeypatch):
    """All images are resized to one shape, so JAX compiles the step once."""
    images, seen = [IMAGES[0], np.repeat(IMAGES[1], 3, 0), IMAGES[2][:5]], []
    call = type(compiled.preprocessor).call
    alone = [compiled.predict(image[None], verbose=0)[0] for image in images]

    def watched(self, inputs):
        seen.append(tuple(inputs.shape[1:]))
        return call(self, inputs)

    monkeypatch.setattr(type(compiled.preprocessor), "call", watched)
    model = type(compiled).from_config(compiled.get_config())
    model.set_weights(compiled.get_weights())
    del seen[:]
    outputs = model.predict(images, verbose=0)
    one = model.predict_on_batch([images[1]])
    assert set(seen) == {(8, 8, 3)}
    assert_close(one, alone[1][None], kind="model")
    assert_close(outputs, np.stack(alone), kind="model")
    assert_close(keras.ops.convert_to_numpy(model(images)), np.stack(alone), kind="model")


@pytest.mark.parametrize("name", ["LRATransformer", "CSPMEGA"])
def test_pixel_models_classify_lists(name):
    model = tiny(name, vocabulary_size=256, image_size=4)
    images = [IMAGES[0, :4, :4, :1], *IMAGES[1:3, ..., :1]]
    assert_classified(model, images)
    assert_classified(model, images[:1])


def test_gray_images_of_several_sizes():
    model = tiny(channels=1, mean=[0.5], std=[0.5])
    images = [IMAGES[0, ..., 0], IMAGES[1, :5, :, 0]]
    single = np.concatenate([model.predict(image[None, ..., None], verbose=0) for image in images])
    assert_close(model.predict(images, verbose=0), single, kind="model")


def nested(model):
    """Build a custom model that contains another model."""
    x = keras.Input((8, 8, 3))
    return keras.Model(x, keras.layers.Dense(2)(model(x)))


@pytest.mark.parametrize(
    "called",
    [lambda model: model, lambda model: model.backbone, nested],
    ids=["model", "backbone", "nested"],
)
def test_first_tensor_is_checked(called):
    scaled, wide = (
        keras.ops.convert_to_tensor(x, "float32") for x in (SCALED["0–1"], 257.0 * IMAGES)
    )
    outer = called(tiny())
    with pytest.warns(UserWarning, match="0–255, but seems to be scaled already"):
        outer(scaled)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "`x` must contain images")
        outer(scaled)
    with pytest.raises(ValueError, match="`x` must contain images of 0–255.*from 0 to 6"):
        called(tiny())(wide)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([1, 2], r"`images` must have the shape.*images.shape=\(2,\)"),
        ([], r"`x` must not be empty. Received: x=\[\]"),
        (Path("cat.png"), "read_image.*Received"),
        ([Path("cat.png")], "read_image.*Received"),
    ],
)
def test_lists_of_other_values_raise(x, message, compiled):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        compiled.predict(x)


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # Keras warns for all generators
def test_generator_keeps_all_batches(compiled):
    batches = [(IMAGES[:1],), (IMAGES[1:3],), (IMAGES[3:],)]
    expected = to_numpy(compiled(IMAGES))
    assert_close(compiled.predict((batch for batch in batches), verbose=0, steps=3), expected)


def test_generator_resumes_after_predict(compiled):
    def forever():
        while True:
            yield (IMAGES[:2],)

    batches = forever()
    for _ in range(2):
        assert len(compiled.predict(batches, verbose=0, steps=1)) == 2


def test_compiled_functions_accept_tensors(compiled):
    """The range of tensors is not checked while tracing, when they have no values."""
    features = quick(lambda x: compiled.features(x, layers=[-1])[0])
    expected = to_numpy(compiled.features(IMAGES, layers=[-1])[0])
    assert_close(to_numpy(features(keras.ops.convert_to_tensor(IMAGES, "float32"))), expected)


def test_gray_images_without_channel_axis():
    """The channel axis is optional in any batch; a single image still needs a batch axis.

    Without a fixed rank, TensorFlow would compile a step of unknown rank, which Keras rejects.
    """
    model = tiny(channels=1, mean=(0.5,), std=(0.5,))
    gray = IMAGES[..., 0]
    answers = to_numpy(model(gray[..., None]))
    for images in (gray, gray[..., None], keras.ops.convert_to_tensor(gray), gray):
        assert_close(model.predict(images, verbose=0), answers)
        assert_close(to_numpy(model(images)), answers)
    for way in (model, model.predict, model.classify, model.features):
        with pytest.raises(ValueError, match=r"`images` must have the shape .*=\(8, 8, 1\)"):
            way(gray[0][..., None])


def test_predict_checks_tensors(compiled):
    with pytest.raises(ValueError, match="0–255"):
        compiled.predict(keras.ops.convert_to_tensor(1000.0 * IMAGES), verbose=0)
    model = tiny("LRATransformer")
    inputs = model.make_inputs(0, 2)
    tokens = keras.ops.convert_to_tensor(np.full_like(inputs["tokens"], 10_000))
    with pytest.raises(ValueError, match=r"`tokens` must be integers in .0, 20.*to 10000,"):
        model.predict({**inputs, "tokens": tokens}, verbose=0)


@pytest.mark.parametrize(
    "images",
    [IMAGES, IMAGES.astype("float16"), IMAGES.astype("int64"), 0.0 * IMAGES,
     IMAGES * 1.2 - 20, IMAGES % 3],
    ids=["uint8", "float16", "int64", "black", "overshoot", "dark"],
)  # fmt: skip
def test_images_in_range_are_accepted(images, compiled):
    compiled.predict(images, verbose=0)


@pytest.mark.parametrize(
    "images",
    [-70.0 + IMAGES, 70.0 + IMAGES, np.where(IMAGES == 7, np.nan, IMAGES), WIDE,
     IMAGES.astype("int32") - 5, IMAGES.astype("int64") + 5],
)  # fmt: skip
def test_images_out_of_range_raise(images):
    with pytest.raises(ValueError, match="Received: x from "):
        check_image_range(np.clip(images, -65, 70000))


def test_range_check_samples_few_images():
    """The sample is spread over all images."""

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
