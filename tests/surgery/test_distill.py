"""Test distillation: the student approaches the teacher, and the teacher does not change."""

import keras
import numpy as np
import pytest

from keras_permix import distill, swap_mixer
from tests.harness import assert_close, to_numpy
from tests.surgery.models import CustomModel
from tests.zoo.models import tiny, weights

FAST = dict(epochs=20, verbose=0)


def adam():
    return keras.optimizers.Adam(1e-2)


def pair(name="ViT"):
    """Return a student and a teacher with attention."""
    if name == "SimpleTRON":
        teacher = tiny(name, variant="softmax", dropout=0.0, use_class_token=False)
        return teacher.with_variant("simple_l"), teacher
    teacher = tiny(name, labels=["a", "b", "c"])
    return swap_mixer(teacher, "slice_sort" if name == "Graphormer" else "csp"), teacher


def functional(channels=8, layers=2):
    """Build a custom model with a dict of inputs."""
    inputs = {"tokens": keras.Input((6,), name="tokens"), "more": keras.Input((6,), name="more")}
    x = keras.layers.Dense(channels, name="first")(inputs["tokens"])
    for index in range(layers):
        x = keras.layers.Dense(channels, activation="tanh", name=f"hidden_{index}")(x)
    x = keras.layers.Concatenate()([x, inputs["more"]])
    return keras.Model(inputs, keras.layers.Dense(3, name="out")(x))


def functional_inputs(samples=32):
    rng = np.random.default_rng(0)
    return {key: rng.normal(size=(samples, 6)).astype("float32") for key in ("tokens", "more")}


def state_error(student, teacher, inputs):
    """Return the mean squared error of the hidden states, without padding."""
    real = inputs["mask"] if isinstance(inputs, dict) and "mask" in inputs else Ellipsis
    pairs = zip(student.features(inputs), teacher.features(inputs), strict=True)
    return np.mean([((to_numpy(s) - to_numpy(t))[real] ** 2).mean() for s, t in pairs])


def output_error(student, teacher, inputs):
    given = (model.predict(inputs, verbose=0) for model in (student, teacher))
    probabilities = [np.exp(each) / np.exp(each).sum(-1, keepdims=True) for each in given]
    return np.abs(np.subtract(*probabilities)).mean()


@pytest.mark.parametrize("name", ["ViT", "SimpleTRON"])
@pytest.mark.everywhere
def test_states_and_outputs_approach_teacher(name):
    student, teacher = pair(name)
    teacher.get_layer("block_0").trainable = False
    before, trainable = weights(teacher), [weight.trainable for weight in teacher.weights]
    inputs = teacher.make_inputs(0, 32)
    errors = state_error(student, teacher, inputs), output_error(student, teacher, inputs)
    given = distill(student, teacher, inputs, optimizer=adam(), **FAST)
    assert given is student
    assert state_error(student, teacher, inputs) < errors[0] / 2
    assert output_error(student, teacher, inputs) < errors[1] / 1.5
    after = weights(teacher)
    assert all(np.array_equal(before[path], after[path]) for path in before)
    assert [weight.trainable for weight in teacher.weights] == trainable
    assert not teacher.get_layer("block_0").trainable and teacher.get_layer("block_1").trainable


def test_distilled_student_can_be_saved(tmp_path):
    student, teacher = pair()
    student.get_layer("block_0").trainable = False
    frozen = [to_numpy(weight) for weight in student.get_layer("block_0").weights]
    inputs = teacher.make_inputs(0, 32)
    distill(student, teacher, inputs, epochs=1, verbose=0)
    for weight, value in zip(student.get_layer("block_0").weights, frozen, strict=True):
        assert np.array_equal(weight, value) and not weight.trainable
    assert student.labels == ("a", "b", "c") and not student.compiled
    assert student.preprocessor.get_config() == teacher.preprocessor.get_config()
    student.save(tmp_path / "student.keras")
    loaded = keras.saving.load_model(tmp_path / "student.keras")
    outputs = [model.predict(inputs, verbose=0) for model in (student, loaded)]
    np.testing.assert_array_equal(*outputs)


def test_loss_ignores_padding():
    student, teacher = pair("SimpleTRON")
    inputs = teacher.encode(["a", "b c"])
    seen = []
    for tokens in (inputs["tokens"], np.where(inputs["mask"], inputs["tokens"], 7)):
        log = keras.callbacks.LambdaCallback(on_epoch_end=lambda _, logs: seen.append(logs["loss"]))
        distill(student, teacher, {**inputs, "tokens": tokens}, logits=0.0, callbacks=[log],
                optimizer=keras.optimizers.SGD(0.0), verbose=0)  # fmt: skip
    assert seen[0] > 0
    assert_close(*seen)


