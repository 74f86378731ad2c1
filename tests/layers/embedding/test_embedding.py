"""Test image preprocessing, patch embedding and position embedding."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_permix.layers import ImagePreprocessor, PatchEmbedding, PositionEmbedding
from tests.backends import compiled
from tests.harness import assert_close, functional, load_golden, to_numpy
from tests.oracle import butterfly as oracle

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(2, 6, 9, 4)).astype("float32")
TOKENS = RNG.normal(size=(2, 5, 8)).astype("float32")
STATISTICS = dict(mean=(0.1, 0.2, 0.3, 0.4), std=(0.5, 0.6, 0.7, 0.8))

LAYERS = {
    "preprocessor": (partial(ImagePreprocessor, 6, **STATISTICS), IMAGES),
    "preprocessor with aligned corners": (
        partial(ImagePreprocessor, 7, align_corners=True, **STATISTICS),
        IMAGES,
    ),
    "patches": (partial(PatchEmbedding, 3, 8), IMAGES),
    "positions": (partial(PositionEmbedding), TOKENS),
    "class token": (partial(PositionEmbedding, use_class_token=True), TOKENS),
    "class token with max_tokens": (
        partial(PositionEmbedding, use_class_token=True, max_tokens=7),
        TOKENS,
    ),
    "unused class token": (partial(PositionEmbedding, keep_unused=True), TOKENS),
}


def test_patches_match_numpy():
    layer = PatchEmbedding(3, 8)
    outputs = to_numpy(layer(IMAGES))
    kernel, bias = (to_numpy(weight) for weight in layer.weights)
    assert_close(outputs, oracle.patches(IMAGES.astype("float64"), 3) @ kernel + bias)


def aligned(images, size):
    channels = images.shape[-1]
    layer = ImagePreprocessor(size, [0] * channels, [1 / 255] * channels, align_corners=True)
    return functional(layer, (None, None, channels)).predict(images, verbose=0)


# The layer warns about images with small pixel values.
any_range = pytest.mark.filterwarnings("ignore:`x` must contain images of 0–255, but seems")


@any_range
def test_aligned_corners_match_authors():
    golden = load_golden("mixers")
    assert_close(aligned(golden["resize_in"], 5), golden["resize_out"])


@any_range
def test_resize_with_aligned_corners():
    """Enlarging interpolates. Shrinking averages the pixels on both sides and skips no pixel."""
    positions = [np.linspace(0, side - 1, 11) for side in IMAGES.shape[1:3]]
    rows, columns = (partial(np.interp, x, range(int(x[-1]) + 1)) for x in positions)
    wanted = np.apply_along_axis(columns, 2, np.apply_along_axis(rows, 1, IMAGES))
    assert_close(aligned(IMAGES, 11), wanted)
    step = np.zeros((1, 9, 9, 1))
    step[:, 4:] = 100
    middle = [0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25]  # weights of the pixels 1 to 7
    assert_close(aligned(step, 3)[0, :, 0, 0], [0, 100 * sum(middle[3:]) / sum(middle), 100])


@pytest.fixture(params=["channels_last", "channels_first"])
def data_format(request):
    """Set Keras' default data format, which the layers of this package ignore."""
    before = keras.config.image_data_format()
    keras.config.set_image_data_format(request.param)
    yield
    keras.config.set_image_data_format(before)


@pytest.mark.usefixtures("data_format")
@pytest.mark.parametrize("size", [5, 16, 23])
def test_eager_and_compiled_resize_match_pillow(size):
    """XLA must support all operations of a step that Keras compiles."""
    image = pytest.importorskip("PIL.Image")
    images = RNG.integers(0, 256, (2, 16, 37, 3)).astype("float32")
    planes = np.moveaxis(images, 3, 1).reshape(-1, 16, 37)
    small = [image.fromarray(x).resize((size, size), image.Resampling.BILINEAR) for x in planes]
    wanted = np.moveaxis(np.reshape(small, (2, 3, size, size)), 1, 3)
    layer = ImagePreprocessor(size, [0.0] * 3, [1.0] * 3)
    x = keras.ops.convert_to_tensor(images)
    assert_close(to_numpy(layer(x)), wanted / 255)
    if keras.config.backend() != "torch":
        assert_close(to_numpy(compiled(layer)(x)), wanted / 255)


def test_fewer_tokens_use_first_positions():
    model = functional(PositionEmbedding(max_tokens=7), (None, 8))
    (table,) = map(to_numpy, model.weights)
    assert table.shape == (1, 7, 8)
    for count in (5, 3):
        tokens = TOKENS[:, :count]
        assert_close(model.predict(tokens, verbose=0), tokens + table[:, :count])


