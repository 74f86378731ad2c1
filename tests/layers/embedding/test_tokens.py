"""Test TokenEmbedding: values, masks, files, dtypes and errors."""

import keras
import numpy as np
import pytest

from keras_permix.layers import SoftmaxAttention, TokenEmbedding
from keras_permix.layers.embedding.tokens import sinusoid
from tests.harness import assert_close, functional, load_golden, to_numpy

RNG = np.random.default_rng(0)
TOKENS = RNG.integers(0, 9, (3, 7)).astype("int32")
MASK = np.arange(7) < np.array([[7], [4], [1]])
GOLDEN = load_golden("lra_transformer")["sinusoid"]


def test_sinusoid_matches_authors():
    assert_close(sinusoid(*GOLDEN.shape), GOLDEN)


def looked_up(layer, ids):
    """Look up ids in the tables of the layer: class token, tokens and learned positions."""
    wanted = to_numpy(layer.embedding.embeddings)[ids]
    if layer.use_class_token:
        first = np.broadcast_to(to_numpy(layer.class_token), (len(ids), 1, layer.hidden_dim))
        wanted = np.concatenate([first, wanted], axis=1)
    if layer.positions == "learned":
        wanted = wanted + to_numpy(layer.table)[: wanted.shape[1]]
    return wanted


@pytest.mark.parametrize("class_token", [False, True])
@pytest.mark.parametrize("positions", [None, "sinusoid", "learned"])
def test_positions_are_added(positions, class_token):
    layer = TokenEmbedding(9, 6, 10, positions, class_token)
    layer.build(TOKENS.shape)
    if class_token:
        assert not to_numpy(layer.class_token).any()
        layer.class_token.assign(RNG.normal(size=(1, 1, 6)))
    wanted = looked_up(layer, TOKENS)
    if positions == "learned":
        assert layer.table.shape == (10 + class_token, 6)
    if positions == "sinusoid" and class_token:  # the class token has position 0
        wanted[:, :7] += GOLDEN
        wanted[:, 7] += [f(7 / 10000 ** (k / 3)) for k in range(3) for f in (np.sin, np.cos)]
    elif positions == "sinusoid":
        wanted[:, :6] += GOLDEN[1:]
        wanted[:, 6] += [f(7 / 10000 ** (k / 3)) for k in range(3) for f in (np.sin, np.cos)]
    assert_close(to_numpy(layer(TOKENS)), wanted)


@pytest.mark.parametrize("stddev", [0.02, 1.0])
def test_initial_values(stddev):
    layer = TokenEmbedding(500, 40, 600, "learned", stddev=stddev)
    layer.build((None, None))
    assert np.std(to_numpy(layer.embedding.embeddings)) == pytest.approx(stddev, rel=0.05)
    assert np.std(to_numpy(layer.table)) == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize("class_token", [False, True])
def test_layer_basics(class_token, tmp_path):
    """Test several lengths, files and dtypes."""
    layer = TokenEmbedding(9, 6, 10, "learned", class_token)
    outputs = to_numpy(layer(TOKENS))
    assert layer.compute_output_shape(TOKENS.shape) == outputs.shape
    tokens = keras.Input((None,), dtype="int32")
    model = keras.Model(tokens, layer(tokens))
    assert model.output_shape == (None, None, 6)
    for length in (7, 5, 2):
        ids = TOKENS[:, :length]
        assert_close(model.predict(ids, verbose=0), looked_up(layer, ids))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(to_numpy(loaded(TOKENS)), outputs)
    for dtype in ("float16", "bfloat16"):
        low = TokenEmbedding(9, 6, 10, "learned", class_token, dtype=f"mixed_{dtype}")
        low.build(TOKENS.shape)
        low.set_weights(layer.get_weights())
        low_outputs = low(TOKENS)
        assert keras.backend.standardize_dtype(low_outputs.dtype) == dtype
        assert_close(to_numpy(low_outputs), outputs, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_ids_are_not_rounded(dtype):
    """`keras.Input` converts ids to floats unless its dtype is an integer type."""
    layer = TokenEmbedding(5000, 4, 3, "learned", True, dtype=f"mixed_{dtype}")
    ids = np.array([[2049, 4097, 3001]])
    model = functional(layer, (3,))
    outputs = to_numpy(model(ids.astype("float32")))
    np.testing.assert_array_equal(outputs, to_numpy(layer(ids)))
    assert_close(outputs, looked_up(layer, ids), dtype=dtype)


@pytest.mark.parametrize("class_token", [False, True])
def test_mask_reaches_next_layer(class_token):
    embedding, attention = TokenEmbedding(9, 6, 10, "learned", class_token), SoftmaxAttention(2)
    ids = keras.Input((7,), dtype="int32")
    marked = keras.layers.Lambda(
        lambda x: x, mask=lambda x, mask: x > 0, output_shape=(7,), dtype="int32"
    )(ids)
    model = keras.Model(ids, attention(embedding(marked)))
    tokens = np.where(MASK, np.maximum(TOKENS, 1), 0)
    real = np.concatenate([np.ones((3, int(class_token)), bool), MASK], axis=1)
    wanted = attention(embedding(tokens), mask=real)
    assert_close(model.predict(tokens, verbose=0)[real], to_numpy(wanted)[real])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TokenEmbedding(0, 6, 10), "`vocabulary_size` must be a positive.*size=0"),
        (lambda: TokenEmbedding(9, 0, 10), "`hidden_dim` must be a positive integer.*hidden_dim=0"),
        (
            lambda: TokenEmbedding(9, 6, 0),
            "`max_sequence_length` must be a positive integer.*length=0",
        ),
        (lambda: TokenEmbedding(9, 6, 10, "rotary"), "`positions` must be one of.*'rotary'"),
        (
            lambda: TokenEmbedding(9, 6, 5)(TOKENS),
            r"at most max_sequence_length=5.*\(3, 7\)",
        ),
        (lambda: TokenEmbedding(9, 6, 10)(TOKENS[..., None]), r"ndim=2, found ndim=3.*\(3, 7, 1\)"),
    ],
)
def test_invalid_argument_raises(call, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        call()
