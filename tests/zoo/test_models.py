"""Test the common behavior of all classes of the zoo, which are listed in `TINY`."""

import inspect

import numpy as np
import pytest

from keras_permix.zoo import MODELS
from tests.harness import check_model, check_models_elsewhere, check_precision, to_numpy
from tests.zoo.models import TINY, logits, tiny

# Classes that only change an argument of another class: one backend is enough.
VARIANTS = ("ButterflyMixer", "CSPMEGA", "SliceGraphormer", "SliceViT")
# All dropout arguments of all classes, and those with no effect on a tiny model.
DROPOUTS = [
    (class_name, argument)
    for class_name in TINY
    for argument in inspect.signature(MODELS[class_name].__init__).parameters
    if argument.endswith("dropout")
]
UNUSED = [("CSPMEGA", "attention_dropout")]
EACH = [pytest.param(name, marks=[pytest.mark.once] * (name in VARIANTS)) for name in TINY]


def test_tiny_has_every_class():
    assert list(TINY) == sorted(MODELS)


@pytest.mark.parametrize("class_name", EACH)
def test_model_passes_common_checks(class_name):
    check_model(lambda **arguments: tiny(class_name, **arguments))


@pytest.mark.parametrize(
    "policy",
    [
        "mixed_bfloat16",
        pytest.param("mixed_float16", marks=pytest.mark.once),
        pytest.param("bfloat16", marks=pytest.mark.once),
    ],
)
@pytest.mark.parametrize("class_name", EACH)
def test_low_precision(class_name, policy):
    check_precision(lambda **arguments: tiny(class_name, **arguments), policy)


def test_load_files_on_another_backend():
    models = {name: tiny(name) for name in TINY if name not in VARIANTS}
    made = {name: (model, model.make_inputs(3, 2)) for name, model in models.items()}
    check_models_elsewhere(made, kind="model")


@pytest.mark.once
@pytest.mark.parametrize("class_name", TINY)
def test_summary_of_nested_layers(class_name):
    shown = []
    tiny(class_name, name="mine").summary(expand_nested=True, print_fn=shown.append)
    assert 'Model: "mine"' in shown[0] and "Total params" in "".join(shown)


@pytest.mark.once
@pytest.mark.parametrize("class_name", TINY)
def test_unknown_argument_raises(class_name):
    with pytest.raises(ValueError, match=f"{class_name} accepts.*Received: .'nmae'"):
        MODELS[class_name](nmae="model")


@pytest.mark.once
@pytest.mark.parametrize(("class_name", "argument"), DROPOUTS)
def test_dropout_arguments_change_outputs(class_name, argument):
    rates = {other: 0.5 * (other == argument) for name, other in DROPOUTS if name == class_name}
    model = tiny(class_name, **rates)
    trained = to_numpy(model(model.make_inputs(3, 2), training=True))
    same = np.array_equal(trained, logits(model))
    assert same == ((class_name, argument) in UNUSED)
