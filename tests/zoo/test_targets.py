"""Test checks of targets: invalid targets raise before a training step."""

import keras
import numpy as np
import pytest

from keras_permix.data import Pipeline
from tests.harness import assert_close
from tests.zoo.models import tiny

pytestmark = pytest.mark.once  # Except for tensors, checks do not use the backend.

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), "uint8")
LABELS = np.array([0, 1, 2, 0])
SPARSE = keras.losses.SparseCategoricalCrossentropy


class Batch(keras.utils.PyDataset):
    def __init__(self, y):
        super().__init__()
        self.y = y

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return IMAGES, self.y


WAYS = {
    "fit": lambda model, y: model.fit(IMAGES, y, verbose=0),
    "tensor": lambda model, y: model.fit(
        IMAGES, keras.ops.convert_to_tensor(y), batch_size=4, verbose=0
    ),
    "evaluate": lambda model, y: model.evaluate(IMAGES, y, verbose=0),
    "train_on_batch": lambda model, y: model.train_on_batch(IMAGES, y),
    "test_on_batch": lambda model, y: model.test_on_batch(IMAGES, y),
    "validation": lambda model, y: model.fit(
        IMAGES, LABELS, validation_data=(IMAGES, y), verbose=0
    ),
}


@pytest.fixture(scope="module")
def compiled():
    model = tiny(num_classes=3)
    model.compile("sgd", SPARSE(from_logits=True), metrics=["accuracy"])
    return model


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("y", [[0, 1, 2, 3], [0, 1, 2, -1]])
def test_classes_out_of_range_raise(way, y, compiled):
    before = [np.array(weight) for weight in compiled.get_weights()]
    message = rf"`y` must contain classes from 0 to 2.*Received: y\[3\]={y[3]}$"
    with pytest.raises(ValueError, match=message):
        WAYS[way](compiled, np.array(y))
    for weight, old in zip(compiled.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)


@pytest.mark.parametrize("way", ["fit", "evaluate", "train_on_batch", "validation"])
def test_lists_of_classes_are_checked(way, compiled):
    WAYS[way](compiled, LABELS.tolist())
    with pytest.raises(ValueError, match="`y` must be an array of numbers.*'cat'"):
        WAYS[way](compiled, ["cat", "dog", "cat", "cat"])


def test_lists_match_arrays(compiled):
    expected = compiled.evaluate(IMAGES, LABELS, verbose=0)
    assert compiled.evaluate(IMAGES, LABELS.tolist(), verbose=0) == expected


@pytest.mark.everywhere
@pytest.mark.parametrize("way", ["fit", "tensor", "validation", "train_on_batch"])
def test_target_shape_must_match_loss(way, compiled):
    """On JAX, the model would lose its weights if a step failed."""
    with pytest.raises(ValueError, match=r"`y` must be \(samples,\) .*y.shape=\(4, 3\)"):
        WAYS[way](compiled, np.eye(3)[LABELS])
    model = tiny(num_classes=3)
    model.compile("sgd", SPARSE(from_logits=True))  # A compiled step accepts only one rank.
    model.fit(IMAGES, LABELS[:, None], verbose=0)
    model.compile("sgd", keras.losses.CategoricalCrossentropy(from_logits=True))
    with pytest.raises(ValueError, match=r"`y` must be \(samples, 3\) .*y.shape=\(4,\)"):
        model.fit(IMAGES, LABELS, verbose=0)
    model.fit(IMAGES, np.eye(3)[LABELS], verbose=0)


@pytest.mark.parametrize(
    ("loss", "y"),
    [
        ("sparse_categorical_crossentropy", LABELS),
        (SPARSE(), LABELS),
        ("categorical_crossentropy", np.eye(3)[LABELS]),
    ],
)
def test_loss_of_probabilities_warns_once(loss, y):
    model = tiny(num_classes=3)
    model.compile("sgd", loss)
    message = r"outputs logits.*`keras.losses.\w*CategoricalCrossentropy\(from_logits=True\)`"
    with pytest.warns(UserWarning, match=message) as caught:
        model.fit(IMAGES, y, verbose=0)
    assert [w.filename for w in caught if "logits" in str(w.message)] == [__file__]
    model.fit(IMAGES, y, verbose=0)


def test_targets_of_no_sample_raise():
    model = tiny("Graphormer", targets=1, mean=0.0)
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"ambiguous(?s:.*)4(?s:.*)0"):
        model.fit(model.make_inputs(0, 4), np.zeros((0, 1)), verbose=0)


def test_missing_targets_raise(compiled):
    with pytest.raises(ValueError, match="`y` must be an array.* y=None"):
        compiled.fit(IMAGES)


NUMBERS = np.arange(12, dtype="float32").reshape(4, 3)


def changed(index, value):
    y = NUMBERS.copy()
    y[index] = value
    return y


