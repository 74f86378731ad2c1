"""Test classifiers: labels, `classify`, new heads, `preprocessor` and `backbone`."""

import io

import h5py
import keras
import numpy as np
import pytest

from keras_permix.data import read_image
from keras_permix.zoo import CSPViT, preset_info
from keras_permix.zoo.classifier import Classifier
from keras_permix.zoo.presets.load import weights_content
from keras_permix.zoo.registry import MODELS
from tests.harness import ROOT, assert_close, to_numpy
from tests.zoo.models import TINY, logits, tiny, weights

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), "uint8")
NAMES = ("red", "green", "blue")


def test_classify_returns_most_probable_labels():
    model = tiny(labels=NAMES)
    outputs = to_numpy(model(IMAGES)).astype("float64")
    probabilities = np.exp(outputs) / np.exp(outputs).sum(1, keepdims=True)
    answers = model.classify(IMAGES, top=2)
    assert [[label for label, _ in answer] for answer in answers] == [
        [NAMES[number] for number in np.argsort(-row)[:2]] for row in outputs
    ]
    found = [[probability for _, probability in answer] for answer in answers]
    assert_close(found, -np.sort(-probabilities)[:, :2])
    assert model.decode_predictions(outputs, top=1)[0][0][0] == answers[0][0][0]
    (numbers,) = tiny().decode_predictions([[0.0, 9.0, 5.0]])
    assert [label for label, _ in numbers] == ["1", "2", "0"]
    assert tiny().decode_predictions([[-np.inf, 0.0, -np.inf]], top=1) == [[("1", 1.0)]]


@pytest.mark.parametrize("labels", [["a", "b"], "abc", [1, 2, 3], 3])
def test_invalid_labels_raise(labels):
    with pytest.raises(ValueError, match="`labels` must contain one name per class.*for 3 outputs"):
        tiny(labels=labels)
    model = tiny()
    with pytest.raises(ValueError, match="`labels` must contain one name per class"):
        model.labels = labels


@pytest.mark.once
def test_duplicate_labels_raise():
    with pytest.raises(ValueError, match="`labels` must be unique.*Received: .'a'. more than once"):
        tiny(labels=["a", "b", "a"])


def test_labels_are_saved_until_head_changes(tmp_path):
    model = tiny()
    model.labels = list(NAMES)
    model.save(tmp_path / "model.keras")
    assert keras.saving.load_model(tmp_path / "model.keras").labels == NAMES
    model.save_to_preset(tmp_path / "preset")
    assert preset_info(tmp_path / "preset").metadata["labels"] == list(NAMES)

    def loaded(**changes):
        return CSPViT.from_preset(tmp_path / "preset", **changes).labels

    assert loaded() == loaded(num_classes=3) == loaded(image_size=12) == NAMES
    assert loaded(num_classes=5) is None
    assert loaded(num_classes=2, labels=["cat", "dog"]) == ("cat", "dog")
    assert loaded(labels=["a", "b", "c"]) == ("a", "b", "c")
    assert loaded(labels=np.array(["cat", "dog"])) == ("cat", "dog")
    CSPViT.from_preset(tmp_path / "preset", num_classes=2).save_to_preset(tmp_path / "preset")
    assert loaded() is None


@pytest.mark.parametrize("classes", [3, 5])
def test_reset_classifier_replaces_only_the_head(classes):
    model = tiny(labels=NAMES)
    model.get_layer("block_0").mlp_in.trainable = False
    names = [f"class {number}" for number in range(classes)]
    fresh = model.reset_classifier(classes, labels=names)
    before, after = weights(model), weights(fresh)
    assert type(fresh) is CSPViT and fresh.labels == tuple(names)
    assert after["head/kernel"].shape == (8, classes)
    assert not after["head/kernel"].any() and not after["head/bias"].any()
    for path in set(before) - {"head/kernel", "head/bias"}:
        np.testing.assert_array_equal(after[path], before[path])
    trained = [weight.path for weight in fresh.trainable_weights]
    assert trained == [weight.path for weight in model.trainable_weights]
    assert "block_0/mlp_in/kernel" not in trained
    assert model.labels == NAMES and model.reset_classifier(3).labels is None


def test_preprocessor_and_backbone_attributes():
    model = tiny()
    expected, count = logits(model), len(model.weights)
    assert model.preprocessor is model.get_layer("preprocessor")
    tokens = to_numpy(model.backbone(IMAGES))
    np.testing.assert_array_equal(tokens, to_numpy(model.features(IMAGES, layers=[-1])[0]))
    model.backbone.trainable = False
    trained = [weight.path for weight in model.trainable_weights]
    assert trained == ["head_norm/gamma", "head_norm/beta", "head/kernel", "head/bias"]
    assert len(model.weights) == count
    np.testing.assert_array_equal(logits(model), expected)


def test_backbone_can_be_extended():
    model = tiny()
    tokens = to_numpy(model.features(IMAGES, layers=[-1])[0])
    pooled = keras.layers.GlobalMaxPooling1D()(model.backbone.output)
    ours = keras.Model(model.input, pooled)
    again = keras.Sequential([model.backbone, keras.layers.GlobalMaxPooling1D()])
    for extended in (ours, again):
        np.testing.assert_array_equal(to_numpy(extended(IMAGES)), tokens.max(axis=1))


