"""Test streaming of a causal MegaBlock against the whole sequence."""

import keras
import numpy as np
import pytest

from keras_permix.layers import MegaBlock
from keras_permix.layers.mega.mega_attention import MegaAttention
from tests.backends import compiled, quick
from tests.harness import assert_close, to_numpy
from tests.layers.mega.test_mega_block import X, attending, expected, make

CASES = {
    "softmax": dict(norm_first=False, norm="batchnorm"),
    "laplace in chunks": dict(mixer="laplace", attention=dict(chunk_size=5, ragged=True)),
    "rotary relu2": dict(
        mixer="relu2", attention=dict(position_bias="rotary", max_sequence_length=20)
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_stream_matches_numpy(case):
    block = make(causal=True, **CASES[case])
    size = block.attention.chunk_size
    wanted = expected(block, X, attending(block, None, size))
    call, end, state = quick(block.chunk), 0, block.initial_state(3)
    for piece in (4, 8):
        start, end = end, end + piece
        outputs, state = call(X[:, start:end], state)
        assert_close(to_numpy(outputs), wanted[:, start:end])
        room = size or block.attention.max_sequence_length or 12
        assert state["attention"]["keys"].shape == (3, room, 4)
        assert state["attention"]["values"].shape == (3, room, 10)
        assert state["average"].shape == (3, 6, 2)
        # A state that tracks gradients would keep all previous steps in memory.
        assert not any(getattr(x, "requires_grad", False) for x in keras.tree.flatten(state))


def test_stream_matches_call_in_low_precision():
    block = make(causal=True, attention=dict(chunk_size=8, ragged=True), dtype="mixed_bfloat16")
    outputs, state = quick(block.chunk)(X, block.initial_state(3))
    for x in (outputs, state["attention"]["keys"], state["attention"]["values"]):
        assert keras.backend.standardize_dtype(x.dtype) == "bfloat16"
    assert_close(to_numpy(outputs), to_numpy(quick(block)(X)), dtype="bfloat16")


def test_dropout_of_attention_acts_on_chunks():
    block = make(causal=True, attention=dict(dropout=0.9, max_sequence_length=12))

    class Chunked(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.block = block

        def call(self, x):
            return self.block.chunk(x, self.block.initial_state(3))[0]

    layer = Chunked()
    first, second, plain = (
        to_numpy(layer(X, training=training)) for training in (True, True, False)
    )
    assert not np.array_equal(first, second) and not np.array_equal(first, plain)


def test_step_is_compiled_once():
    """The state keeps its shapes and counts tokens in a tensor, so that steps are not retraced."""
    block = make(causal=True, attention=dict(chunk_size=5, ragged=True))
    traced = []

    def step(x, state):
        traced.append(1)
        return block.step(x, state)

    wanted = expected(block, X, attending(block, None, 5))
    _, state = quick(block.step)(X[:, 0], block.initial_state(3))
    if keras.config.backend() != "torch":  # its compiler takes a minute
        step = compiled(step)
    for position in range(1, 8):
        outputs, state = step(keras.ops.convert_to_tensor(X[:, position]), state)
        assert_close(to_numpy(outputs), wanted[:, position])
    assert len(traced) == (7 if keras.config.backend() == "torch" else 1)


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(), "requires causal=True. Received: causal=False"),
        (dict(causal=True, average=dict(truncation=4)), "truncation=None.*truncation=4"),
        (
            dict(causal=True, attention=dict(max_sequence_length=8)),
            "at most 8 tokens. Received: tokens=12",
        ),
    ],
)
def test_unsupported_configuration_raises(arguments, message):
    with pytest.raises(ValueError, match=message):
        block = MegaBlock(shared_dim=4, **arguments)
        block.build(X.shape)
        block.chunk(X, block.initial_state(3))


@pytest.mark.skipif(keras.config.backend() == "torch", reason="its compiler takes a minute")
def test_compiled_steps_beyond_max_length_return_nan():
    block = MegaBlock(shared_dim=4, causal=True, attention=dict(max_sequence_length=3))
    block.build(X.shape)
    step, state = compiled(block.step), block.initial_state(3)
    for position in range(5):
        output, state = step(keras.ops.convert_to_tensor(X[:, position]), state)
        assert np.isfinite(to_numpy(output)).all() == (position < 3)


def test_attention_stream_requires_max_length():
    message = "`initial_state` requires `max_sequence_length` or `chunk_size`"
    with pytest.raises(ValueError, match=message):
        MegaAttention(causal=True, position_bias="rotary").initial_state(3)