@pytest.mark.parametrize("way", ["fit", "tensor", "evaluate", "train_on_batch", "validation"])
@pytest.mark.parametrize("name", ["Graphormer", "SliceGraphormer"])
def test_invalid_regression_targets_raise(way, name):
    """Keras accepts NaN and broadcasts narrow targets, which would spoil the weights."""
    model = tiny(name)
    model.compile("sgd", keras.losses.MeanAbsoluteError())
    x, before = model.make_inputs(0, 4), model.get_weights()
    ways = {
        "fit": lambda y: model.fit(x, y, verbose=0),
        "tensor": lambda y: model.fit(x, keras.ops.convert_to_tensor(y), verbose=0),
        "evaluate": lambda y: model.evaluate(x, y, verbose=0),
        "train_on_batch": lambda y: model.train_on_batch(x, y),
        "validation": lambda y: model.fit(x, NUMBERS, validation_data=(x, y), verbose=0),
    }
    for wrong in (NUMBERS[:, :1], NUMBERS[:, 0], NUMBERS[:, :, None], np.ones((4, 4), "float32")):
        with pytest.raises(ValueError, match=r"`y` must be \(samples, 3\) .*y.shape=\(4"):
            ways[way](wrong)
    for value in (np.nan, np.inf, -np.inf):
        with pytest.raises(ValueError, match=rf"`y` must contain finite .*y\[2\]=.* {value} "):
            ways[way](changed((2, 1), value))
    for weight, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)


@pytest.mark.parametrize(
    "loss", ["mse", "huber", "log_cosh", keras.losses.mean_absolute_error, {"head": "mse"}]
)
def test_regression_losses_check_target_shape(loss):
    model = tiny("Graphormer", targets=1, mean=0.0)
    loss = {model.output_names[0]: loss["head"]} if isinstance(loss, dict) else loss
    x = model.make_inputs(0, 4)
    for right in (NUMBERS[:, 0], NUMBERS[:, :1], NUMBERS[:, 0].tolist()):
        model.compile("sgd", loss)  # on TensorFlow, a step accepts only one of the shapes
        model.evaluate(x, right, verbose=0)
    with pytest.raises(ValueError, match=r"`y` must be \(samples,.*y.shape=\(4, 3\)"):
        model.evaluate(x, NUMBERS, verbose=0)


def test_custom_loss_accepts_nan():
    def masked_error(y, y_pred):
        return keras.ops.where(keras.ops.isnan(y), 0.0, abs(y - y_pred))

    model = tiny("Graphormer")
    model.compile("sgd", masked_error)
    assert np.isfinite(model.evaluate(model.make_inputs(0, 4), changed((2, 1), np.nan), verbose=0))


@pytest.mark.parametrize("loss", ["mse", "mae"])
def test_classifier_with_regression_loss(loss):
    model = tiny(num_classes=3)
    model.compile("sgd", loss)
    model.fit(IMAGES, 7.0 * np.eye(3)[LABELS], verbose=0)
    model.fit(IMAGES, (7.0 * np.eye(3)[LABELS]).tolist(), verbose=0)


def test_ignore_class():
    model = tiny(num_classes=3)
    model.compile("sgd", SPARSE(from_logits=True, ignore_class=-1))
    model.fit(IMAGES, np.array([0, 1, 2, -1]), verbose=0)
    with pytest.raises(ValueError, match=r"from 0 to 2.* y\[2\]=3"):
        model.fit(IMAGES, np.array([0, 1, 3, -1]), verbose=0)


def test_pipeline_and_model_without_loss(compiled):
    compiled.fit(Pipeline(IMAGES, LABELS, batch_size=2), verbose=0)
    model = tiny(num_classes=3)
    model.compile()
    model.predict(IMAGES, verbose=0)


def test_predict_ignores_targets(compiled):
    answers = compiled.predict(IMAGES, verbose=0)
    unknown = np.full(4, -1)
    assert_close(compiled.predict(Batch(unknown), verbose=0), answers)
    given = ((IMAGES, unknown) for _ in range(1))
    assert compiled.predict(given, verbose=0, steps=1).shape == answers.shape


def test_custom_compute_loss_needs_no_targets():
    class CustomLoss(type(tiny())):
        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            return keras.ops.mean(y_pred**2)

    model = CustomLoss.from_config({**tiny(num_classes=3).get_config()})
    model.compile("sgd", SPARSE(from_logits=True))
    model.fit(IMAGES, verbose=0)
    model.fit(IMAGES, np.full(4, 9), verbose=0)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array(["cat", "dog", "cat", "cat"], object), "`y` must be an array of numbers"),
        ([[0], [1, 2], [0], [1]], r"`y` must be an array of numbers.*\[1, 2\]"),
        ([0, 0.5, 2, 1], r"`y` must contain classes.*Received: y\[1\]=0.5"),
    ],
)
def test_targets_other_than_class_indices_raise(y, message, compiled):
    with pytest.raises(ValueError, match=message):
        compiled.fit(IMAGES, y, verbose=0)


def test_loss_of_one_class_for_several_labels_raises():
    model = tiny(num_classes=3, predicts="labels")
    model.compile("sgd", SPARSE(from_logits=True))
    with pytest.raises(ValueError, match="BinaryCrossentropy.* Received: loss=SparseCategorical"):
        model.fit(IMAGES, LABELS, verbose=0)


@pytest.mark.parametrize(
    "loss",
    [
        SPARSE(from_logits=True, name="ce"),
        ["sparse_categorical_crossentropy"],
        keras.losses.sparse_categorical_crossentropy,
        "SparseCategoricalCrossentropy",
    ],
)
@pytest.mark.filterwarnings("ignore:The model outputs logits")
def test_crossentropy_losses_check_classes(loss):
    model = tiny(num_classes=3)
    model.compile("sgd", loss)
    with pytest.raises(ValueError, match="from 0 to 2"):
        model.fit(IMAGES, LABELS + 1, verbose=0)