def test_backbone_is_not_saved_twice():
    model = tiny()
    model.features(IMAGES)
    assert model.backbone.output_shape == (None, 16, 8)
    with h5py.File(io.BytesIO(weights_content(model))) as file:
        assert set(file) == {"layers", "vars"}


def test_classify_example_images():
    names = ("airplane", "automobile", "cat", "frog", "ship", "truck")
    images = np.stack([read_image(ROOT / f"examples/images/{name}.png") for name in names])
    answers = CSPViT.from_preset("cifar10_small").classify(images, top=1)
    assert [label for ((label, probability),) in answers if probability > 0.5] == list(names)


def test_classify_with_one_output_raises():
    """The softmax of a single logit is always 1."""
    model = tiny(labels=NAMES).reset_classifier(1, labels=["cat"])
    assert model.predict(IMAGES, verbose=0).shape == (3, 1)
    for call in (lambda: model.classify(IMAGES), lambda: model.decode_predictions([[0.5]])):
        with pytest.raises(ValueError, match="at least 2 classes.*num_classes=1"):
            call()


CLASSIFIERS = [name for name in TINY if issubclass(MODELS[name], Classifier)]


@pytest.mark.once
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_labels_set_number_of_outputs(name):
    config = {key: value for key, value in TINY[name].items() if key != "num_classes"}
    cls = MODELS[name]
    assert cls(**config, labels=["a", "b", "c", "d"]).get_config()["num_classes"] == 4
    assert cls(**config, labels=np.array(["a", "b", "c", "d"])).output_shape[-1] == 4
    assert cls(**config).output_shape == (None, cls.default_classes)
    with pytest.raises(ValueError, match="2 labels for 3 outputs"):
        cls(**config, num_classes=3, labels=["a", "b"])
    model = cls(
        **config, predicts="values", target_mean=[1.0, -2.0], target_std=3.0, labels=["u", "v"]
    )
    assert model.task.endswith("_regression") and model.output_shape == (None, 2)
    plain = cls(**config, labels=["u", "v"])
    plain.set_weights(model.get_weights())
    inputs = model.make_inputs(0, 2)
    expected = to_numpy(plain(inputs, training=False)) * 3 + [1, -2]
    assert_close(to_numpy(model(inputs, training=False)), expected)
    assert cls.from_config(model.get_config()).get_config()["target_mean"] == [1.0, -2.0]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (dict(predicts="tags"), "`predicts` must be one of .*'values'.*predicts='tags'"),
        (
            dict(target_mean=1.0),
            "`target_std` require predicts='values'. Received: predicts='class'",
        ),
        (
            dict(predicts="values", target_std=0.0),
            "`target_std` must be positive. .*target_std=0.0",
        ),
        (dict(predicts="values", target_mean=[1.0, 2.0]), "one finite value per target.*targets=3"),
    ],
)
def test_invalid_output_arguments_raise(arguments, rule):
    with pytest.raises(ValueError, match=rule):
        tiny(**arguments)


def test_changed_outputs_get_a_new_head(tmp_path):
    tiny(labels=NAMES).save_to_preset(tmp_path / "classes")
    model = CSPViT.from_preset(tmp_path / "classes", predicts="labels")
    assert model.labels is None and model.output_shape == (None, 3)
    np.testing.assert_array_equal(to_numpy(model(IMAGES)), np.zeros((3, 3)))
    assert CSPViT.from_preset(tmp_path / "classes", predicts="values").output_shape == (None, 1)
    values = tiny(predicts="values", target_mean=[1.0, 2.0, 3.0], labels=NAMES)
    values.save_to_preset(tmp_path / "values")
    again = CSPViT.from_preset(tmp_path / "values")
    np.testing.assert_array_equal(to_numpy(again(IMAGES)), to_numpy(values(IMAGES)))
    other = CSPViT.from_preset(tmp_path / "values", labels=["age", "size"])
    assert (other.task, other.get_config()["target_mean"]) == ("image_regression", 0.0)
    back = CSPViT.from_preset(tmp_path / "values", predicts="class", labels=["a", "b"])
    assert back.task == "image_classification" and "target_mean" not in back.get_config()


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ((np.zeros((1, 4)),), r"logits \(batch, 3\).*shape \(1, 4\)"),
        ((np.zeros((1, 3)), 0), "`top` must be a positive integer. Received: top=0"),
        ((np.zeros((1, 3)), 1.5), "`top` must be a positive integer. Received: top=1.5"),
        *(
            (([[0, 0, 0], row],), "(?s)must be finite logits.*shape .2, 3")
            for row in ([0, np.nan, 0], [np.inf, 0, 1], [np.inf, np.nan, 0], [-np.inf] * 3)
        ),
    ],
)
def test_decode_predictions_with_invalid_arguments_raises(arguments, rule):
    with pytest.raises(ValueError, match=rule):
        tiny().decode_predictions(*arguments)