@pytest.mark.parametrize(
    ("arguments", "built_on"),
    [
        (dict(), 1),
        (dict(max_tokens=4), 3),
        (dict(max_tokens=4, keep_unused=True), 4),
        (dict(max_tokens=4, use_class_token=True), 4),
    ],
)
def test_more_tokens_than_positions_raise(arguments, built_on):
    layer = PositionEmbedding(**arguments)
    layer.build((2, built_on, 8))
    with pytest.raises(ValueError, match=r"a position for every token.*positions=\d, tokens=5"):
        layer(TOKENS)
    if arguments and keras.config.backend() == "tensorflow":
        model = functional(layer, (None, 8))
        model.predict(TOKENS[:, :2], verbose=0)
        model.predict(TOKENS[:, :3], verbose=0)  # from now on, traced for any number
        with pytest.raises(Exception, match="a position for every token"):
            model.predict(TOKENS, verbose=0)


@pytest.mark.parametrize("class_token", [False, True])
def test_positions_keep_the_mask(class_token):
    mask = np.arange(5) < np.array([[5], [3]])
    outputs = PositionEmbedding(class_token)(keras.layers.Masking()(TOKENS * mask[..., None]))
    wanted = np.pad(mask, [(0, 0), (int(class_token), 0)], constant_values=True)
    np.testing.assert_array_equal(to_numpy(outputs._keras_mask), wanted)


@pytest.mark.parametrize("class_token", [False, True])
@pytest.mark.parametrize("keep_unused", [False, True])
def test_positions_are_added(class_token, keep_unused):
    layer = PositionEmbedding(class_token, keep_unused)
    layer.build(TOKENS.shape)
    assert layer.table.shape == (1, 5 + (class_token or keep_unused), 8)
    wanted, table = TOKENS, to_numpy(layer.table)
    if class_token:
        first = np.broadcast_to(to_numpy(layer.class_token), (2, 1, 8))
        wanted = np.concatenate([first, TOKENS], axis=1)
    assert_close(to_numpy(layer(TOKENS)), wanted + table[:, : wanted.shape[1]])


def test_output_shape_for_unknown_number_of_tokens():
    layer = PositionEmbedding(use_class_token=True)
    assert layer.compute_output_shape((None, None, 8)) == (None, None, 8)
    assert layer.compute_output_shape((None, 6, 8)) == (None, 7, 8)


@any_range
@pytest.mark.parametrize("name", LAYERS)
def test_layer_basics(name, tmp_path):
    make, inputs = LAYERS[name]
    layer = make()
    outputs = to_numpy(layer(inputs))
    assert layer.compute_output_shape(inputs.shape) == outputs.shape
    model = functional(layer, inputs.shape[1:])
    assert model.output_shape == (None, *outputs.shape[1:])
    assert_close(model.predict(inputs[:1], verbose=0), outputs[:1])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(to_numpy(loaded(inputs)), outputs)
    for dtype in ("float16", "bfloat16"):
        low = make(dtype=f"mixed_{dtype}")
        low.build(inputs.shape)
        low.set_weights(layer.get_weights())
        low_outputs = low(inputs)
        assert keras.backend.standardize_dtype(low_outputs.dtype) == dtype
        assert_close(to_numpy(low_outputs), outputs, dtype=dtype)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ImagePreprocessor(0, (1,), (1,)), "`image_size` must be a positive.*image_size=0"),
        (lambda: ImagePreprocessor(4, (1,), (1, 2)), r"`std` must contain.*\(1, 2\), channels=1"),
        (
            lambda: ImagePreprocessor(4, 0.5, 0.5),
            "`mean` must contain one finite value per channel.*=0.5",
        ),
        (lambda: ImagePreprocessor(4, (1,), (0,)), "`std` must be a positive number.*std=0.0"),
        (
            lambda: ImagePreprocessor(4, **STATISTICS)(IMAGES[:, :, :0]),
            r"`images` must not be empty.*\(2, 6, 0, 4\)",
        ),
        (
            lambda: ImagePreprocessor(4, (0, 0, 0), (1, 1, 1))(IMAGES[..., :1]),
            r"`images` must have.* 3\).*\(2, 6, 9, 1\)",
        ),
        (lambda: PatchEmbedding(0, 8), "`patch_size` must be a positive integer.*patch_size=0"),
        (lambda: PatchEmbedding(3, 0), "`hidden_dim` must be a positive integer.*hidden_dim=0"),
        (lambda: PatchEmbedding(4, 8)(IMAGES), "sides that 4 divides. Received: input_shape="),
        (lambda: PatchEmbedding(5, 8)(keras.Input((32, 32, 3))), "sides that 5 divides.*32, 32, 3"),
        (lambda: PatchEmbedding(4, 8)(keras.Input((32, 32, None))), "must have channels.*None\\)"),
        (lambda: PatchEmbedding(4, 8)(keras.Input((28, 28))), "expected ndim=4, found ndim=3"),
        (lambda: PositionEmbedding()(IMAGES), r"must have the shape.*\(2, 6, 9, 4\)"),
        (lambda: PositionEmbedding().build((2, None, 8)), "`max_tokens` must be set.*None"),
        (lambda: PositionEmbedding(max_tokens=0), "`max_tokens` must be .* or None.*0"),
    ],
)
def test_invalid_argument_raises(call, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()
