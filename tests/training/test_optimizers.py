"""Test optimizers, and learning-rate schedules against NumPy formulas."""

from typing import get_args

import keras
import numpy as np
import pytest

from keras_permix.recipes.recipe import ScheduleName, make_recipe
from keras_permix.training.optimizers import (
    OF_THE_ARENA,
    WarmupDecay,
    make_optimizer,
    make_schedule,
)
from tests.harness import load_golden
from tests.zoo.models import tiny

PEAK, WARMUP, TOTAL, PER_EPOCH = 0.4, 10, 50, 8


def recipe(**values):
    return make_recipe({"model": {"class_name": "ViT"}, "data": {"name": "made"}, **values}, "here")


def formula(name, step):
    warmup = min(1.0, (step + 1) / WARMUP)
    if name == "cosine_epochs":
        step = step // PER_EPOCH * PER_EPOCH
    done = min(max((step - WARMUP) / (TOTAL - WARMUP), 0.0), 1.0)
    decay = {"constant": 1.0, "linear": 1.0 - done}.get(name, 0.5 + 0.5 * np.cos(np.pi * done))
    return PEAK * warmup * decay


GOLDEN = load_golden("lra_transformer")


@pytest.mark.parametrize("name", sorted(set(get_args(ScheduleName)) - set(OF_THE_ARENA)))
def test_schedule(name):
    schedule = WarmupDecay(name, PEAK, WARMUP, TOTAL, PER_EPOCH)
    again = WarmupDecay.from_config(schedule.get_config())
    for step in range(TOTAL + 5):
        expected = formula(name, step)
        assert float(schedule(step)) == pytest.approx(expected, abs=1e-6), step
        assert float(again(step)) == pytest.approx(expected, abs=1e-6), step


@pytest.mark.parametrize(
    ("name", "rate", "golden"), [("rsqrt", 0.05, "lr_rsqrt"), ("cosine_cycles", 8e-3, "lr_cosine")]
)
def test_long_range_arena_schedules(name, rate, golden):
    values = recipe(
        optimizer=dict(learning_rate=rate),
        schedule=dict(name=name, warmup_steps=int(GOLDEN["lr_warmup"])),
    )
    schedule = make_schedule(values, steps_per_epoch=int(GOLDEN["lr_cycle"]) // 10)
    again = WarmupDecay.from_config(schedule.get_config())
    for step, expected in zip(GOLDEN["lr_steps"], GOLDEN[golden], strict=True):
        # Near its end, the cosine is a difference of numbers near 1, in float32.
        assert float(schedule(step)) == pytest.approx(expected, rel=1e-6, abs=1e-9), step
        assert float(again(step)) == float(schedule(step))


def test_cosine_cycles_restart():
    schedule = WarmupDecay("cosine_cycles", PEAK, WARMUP, TOTAL, PER_EPOCH)
    for step in (WARMUP, WARMUP + 7):
        assert float(schedule(step)) == pytest.approx(float(schedule(step + TOTAL)), abs=1e-6)
    assert float(schedule(WARMUP + TOTAL // 2)) == pytest.approx(PEAK / 2, abs=1e-6)


def test_warmup_start_and_power():
    values = recipe(
        optimizer=dict(learning_rate=0.4),
        schedule=dict(
            name="linear", warmup_steps=10, warmup_start=0.1, warmup_power=2, total_steps=60
        ),
        epochs=1,
    )
    schedule = make_schedule(values, steps_per_epoch=50)
    for step, expected in ((0, 0.1 + 0.3 * 0.01), (4, 0.1 + 0.3 * 0.25), (10, 0.4), (35, 0.2)):
        assert float(schedule(step)) == pytest.approx(expected, abs=1e-6), step


def test_warmup_steps_replace_warmup_epochs():
    schedule = dict(name="linear", warmup_epochs=2)
    assert make_schedule(recipe(schedule=schedule), 8).warmup_steps == 16
    assert make_schedule(recipe(schedule=dict(schedule, warmup_steps=3)), 8).warmup_steps == 3


def test_unknown_names_raise():
    with pytest.raises(ValueError, match="`name` must be one of.*Received: name='step'"):
        WarmupDecay("step", PEAK, WARMUP, TOTAL, PER_EPOCH)
    values = recipe(optimizer=dict(name="sgdx", learning_rate=1.0))
    with pytest.raises(ValueError, match="`optimizer` must be one of.*sgdx"):
        make_optimizer(values, 10)


def test_weight_decay_excludes_biases_and_norms():
    spec = dict(name="adamw", learning_rate=0.0, weight_decay=0.5)
    optimizer = make_optimizer(recipe(optimizer=spec), 10)
    inputs = keras.Input((4,))
    outputs = keras.layers.LayerNormalization()(keras.layers.Dense(3)(inputs))
    model = keras.Model(inputs, outputs)
    optimizer.build(model.trainable_variables)
    decayed = [v.name for v in model.trainable_variables if optimizer._use_weight_decay(v)]
    assert decayed == ["kernel"]
    model = tiny("ViT", pooling="cls")
    optimizer = make_optimizer(recipe(optimizer=spec), 10)
    optimizer.build(model.trainable_variables)
    decayed = {v.name for v in model.trainable_variables if optimizer._use_weight_decay(v)}
    kept = {v.name for v in model.trainable_variables} - decayed
    assert decayed == {"kernel"} and kept == {"bias", "gamma", "beta", "class_token", "table"}
