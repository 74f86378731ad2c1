"""What every class of the zoo keeps: a class is tested by having a row in `TINY`."""

import pytest

from keras_permix.zoo import MODELS
from tests.harness import check_model, check_models_elsewhere, check_precision
from tests.zoo.models import TINY, tiny

# A class that is another with one argument finds what that finds: one backend is enough.
TWINS = ("ButterflyMixer", "CSPMEGA", "SliceGraphormer", "SliceViT")
EACH = [pytest.param(name, marks=[pytest.mark.once] * (name in TWINS)) for name in TINY]


def test_every_class_has_a_row():
    assert list(TINY) == sorted(MODELS)


@pytest.mark.parametrize("class_name", EACH)
def test_model_keeps_its_promises(class_name):
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
def test_model_computes_in_low_precision(class_name, policy):
    check_precision(lambda **arguments: tiny(class_name, **arguments), policy)


@pytest.mark.once
def test_files_are_read_on_another_backend():
    models = {name: tiny(name) for name in TINY}
    made = {name: (model, model.make_inputs(3, 2)) for name, model in models.items()}
    check_models_elsewhere(made, kind="model")


@pytest.mark.once
@pytest.mark.parametrize("class_name", TINY)
def test_summary_shows_what_is_within(class_name):
    shown = []
    tiny(class_name, name="mine").summary(expand_nested=True, print_fn=shown.append)
    assert 'Model: "mine"' in shown[0] and "Total params" in "".join(shown)


@pytest.mark.once
@pytest.mark.parametrize("class_name", TINY)
def test_unknown_argument_is_refused(class_name):
    with pytest.raises(ValueError, match=f"{class_name} takes.*Received: .'nmae'"):
        MODELS[class_name](nmae="model")
