"""Test `BlockMuon` against Keras' Muon, applied to each block."""

import keras
import numpy as np
import pytest

from keras_permix.layers import BlockDense
from keras_permix.training import BlockMuon
from tests.harness import assert_close

SETTINGS = dict(
    learning_rate=0.1, weight_decay=0.05, adam_weight_decay=0.05, adam_lr_ratio=0.5, nesterov=True
)


def trained(optimizer, values, gradients, stack=False):
    variable = keras.Variable(values, name="kernel")
    if stack:
        variable.is_stack_of_matrices = True
    optimizer.build([variable])
    for gradient in gradients:
        optimizer.apply([keras.ops.convert_to_tensor(gradient)])
    return keras.ops.convert_to_numpy(variable)


@pytest.mark.parametrize(("rows", "columns"), [(4, 7), (7, 4), (5, 5)])
@pytest.mark.parametrize("rms_rate", [0.2, None])
def test_each_block_matches_keras_muon(rows, columns, rms_rate):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, rows, columns)).astype("float32")
    gradients = rng.normal(size=(4, 3, rows, columns)).astype("float32")
    settings = dict(SETTINGS, rms_rate=rms_rate)
    found = trained(BlockMuon(**settings), values, gradients, stack=True)
    for block in range(3):
        muon = keras.optimizers.Muon(**settings)
        wanted = trained(muon, values[block], gradients[:, block])
        assert_close(found[block], wanted)


def test_step_is_nearly_orthogonal():
    """Newton-Schulz iterations bring all singular values close to 1."""
    gradient = np.random.default_rng(1).normal(size=(1, 2, 6, 9)).astype("float32")
    optimizer = BlockMuon(learning_rate=1.0, weight_decay=0.0, rms_rate=0.2)
    step = trained(optimizer, np.zeros((2, 6, 9), "float32"), gradient, stack=True)
    singular = np.linalg.svd(step / (0.2 * 9**0.5), compute_uv=False)
    assert singular.min() > 0.6 and singular.max() < 1.3


@pytest.mark.parametrize("shape", [(4,), (4, 5), (2, 4, 5), (2, 1, 5)])
def test_other_variables_match_keras_muon(shape):
    rng = np.random.default_rng(2)
    values, *gradients = rng.normal(size=(4, *shape)).astype("float32")
    found = trained(BlockMuon(**SETTINGS), values, gradients)
    wanted = trained(keras.optimizers.Muon(**SETTINGS), values, gradients)
    assert_close(found, wanted)


def test_excluded_layers_use_adamw():
    layers = [BlockDense(2, 3, name="blocks"), BlockDense(3, 2, name="head"), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((8,)), *layers])
    optimizer = BlockMuon(exclude_layers=["head"])
    optimizer.build(model.trainable_variables)
    by_muon = [v.path for v in model.trainable_variables if not optimizer._should_use_adamw(v)]
    assert [path.split("/")[-2] for path in by_muon] == ["blocks", layers[2].name]


def test_optimizer_is_saved_with_model(tmp_path):
    model = keras.Sequential([keras.Input((8,)), BlockDense(2, 3)])
    model.compile(BlockMuon(momentum=0.8), loss="mse")
    model.fit(np.ones((4, 8)), np.ones((4, 6)), verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras").optimizer
    assert type(again) is BlockMuon and again.momentum == 0.8
    for old, new in zip(model.optimizer.variables, again.variables, strict=True):
        np.testing.assert_array_equal(old, new)