@pytest.mark.parametrize("layers", ["hidden_1", ["first", "hidden_1"], {"hidden_0": "hidden_2"}])
def test_layers_of_custom_models(layers):
    keras.utils.set_random_seed(0)
    student, teacher = functional(), functional(layers=3)
    names = layers if isinstance(layers, dict) else {"hidden_1": "hidden_1"}
    inputs = functional_inputs()

    def error():
        states = [
            keras.Model(model.input, model.get_layer(name).output).predict(inputs, verbose=0)
            for ours, theirs in names.items()
            for model, name in ((student, ours), (teacher, theirs))
        ]
        return ((states[0] - states[1]) ** 2).mean()

    before = error()
    distill(
        student, teacher, inputs, layers=layers, logits=0.0, optimizer=adam(), epochs=30, verbose=0
    )
    assert error() < before / 3


def test_layer_that_is_a_model():
    keras.utils.set_random_seed(0)
    inputs = np.random.default_rng(0).normal(size=(32, 6)).astype("float32")

    def nested():
        x, within = keras.Input((6,)), keras.Input((6,))
        states = keras.layers.Dense(8, activation="tanh")(within)
        body = keras.Model(within, states, name="body")
        return keras.Model(x, keras.layers.Dense(3)(body(x)))

    student, teacher = nested(), nested()

    def error():
        bodies = (model.get_layer("body") for model in (student, teacher))
        states = (body.predict(inputs, verbose=0) for body in bodies)
        return (np.subtract(*states) ** 2).mean()

    before = error()
    distill(
        student, teacher, inputs, layers="body", logits=0.0, optimizer=adam(), epochs=60, verbose=0
    )
    assert error() < before / 3


def test_batches_and_labels():
    keras.utils.set_random_seed(0)
    student, teacher, inputs = functional(), functional(), functional_inputs()
    labels = np.arange(32) % 3

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            part = slice(16 * index, 16 * index + 16)
            return {key: value[part] for key, value in inputs.items()}, labels[part]

    arguments = dict(labels=0.9, epochs=40, verbose=0)
    distill(student, teacher, Batches(), optimizer=adam(), **arguments)
    assert (student.predict(inputs, verbose=0).argmax(1) == labels).mean() > 0.6  # chance: 0.33
    other = keras.models.clone_model(teacher)
    arguments = dict(arguments, layers="first", optimizer=adam())
    distill(other, teacher, inputs, np.eye(3)[labels], **arguments)
    assert (other.predict(inputs, verbose=0).argmax(1) == labels).mean() > 0.6  # chance: 0.33


@pytest.mark.everywhere
def test_tensorflow_datasets():
    data = pytest.importorskip("tensorflow").data.Dataset
    student, teacher = pair()
    inputs = teacher.make_inputs(0, 32)
    before = state_error(student, teacher, inputs)
    batches = data.from_tensor_slices(inputs).batch(16)
    distill(student, teacher, batches, optimizer=adam(), epochs=10, shuffle=False, verbose=0)
    assert state_error(student, teacher, inputs) < before / 2


def test_regression_and_subclassed_models():
    student, teacher = CustomModel(), CustomModel()
    inputs = np.random.default_rng(0).normal(size=(32, 8, 6)).astype("float32")
    for model in (student, teacher):
        model(inputs)

    def error():
        return np.abs(
            np.subtract(*(m.predict(inputs, verbose=0) for m in (student, teacher)))
        ).max()

    before = error()
    distill(student, teacher, inputs, temperature=None, optimizer=adam(), **FAST)
    assert error() < before / 2


def test_text_inputs():
    student, teacher = pair("SimpleTRON")
    inputs = teacher.encode(texts := ["a text", "other"] * 8)
    before = state_error(student, teacher, inputs)
    distill(student, teacher, texts, optimizer=adam(), **FAST)
    assert state_error(student, teacher, inputs) < before / 2


def test_batches_of_texts():
    student, teacher = pair("SimpleTRON")
    inputs = teacher.encode(texts := ["a text", "other"] * 8)

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return texts[8 * index : 8 * index + 8], np.zeros(8, "int32")

    before = state_error(student, teacher, inputs)
    student.compile(loss="sparse_categorical_crossentropy")  # which is not used
    held_out = (texts[:4], np.zeros(4, "int32"))
    distill(student, teacher, Batches(), validation_data=held_out, optimizer=adam(), **FAST)
    assert state_error(student, teacher, inputs) < before / 2


@pytest.mark.everywhere  # JAX donates the weights to a step.
def test_failed_step_keeps_weights():
    student, teacher = pair()
    inputs = teacher.make_inputs(0, 8)
    before = weights(student), weights(teacher)
    with pytest.raises((ValueError, RuntimeError), match=r"\b7\b"):
        distill(student, teacher, inputs, np.zeros((8, 7)), labels=0.5, verbose=0)
    for model, expected in zip((student, teacher), before, strict=True):
        for path, value in weights(model).items():
            np.testing.assert_array_equal(value, expected[path])


