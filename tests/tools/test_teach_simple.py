"""SimpleAttention learns the states that softmax gave."""

import importlib.util

import keras
import numpy as np
import pytest

from keras_permix.zoo import SimpleTRON
from tests.harness import ROOT
from tests.tolerances import TOLERANCES

spec = importlib.util.spec_from_file_location("teach_simple", ROOT / "tools" / "teach_simple.py")
teach_simple = importlib.util.module_from_spec(spec)
spec.loader.exec_module(teach_simple)

TEXTS = ["A gripping film.", "Two hours that feel like four.", "It is honest, and funny."] * 40


def make_teacher(num_layers=2):
    keras.utils.set_random_seed(0)
    sizes = dict(hidden_dim=16, num_layers=num_layers, num_heads=2, mlp_dim=32, variant="softmax")
    model = SimpleTRON(257, 64, pooler=None, num_segments=None, scale="valid", **sizes)
    for weight in model.weights:
        if weight.path.endswith("/qkv/kernel"):
            weight.assign(3 * weight.numpy())
    return model


def errors_of(student, teacher):
    """Of the states of each block, at real tokens, as shares of their variance."""
    inputs = teacher.encode(TEXTS[:3])
    pairs = zip(
        *(
            keras.tree.flatten(teach_simple.states_of(model).predict_on_batch(inputs))
            for model in (student, teacher)
        ),
        strict=True,
    )
    real = inputs["mask"]
    return [((mine - its)[real] ** 2).mean() / its[real].var(0).mean() for mine, its in pairs]


@pytest.mark.parametrize("num_layers", [1, 2])
def test_states_come_near_the_teachers(num_layers, monkeypatch):
    monkeypatch.setattr(teach_simple, "PRECISION", "float32")
    teacher = make_teacher(num_layers)
    student = teach_simple.begun(teacher)
    before = errors_of(student, teacher)
    teach_simple.teach(student, teacher, TEXTS, epochs=20, learning_rate=3e-4)
    after = errors_of(student, teacher)
    assert student.get_config()["variant"] == "simple_l"
    assert student.get_config()["dropout"] == teacher.get_config()["dropout"]
    assert all(new < old / 2 for new, old in zip(after, before, strict=True))
    said = list(teach_simple.errors_of(student, teacher, TEXTS[:3]))
    np.testing.assert_allclose(said, after, **TOLERANCES["model"]["float32"])


def test_logits_are_learned_with_the_states():
    teacher = make_teacher()
    student = teach_simple.with_changes(teacher)
    kernel, bias = student.get_layer("head").get_weights()
    student.get_layer("head").set_weights([kernel, bias + 1])
    inputs = teacher.encode(TEXTS[:3])

    def error():
        return np.abs(student.predict_on_batch(inputs) - teacher.predict_on_batch(inputs)).mean()

    before = error()
    teach_simple.teach(student, teacher, TEXTS, 20, learning_rate=1e-2, logits=True)
    assert error() < before / 2
    assert student.dtype == "float32"


def test_sentences_are_written_as_sst2_writes():
    review = "I didn't like it.<br /><br />It's an old-fashioned, slow film... Isn't it, Bob? No!"
    more = "The actors' work -- all of it -- couldn't be better, and that's that!"
    assert list(teach_simple.sentences_of([f"{review} {'So ' * 46}", "", more])) == [
        "it 's an old-fashioned , slow film ...",
        "the actors ' work -- all of it -- could n't be better , and that 's that !",
    ]


def test_lessons_hold_every_text_once_and_its_states():
    teacher = make_teacher()
    inputs = teacher.encode([f"text {number} " * (1 + number % 6) for number in range(300)])
    lessons = teach_simple.Lessons(inputs, teach_simple.states_of(teacher))
    samples = np.concatenate([samples for samples, _ in lessons.batches])
    assert sorted(samples) == list(range(300))
    order = [int(batch[0][0]) for batch in lessons.batches]
    lessons.on_epoch_end()
    assert sorted(order) == sorted(int(batch[0][0]) for batch in lessons.batches)
    given, states, weights = lessons[0]
    whole = {name: array[lessons.batches[0][0]] for name, array in inputs.items()}
    expected = teach_simple.states_of(teacher).predict_on_batch(whole)
    real = given["mask"]
    assert real.sum() == whole["mask"].sum() and all(weight is real for weight in weights)
    for state, other in zip(states, expected, strict=True):
        other = other[:, : state.shape[1]]
        np.testing.assert_allclose(state[real], other[real], **TOLERANCES["model"]["float32"])
