"""Mixers by name are their layers, with defaults that give way to what is asked for."""

import numpy as np
import pytest

from keras_permix.layers import CSP, SliceSort
from keras_permix.layers.mixers import MIXERS, make_mixer

X = np.random.default_rng(0).normal(size=(2, 8, 16)).astype("float32")


@pytest.mark.parametrize("name", MIXERS)
def test_every_name_is_a_mixer_that_knows_its_place(name):
    layer = make_mixer(name, layer=1, layers=3, dropout=0.25, name="mixer")
    assert type(layer) is MIXERS[name].layer
    assert tuple(layer(X).shape) == X.shape
    config = layer.get_config()
    wanted = {"name": "mixer", "dropout": 0.25, **MIXERS[name].defaults}
    assert wanted.items() <= config.items()
    assert MIXERS[name].has_place == ("layers" in config)
    if MIXERS[name].has_place:
        assert (config["layer"], config["layers"]) == (1, 3)


def test_what_a_dict_says_goes_first():
    spec = {"name": "circular_shift", "group_size": 4, "dropout": 0.5}
    layer = make_mixer(spec, dropout=0.1)
    assert (type(layer), layer.group_size, layer.dropout) == (CSP, 4, 0.5)
    assert spec["name"] == "circular_shift"


def test_a_name_with_a_default_is_its_layer_with_that_argument():
    layer, other = make_mixer("max_exchange"), SliceSort("max_exchange")
    assert layer.order == other.order == "max_exchange"


@pytest.mark.parametrize("spec", ["convolution", None, {"num_heads": 2}, {"name": ["csp"]}])
def test_unknown_name_is_named(spec):
    with pytest.raises(ValueError, match=r"(?s)`mixer` must be one of \('attention'.*Received: mi"):
        make_mixer(spec)
