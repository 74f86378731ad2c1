"""Schedules against their formulas in NumPy."""

import keras
import numpy as np
import pytest

from keras_permix.training.schedules import SCHEDULES, WarmupDecay, make_optimizer

PEAK, WARMUP, TOTAL, PER_EPOCH = 0.4, 10, 50, 8


def formula(name, step):
    warmup = min(1.0, (step + 1) / WARMUP)
    if name == "cosine_epochs":
        step = step // PER_EPOCH * PER_EPOCH
    done = min(max((step - WARMUP) / (TOTAL - WARMUP), 0.0), 1.0)
    decay = {"constant": 1.0, "linear": 1.0 - done}.get(name, 0.5 + 0.5 * np.cos(np.pi * done))
    return PEAK * warmup * decay


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name):
    schedule = WarmupDecay(name, PEAK, WARMUP, TOTAL, PER_EPOCH)
    again = WarmupDecay.from_config(schedule.get_config())
    for step in range(TOTAL + 5):
        expected = formula(name, step)
        assert float(schedule(step)) == pytest.approx(expected, abs=1e-6), step
        assert float(again(step)) == pytest.approx(expected, abs=1e-6), step


def test_unknown_names():
    with pytest.raises(ValueError, match="`name` must be one of.*Received: name='step'"):
        WarmupDecay("step", PEAK, WARMUP, TOTAL, PER_EPOCH)
    recipe = dict(optimizer=dict(name="sgdx", learning_rate=1.0), schedule=dict(name="cosine"))
    with pytest.raises(ValueError, match="`optimizer` must name one of.*Received: 'sgdx'"):
        make_optimizer(recipe, 10)


def test_weight_decay_spares_biases_and_norms():
    recipe = dict(
        optimizer=dict(name="adamw", learning_rate=0.0, weight_decay=0.5),
        schedule=dict(name="constant"),
        epochs=1,
        ema=None,
    )
    optimizer = make_optimizer(recipe, 10)
    inputs = keras.Input((4,))
    outputs = keras.layers.LayerNormalization()(keras.layers.Dense(3)(inputs))
    model = keras.Model(inputs, outputs)
    optimizer.build(model.trainable_variables)
    decayed = [v.name for v in model.trainable_variables if optimizer._use_weight_decay(v)]
    assert decayed == ["kernel"]