@pytest.mark.once
def test_checkpoints_hold_the_student(tmp_path):
    student, teacher = pair()
    inputs = teacher.make_inputs(0, 8)
    saved = [
        keras.callbacks.ModelCheckpoint(tmp_path / "a.keras", monitor="loss"),
        keras.callbacks.ModelCheckpoint(tmp_path / "a.weights.h5", save_weights_only=True),
    ]
    distill(student, teacher, inputs, callbacks=saved, verbose=0)
    other = swap_mixer(teacher, "csp")
    other.load_weights(tmp_path / "a.weights.h5")
    for model in (keras.saving.load_model(tmp_path / "a.keras"), other):
        for path, value in weights(student).items():
            np.testing.assert_array_equal(weights(model)[path], value)


@pytest.mark.once
def test_shared_frozen_layers_of_the_teacher_stay_frozen():
    shared = keras.layers.Dense(6, trainable=False)
    inputs = keras.Input((6,))
    first, second = (keras.Model(inputs, shared(inputs)) for _ in range(2))
    teacher = keras.Model(inputs, keras.layers.Dense(3)(second(first(inputs))))
    student = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
    distill(student, teacher, np.ones((4, 6), "float32"), features=0.0, verbose=0)
    assert not shared.trainable and len(teacher.trainable_weights) == 2


@pytest.mark.once
@pytest.mark.parametrize("last", [dict(activation="softmax"), dict(activation="sigmoid"), None])
def test_probabilities_raise(last):
    end = keras.layers.Dense(3, **last) if last else keras.layers.Softmax()
    teacher = keras.Sequential([keras.Input((3,)), end])
    student = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3)])
    images = np.ones((4, 3), "float32")
    with pytest.raises(ValueError, match=f"must return logits.* Received: {teacher.name}"):
        distill(student, teacher, images, verbose=0)
    distill(student, teacher, images, temperature=None, verbose=0)


@pytest.mark.once
def test_weights_in_a_data_set_raise():
    student, teacher = pair()
    batch = teacher.make_inputs(0, 4), np.zeros(4, "int32"), np.ones(4, "float32")

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            return batch

    with pytest.raises(ValueError, match="supports no weights"):
        distill(student, teacher, Batches(), verbose=0)


@pytest.mark.parametrize("predicts", ["values", "labels"])
def test_temperature_requires_classes(predicts):
    student, teacher = (tiny("ViT", predicts=predicts, num_classes=3) for _ in range(2))
    inputs = teacher.make_inputs(0, 8)
    with pytest.raises(ValueError, match=r"must be None.*=2.0, .* with outputs \(None, 3\)"):
        distill(student, teacher, inputs, verbose=0)
    distill(student, teacher, inputs, temperature=None, verbose=0)
    distill(student, teacher, inputs, logits=0, verbose=0)  # only hidden states


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (dict(temperature=0), "temperature must be positive"),
        (dict(labels=1.0), "`labels`.*labels=1.0"),
        (dict(labels=0.5), "`labels` requires `y`.*labels=0.5"),
        (dict(logits=0, features=0), "`logits`.* must be above 0.*logits=0"),
        (dict(logits=-1), "`logits` and `features` must be ≥ 0.*logits=-1"),
        (dict(features=float("nan"), layers={}), "must be ≥ 0.*features=nan"),
        (dict(layers={"first": "hidden_9"}), "No such layer: hidden_9"),
        (dict(sample_weight=np.ones(32)), r"no weights. Received: \['sample_weight'\]"),
        (dict(layers={"first": "out"}), r"`layers`.*'first' of \(None, 8\) and 'out'"),
    ],
)
def test_invalid_arguments_raise(arguments, error):
    models = dict(student=functional(), teacher=functional())
    with pytest.raises(ValueError, match=f"(?s){error}"):
        distill(**{**models, "x": functional_inputs(), "verbose": 0, **arguments})


def test_invalid_models_raise():
    student, teacher = pair()
    with pytest.raises(ValueError, match="must not share the teacher's weights. Received: "):
        distill(teacher, teacher, teacher.make_inputs(0, 2))
    with pytest.raises(ValueError, match=r"`layers`.*\[1, 2\] blocks"):
        distill(tiny("ViT", num_layers=1), teacher, teacher.make_inputs(0, 2))
    one = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="`temperature` must be None.*temperature=2.0"):
        distill(one, keras.models.clone_model(one), np.zeros((2, 2)))
    two = keras.Model(teacher.input, [teacher.output, teacher.output])
    with pytest.raises(ValueError, match="`student` must have one output"):
        distill(keras.models.clone_model(two), teacher, teacher.make_inputs(0, 2))


def test_additional_arrays_of_graphs_are_ignored():
    teacher = tiny("Graphormer")
    student = swap_mixer(teacher, "slice_sort")
    graphs = teacher.make_inputs(0, 2)
    given = {**graphs, "attn_edge_type": np.zeros((2, 3, 3, 1), "int32")}
    before = weights(student)
    distill(student, teacher, given, temperature=None, verbose=0)
    after = weights(student)
    assert any(np.any(after[path] != before[path]) for path in before)
