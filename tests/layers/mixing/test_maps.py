"""Test mixers on maps (batch, rows, columns, channels), and moves by rows and columns."""

import keras
import numpy as np
import pytest

from keras_permix.layers import (
    CSP,
    MixerBlock,
    SimpleAttention,
    SinkhornCSP,
    SliceSort,
    SoftmaxAttention,
)
from keras_permix.layers.mixers import MIXERS as ALL_MIXERS
from keras_permix.layers.mixers import arguments_of, make_mixer
from tests.harness import assert_close, to_numpy
from tests.oracle import permutations as oracle

MIXERS = {
    "csp": lambda: CSP(shift="unit", inner_dim=6),
    "slice_sort": lambda: SliceSort(inner_dim=6),
    "sinkhorn_csp": lambda: SinkhornCSP(iterations=3),
    "simple_attention": lambda: SimpleAttention(2),
    "softmax_attention": lambda: SoftmaxAttention(2),
    "block": lambda: MixerBlock(CSP(), mlp_dim=8),
}
PLAIN = dict(use_value_projection=False, use_output_projection=False)
MAPS = np.random.default_rng(0).normal(size=(2, 4, 6, 4)).astype("float32")
MASK = np.random.default_rng(1).random((2, 4, 6)) < 0.7
MOVES = [(0, 0), (1, 0), (-1, 2), (3, 5)]


def few_heads(name):
    return {"name": name, **({"num_heads": 2} if "num_heads" in arguments_of(name) else {})}


@pytest.mark.parametrize("name", sorted({*MIXERS, *ALL_MIXERS}))
def test_map_matches_flattened_tokens(name):
    layer = MIXERS[name]() if name in MIXERS else make_mixer(few_heads(name))
    for mask in (None, MASK):
        flat = None if mask is None else mask.reshape(2, 24)
        expected = to_numpy(layer(MAPS.reshape(2, 24, 4), mask=flat)).reshape(MAPS.shape)
        assert_close(to_numpy(layer(MAPS, mask=mask)), expected)
    assert layer.compute_output_shape(MAPS.shape) == MAPS.shape


@pytest.mark.parametrize("name", ALL_MIXERS)
def test_mask_broadcasts_over_batch(name):
    layer = make_mixer(few_heads(name))
    for inputs, mask in ((MAPS, MASK[:1]), (MAPS.reshape(2, 24, 4), MASK[:1].reshape(1, 24))):
        expected = to_numpy(layer(inputs, mask=np.repeat(mask, 2, axis=0)))
        np.testing.assert_array_equal(to_numpy(layer(inputs, mask=mask)), expected)


@pytest.mark.once
@pytest.mark.parametrize("name", MIXERS)
def test_model_of_maps_saves_and_loads(name, tmp_path):
    maps = keras.Input((None, 6, 4)) if name != "csp" else keras.Input((4, 6, 4))
    model = keras.Model(maps, keras.layers.AveragePooling2D(2)(MIXERS[name]()(maps)))
    expected = model.predict(MAPS, verbose=0)
    assert expected.shape == (2, 2, 3, 4)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(MAPS, verbose=0), expected)


def test_moves_by_rows_and_columns():
    layer = CSP(group_size=1, shift=MOVES, **PLAIN)
    moved = to_numpy(layer(MAPS))
    for channel, (down, right) in enumerate(MOVES):
        for row in range(4):
            for column in range(6):
                position = (row - down) * 6 + column - right
                expected = MAPS[:, position % 24 // 6, position % 6, channel]
                np.testing.assert_array_equal(moved[:, row, column, channel], expected)
    assert keras.layers.deserialize(keras.layers.serialize(layer)).shift == [[*m] for m in MOVES]


def test_moves_precede_grouping():
    steps = [down * 6 + right for down, right in MOVES]
    tokens = MAPS.reshape(2, 24, 4)
    expected = oracle.values(tokens, oracle.csp(tokens, steps, 2)).reshape(MAPS.shape)
    np.testing.assert_array_equal(to_numpy(CSP(shift=MOVES, **PLAIN)(MAPS)), expected)


def test_steps_of_moves_depend_on_map_width():
    layer = CSP(shift=MOVES, **PLAIN)
    with pytest.raises(ValueError, match=r"pair \(rows, columns\).*columns=None"):
        layer.steps(24, 4)
    layer.build(MAPS.shape)
    assert layer.steps(24, 4).tolist() == [0, 6, 20, 23]


def test_moves_require_columns_of_first_map():
    layer = CSP(shift=MOVES, **PLAIN)
    moved = to_numpy(layer(MAPS))
    tokens = MAPS.reshape(2, 24, 4)
    np.testing.assert_array_equal(to_numpy(layer(tokens)), moved.reshape(tokens.shape))
    with pytest.raises(ValueError, match="the 6 columns .*columns=4"):
        layer(MAPS.reshape(2, 6, 4, 4))


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="sizes are known elsewhere")
def test_columns_known_at_run_time():
    import tensorflow as tf

    layer = CSP(shift=MOVES, **PLAIN)
    moved = to_numpy(layer(MAPS))
    traced = tf.function(layer, input_signature=[tf.TensorSpec((None, None, None, 4))])
    np.testing.assert_array_equal(traced(MAPS), moved)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have the 6 columns"):
        traced(MAPS.reshape(2, 6, 4, 4))


@pytest.mark.parametrize(
    ("moves", "shape"),
    [(MOVES, (2, 24, 4)), (MOVES, (2, 4, None, 4)), ([(1, 2, 3)] * 4, MAPS.shape)],
)
def test_moves_require_maps(moves, shape):
    with pytest.raises(ValueError, match=r"pair \(rows, columns\).*Received: shift of the shape"):
        CSP(shift=moves).build(shape)


def test_wrong_number_of_axes_raises():
    for layer in (CSP(), SoftmaxAttention(2), MixerBlock(CSP(), 8)):
        with pytest.raises(ValueError, match=r"or maps of shape.*Received: input_shape=\(2, 4\)"):
            layer.build((2, 4))
