"""Test streaming layers in pieces, against the whole sequence and NumPy."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_permix.layers import CausalCSP, DampedEMA, LinearAttention, MegaBlock, SimpleAttention
from keras_permix.layers.attention.linear_attention import linear_attention_stream
from tests.backends import BACKEND, compiled, quick, value_and_gradient
from tests.harness import assert_close, functional, to_numpy
from tests.layers.attention.test_simple_attention import attend
from tests.layers.mixing.test_causal_csp import expected as permuted
from tests.oracle import attention, mega

TOKENS = 70  # more than the operators' internal chunks of 32 and 64
X = np.random.default_rng(0).normal(size=(3, TOKENS, 8)).astype("float32")
MASK = np.random.default_rng(1).random((3, TOKENS)) < 0.7
MASK[0] = True
MASK[1, :3] = False  # tokens without a real predecessor
PIECES = {"whole": [TOKENS], "chunks": [1, 50, 1, 18], "tokens": [1] * TOKENS}
CASES = [  # pieces, dtype, masked
    ("whole", "float32", False),
    ("chunks", "float32", False),
    ("chunks", "float32", True),
    ("tokens", "float32", True),
    ("chunks", "mixed_bfloat16", True),
    ("chunks", "mixed_float16", False),
]


def in_float64(weights):
    return [weight.numpy().astype("float64") for weight in weights]


def linear(layer, x, mask):
    kernel, output, bias = in_float64(layer.weights)
    parts = np.split(x @ kernel, 3, axis=-1)
    heads = (part.reshape(*x.shape[:2], layer.num_heads, -1) for part in parts)
    attended = attention.causal_linear_attention(*heads, mask)
    return attended.reshape(x.shape) @ output + bias


def simple(layer, x, mask):
    return attend(layer, x, 8 // layer.num_heads, mask)


def permutation(layer, x, mask):
    values, mixed = x @ in_float64(layer.value_dense.weights)[0], np.zeros(x.shape)
    for b, sample in enumerate(values):
        real = slice(None) if mask is None else mask[b]
        mixed[b, real] = permuted(sample[real], layer.steps(8), layer.group_size)
    kernel, bias = in_float64(layer.output_dense.weights)
    return mixed @ kernel + bias


def average(layer, x, mask):
    return mega.silu(mega.damped_ema(x, *in_float64(layer.weights), mask=mask))


# name -> (layer, reference)
LAYERS = {
    "linear attention": (partial(LinearAttention, 2, causal=True), linear),
    "simple attention": (partial(SimpleAttention, 2, causal=True, scale="valid"), simple),
    "simple attention by length": (partial(SimpleAttention, 4, causal=True), simple),
    "csp of pairs": (partial(CausalCSP, delays=45), permutation),
    "csp of groups of 4": (partial(CausalCSP, 4, delays=9), permutation),
    "delays": (partial(CausalCSP, 1, delays=5), permutation),
    "damped ema": (partial(DampedEMA, 4), average),
}


def stream(layer, pieces, mask=None):
    """Return the outputs of all pieces, and the initial and all later states."""
    call, state, end, outputs = quick(layer.chunk), layer.initial_state(3), 0, []
    states = [state]
    for piece in pieces:
        start, end = end, end + piece
        given = () if mask is None else (mask[:, start:end],)
        result, state = call(X[:, start:end], state, *given)
        outputs.append(to_numpy(result))
        states.append(state)
    return np.concatenate(outputs, axis=1), states


def described(state):
    return [(x.shape, keras.backend.standardize_dtype(x.dtype)) for x in keras.tree.flatten(state)]


@pytest.mark.parametrize(("pieces", "dtype", "masked"), CASES)
@pytest.mark.parametrize("name", LAYERS)
def test_pieces_match_numpy(name, pieces, dtype, masked):
    make, expected = LAYERS[name]
    layer, mask = make(dtype=dtype), MASK if masked else None
    layer.build(X.shape)
    outputs, states = stream(layer, PIECES[pieces], mask)
    assert_close(outputs, expected(layer, X, mask), dtype=layer.compute_dtype)
    assert all(described(state) == described(states[0]) for state in states)
    # A state that tracks gradients would keep all previous pieces in memory.
    assert not any(getattr(x, "requires_grad", False) for x in keras.tree.flatten(states[-1]))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_pieces_match_whole_sequence(name, masked):
    layer, mask = LAYERS[name][0](), MASK if masked else None
    whole = to_numpy(layer(X, mask=mask))
    outputs, _ = stream(layer, PIECES["chunks"], mask)
    assert_close(outputs, whole, kind="stream")


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_match_numpy(name, masked):
    make, expected = LAYERS[name]
    layer, mask = make(), MASK if masked else None
    layer.build(X.shape)
    direction, cotangent = np.random.default_rng(3).normal(size=(2, *X.shape))
    if masked:
        cotangent *= mask[..., None]
    call = partial(layer, mask=mask)
    _, gradient = value_and_gradient(call, X, cotangent.astype("float32"))
    change = attention.change(
        lambda x: expected(layer, x, mask), X, direction, cotangent, axis=(1, 2)
    )
    assert_close(np.sum(to_numpy(gradient) * direction, axis=(1, 2)), change)


@pytest.mark.parametrize("name", LAYERS)
def test_empty_chunk_keeps_state(name):
    layer = LAYERS[name][0]()
    layer.build(X.shape)
    state = layer.initial_state(3)
    outputs, after = layer.chunk(X[:, :0], state)
    assert tuple(outputs.shape) == (3, 0, X.shape[2]) and after is state


@pytest.mark.parametrize("name", LAYERS)
def test_step_is_compiled_once(name):
    layer, traced = LAYERS[name][0](), []
    whole = to_numpy(layer(X))

    def step(token, state, mask):
        traced.append(1)
        return layer.step(token, state, mask)

    if BACKEND != "torch":  # its compiler takes a minute
        step = compiled(step)
    state = layer.initial_state(3)
    real = keras.ops.ones((3,), "bool")
    for position in range(5):
        token = keras.ops.convert_to_tensor(X[:, position])
        output, state = step(token, state, real)
        assert_close(to_numpy(output), whole[:, position])
    assert len(traced) == (5 if BACKEND == "torch" else 1)


class Read(keras.layers.Layer):
    """Read the first four tokens as one chunk."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def call(self, x):
        mask = keras.ops.convert_to_tensor(MASK[:, :4])
        outputs, _ = self.layer.chunk(x, self.layer.initial_state(3), mask)
        return keras.ops.where(mask[..., None], outputs, 0.0)


@pytest.mark.parametrize("name", LAYERS)
def test_padding_of_a_chunk_does_not_reach_weights(name):
    layer = LAYERS[name][0]()
    layer.build(X.shape)
    model = keras.Sequential([Read(layer)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    x = np.where(MASK[:, :4, None], X[:, :4], np.nan)
    model.train_on_batch(x, np.zeros_like(x))
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


@pytest.mark.parametrize("name", LAYERS)
def test_wrong_mask_of_a_chunk_raises(name):
    layer = LAYERS[name][0]()
    layer.build(X.shape)
    with pytest.raises(ValueError, match=r"`mask` must.*mask.shape=\(3, 1\)"):
        layer.chunk(X[:, :4], layer.initial_state(3), MASK[:, :1])


@pytest.mark.skipif(BACKEND == "tensorflow", reason="Keras' scan returns only states on TensorFlow")
@pytest.mark.parametrize("name", LAYERS)
def test_step_can_be_scanned(name):
    layer = LAYERS[name][0]()
    whole = to_numpy(layer(X))

    def step(state, token):
        output, state = layer.step(token, state)
        return state, output

    tokens = keras.ops.convert_to_tensor(X.swapaxes(0, 1))
    _, outputs = keras.ops.scan(step, layer.initial_state(3), tokens)
    assert_close(to_numpy(outputs).swapaxes(0, 1), whole)


@pytest.mark.parametrize("name", LAYERS)
def test_loaded_layer_resumes_from_state(name, tmp_path):
    layer = LAYERS[name][0]()
    model = functional(layer, (None, 8))
    whole = to_numpy(layer(X))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras").layers[-1]
    _, state = quick(layer.chunk)(X[:, :50], layer.initial_state(3))
    outputs, _ = quick(loaded.chunk)(X[:, 50:], state)
    assert_close(to_numpy(outputs), whole[:, 50:])


def test_causal_linear_attention_supports_any_length():
    layer = LinearAttention(2, causal=True)
    model = functional(layer, (None, 8))
    for tokens in (16, 70, 9):
        outputs = model.predict(X[:, :tokens], verbose=0)
        assert_close(outputs, linear(layer, X[:, :tokens], None))


@pytest.mark.parametrize("low", [-20, -41, -42, -44, -45.5, -47, -60, -300])
def test_gradients_of_one_low_key_are_finite(low):
    query, key, value = np.zeros((3, 1, 2, 1, 2), "float32")
    key[0, 0, 0] = low, low - 1
    value[:] = 1.0

    def attended(key):
        state = {"memory": np.zeros((1, 1, 2, 3)), "scale": np.full((1, 1), -1e9)}
        state = keras.tree.map_structure(lambda x: keras.ops.cast(x, "float32"), state)
        tensors = (keras.ops.convert_to_tensor(x) for x in (query, value))
        return linear_attention_stream(next(tensors), key, next(tensors), state)[0]

    outputs, gradient = value_and_gradient(attended, key, np.ones_like(value))
    assert np.isfinite(to_numpy(outputs)).all() and np.isfinite(to_numpy(gradient)).all()


def test_masks_of_keras_are_obeyed():
    ids = np.where(MASK, 1 + np.arange(TOKENS) % 9, 0)
    embedding = keras.layers.Embedding(10, 8, mask_zero=True)
    for layer in (LinearAttention(2, causal=True), CausalCSP(), DampedEMA()):
        whole = to_numpy(layer(embedding(ids)))
        outputs, _ = layer.chunk(embedding(ids), layer.initial_state(3))
        assert_close(to_numpy(outputs)[MASK], whole[MASK])


@pytest.mark.parametrize("low", [-20, -60, -300])
def test_small_keys_do_not_vanish(low):
    """Features are rescaled if all keys are far below 0; a larger key that follows dominates."""
    layer = LinearAttention(2, causal=True, use_qkv_bias=True)
    layer.build(X.shape)
    kernel, _, output, output_bias = in_float64(layer.weights)
    first = X[:, :1] @ kernel[:, 16:] @ output + output_bias  # only its value
    bias = np.zeros(24, "float32")
    bias[8:16] = low
    layer.qkv_dense.bias.assign(bias)
    outputs, states = stream(layer, PIECES["chunks"])
    assert_close(outputs[:, :1], first)
    layer.qkv_dense.bias.assign(np.zeros(24, "float32"))
    outputs, _ = layer.chunk(X[:, :1], states[-1])
    assert_close(to_numpy(outputs), first)


@pytest.mark.once
@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (LinearAttention(2), "causal=True.*Received: causal=False"),
        (SimpleAttention(2, scale="valid"), "causal=True.*Received: causal=False"),
        (DampedEMA(bidirectional=True), "bidirectional=False.*Received: bidirectional=True"),
        (DampedEMA(truncation=4), "truncation=None.*truncation=4"),
        (MegaBlock(), "causal=True.*Received: causal=False"),
    ],
)
def test_unsupported_configuration_raises(layer, message):
    layer.build(X.shape)
    with pytest.raises(ValueError, match=message):
        layer.initial_state(3)


@pytest.mark.parametrize("make", [CausalCSP, DampedEMA, partial(LinearAttention, 2, causal=True)])
def test_other_shapes_than_state_raise(make):
    layer = make()
    layer.build(X.shape)
    for tokens in (X[:2], X[:, 0]):
        with pytest.raises(
            ValueError, match="with 3 sequences as `state`. Received: shape="
        ) as error:
            layer.chunk(tokens, layer.initial_state(3))
        assert str(tokens.shape) in str(error.value)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="only TensorFlow has unknown sizes")
def test_unknown_batch_size():
    import tensorflow as tf

    layer = CausalCSP()
    layer.build(X.shape)
    state = layer.initial_state(3)
    call = tf.function(lambda x: layer.chunk(x, state)[0])
    call = call.get_concrete_function(tf.TensorSpec((None, 4, 8)))
    assert_close(to_numpy(call(tf.constant(X[:, :4]))), to_numpy(layer.chunk(X[:, :4], state)[0]))


@pytest.mark.once
def test_initial_state_before_build_raises():
    with pytest.raises(ValueError, match="`initial_state` requires a built layer.*built=False"):
        CausalCSP().initial_state(3)
