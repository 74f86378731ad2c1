"""Test MegaBlock against the authors' values and NumPy, and its errors."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_permix.layers import CSP, MegaBlock, SliceSort
from keras_permix.layers.mega.mega_attention import MegaAttention
from keras_permix.layers.mega.mega_feed_forward import NORMS, make_norm, normalize
from keras_permix.layers.mega.positions import rotary_bias, simple_bias
from tests.harness import assert_close, functional, load_golden, to_numpy
from tests.oracle import mega as oracle_mega
from tests.oracle import permutations as oracle

X = np.random.default_rng(0).normal(size=(3, 12, 6)).astype("float32")
LENGTHS = np.array([[12], [7], [3]])
MASK = np.arange(12) < LENGTHS
ROTARY = dict(position_bias="rotary")
BARE = dict(use_value_projection=False, use_output_projection=False)
SMALL = dict(inner_dim=10, shared_dim=4, average={"ema_dim": 2})

# path in the block -> name in the golden files
GOLDEN_NAMES = {
    "value": "v",
    "gate": "mx",
    "hidden": "h",
    "ema": "ema",
    "norm": "norm",
    "attention/bias_table": "rel_bias",
    "attention/gamma": "gamma",
    "attention/beta": "beta",
    "feed_forward/norm": "ffn_norm",
    "feed_forward/mlp_in": "ffn_fc1",
    "feed_forward/mlp_out": "ffn_fc2",
}


def path(weight):
    return weight.path.partition("/")[2]


def golden_name(weight):
    whole = path(weight)
    part, _, last = whole.rpartition("/")
    return GOLDEN_NAMES.get(whole) or f"{GOLDEN_NAMES[part]}_{last}"


def make(mixer="softmax", shape=X.shape, **arguments):
    """Return a built block with large random weights, so that no value is near zero."""
    block = MegaBlock(mixer=mixer, **{**SMALL, **arguments})
    block.build(shape)
    rng = np.random.default_rng(3)
    for weight in block.weights:
        shift = 1 if "variance" in weight.path else 0
        values = rng.normal(size=weight.shape, scale=0.5)
        weight.assign(np.abs(values) + shift if shift else values)
    return block


def weights_by_layer(block):
    """Return lists of float64 weights, by the path of their layer."""
    found = {}
    for weight in block.weights:
        values = weight.numpy().astype("float64")
        found.setdefault(path(weight).rpartition("/")[0], []).append(values)
    return found


def attending(block, mask, size=None):
    """Return the oracle's mixing function for a block with attention."""
    attention = block.attention
    weights = {weight.name: weight.numpy().astype("float64") for weight in attention.weights}

    def mix(shared, values):
        mixed = np.zeros_like(values)
        for sample in range(len(values)):
            for part in oracle_mega.chunks(values.shape[1], size or values.shape[1]):
                tokens = len(values[sample, part])
                real = np.ones(tokens, bool) if mask is None else mask[sample, part]
                query, key = (
                    shared[sample, part] * weights["gamma"][i] + weights["beta"][i]
                    for i in range(2)
                )
                if attention.position_bias == "simple":
                    bias = oracle_mega.simple_bias(weights["bias_table"], tokens)
                else:
                    bias = oracle_mega.rotary_bias(weights["bias_a"], weights["bias_b"], tokens)
                mixed[sample, part] = oracle_mega.attend(
                    block.mixer, query, key, values[sample, part], bias, real, block.causal
                )
        return mixed

    return mix


def permuting(schedule, group_size, mask):
    """Return the oracle's mixing function for a block with CSP and ten inner channels."""

    def mix(shared, values):
        assert shared.shape[-1] == 0
        steps = oracle.schedule(schedule, 10)
        return oracle.values(values, oracle.csp(values, steps, group_size, mask=mask))

    return mix


def expected(block, inputs, mix, mask=None):
    return oracle_mega.mega_block(
        inputs.astype("float64"),
        weights_by_layer(block),
        mix,
        kind=block.norm,
        norm_first=block.norm_first,
        truncation=block.ema.truncation,
        mask=mask,
    )


GOLDEN_CSP = load_golden("mega_csp_layer")
DEPTH = dict(
    layer_index=int(GOLDEN_CSP["exp_layer_index"]), num_layers=int(GOLDEN_CSP["exp_num_layers"])
)
GOLDEN_BLOCKS = {
    "softmax": ("mega_layer", "s_", "softmax_out", "softmax"),
    "laplace": ("mega_layer", "l_", "laplace_out", "laplace"),
    "complete sort": ("mega_csp_layer", "a_", "complete_sort_out", CSP(None, **BARE)),
    "power shift": (
        "mega_csp_layer",
        "b_",
        "exp_shift_G2_out",
        CSP(2, "power_code", **DEPTH, **BARE),
    ),
}


@pytest.mark.parametrize("name", GOLDEN_BLOCKS)
def test_gated_half_matches_authors(name):
    """The last kernel of the feed-forward layer is zero, so that the layer adds nothing."""
    file, prefix, wanted, mixer = GOLDEN_BLOCKS[name]
    golden = load_golden(file)
    block = MegaBlock(
        mixer=mixer, **SMALL, attention=dict(max_sequence_length=16), drop_unused=False
    )
    block.build(golden["x"].shape)
    for weight in block.weights:
        if "feed_forward" not in weight.path:
            weight.assign(golden[prefix + golden_name(weight)])
    block.feed_forward.mlp_out.kernel.assign(np.zeros((10, 6)))
    assert_close(to_numpy(block(golden["x"].astype("float32"))), golden[wanted])


def test_golden_shifts_match_authors():
    steps = CSP(2, "power_code", **DEPTH, **BARE).steps(GOLDEN_CSP["x"].shape[1], 10)
    np.testing.assert_array_equal(steps, GOLDEN_CSP["exp_shifts"])


def test_feed_forward_matches_authors():
    """The gate is closed, so that the gated half changes nothing."""
    golden = load_golden("mega_layer")
    block = MegaBlock(mlp_dim=9, **SMALL)
    block.build(golden["x"].shape)
    block.gate_dense.bias.assign(np.full(block.gate_dense.units, -1e4))
    for weight in block.feed_forward.weights:
        weight.assign(golden[golden_name(weight)])
    assert_close(to_numpy(block(golden["x"].astype("float32"))), golden["ffn_out"])


ATTENTIONS = {
    "softmax": dict(),
    "laplace": dict(mixer="laplace"),
    "relu2": dict(mixer="relu2"),
    "longer table": dict(attention=dict(max_sequence_length=20)),
    "rotary": dict(attention=ROTARY),
    "rotary laplace": dict(attention=ROTARY, mixer="laplace", shared_dim=6),
    "causal": dict(causal=True),
    "causal laplace": dict(causal=True, mixer="laplace"),
    "postnorm": dict(norm_first=False),
    "truncated": dict(average=dict(truncation=3), mlp_dim=7),
    **{kind: dict(norm=kind) for kind in NORMS},
    "postnorm batchnorm": dict(norm="batchnorm", norm_first=False),
}


@pytest.mark.parametrize(
    ("name", "masked"),
    [
        *((name, True) for name in ATTENTIONS),
        *((name, False) for name in ("softmax", "laplace", "rotary")),
    ],
)
def test_block_matches_numpy(name, masked):
    block = make(**ATTENTIONS[name])
    mask = MASK if masked else None
    wanted = expected(block, X, attending(block, mask), mask)
    assert_close(to_numpy(block(X, mask=mask)), wanted)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("mixer", ["softmax", "laplace", "relu2"])
@pytest.mark.parametrize("chunk_size", [4, 5, 12, 16])
def test_chunks_attend_independently(chunk_size, mixer, masked):
    """The last chunk may be shorter, and a chunk may be all padding."""
    block = make(mixer, attention=dict(chunk_size=chunk_size, ragged=True))
    mask = MASK if masked else None
    wanted = expected(block, X, attending(block, mask, chunk_size), mask)
    outputs = to_numpy(block(X, mask=mask))
    assert np.isfinite(outputs).all()
    real = MASK if masked else np.ones_like(MASK)
    assert_close(outputs[real], wanted[real])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("mixer", "schedule", "group_size"),
    [(CSP(2, **BARE), "linear", 2), (CSP(None, "unit", **BARE), "unit", None)],
)
def test_permuting_block_matches_numpy(mixer, schedule, group_size, masked):
    block = make(mixer)
    mask = MASK if masked else None
    mix = permuting(schedule, group_size, mask)
    assert_close(to_numpy(block(X, mask=mask)), expected(block, X, mix, mask))


@pytest.mark.parametrize("masked", [False, True])
def test_layer_without_mask_argument_matches_numpy(masked):
    block = make(keras.layers.Dense(10, use_bias=False))
    mask = MASK if masked else None
    kernel = block.mixer.kernel.numpy().astype("float64")
    wanted = expected(block, X, lambda shared, values: values @ kernel, mask)
    assert_close(to_numpy(block(X, mask=mask)), wanted)


def test_attention_of_keras_ignores_padding():
    block = make(keras.layers.MultiHeadAttention(num_heads=2, key_dim=3))
    outputs = to_numpy(block(X, mask=MASK))
    for sample, (length,) in enumerate(LENGTHS):
        alone = to_numpy(block(X[sample : sample + 1, :length]))
        assert_close(outputs[sample, :length], alone[0])


def test_causal_block_ignores_later_tokens():
    for mixer in ("softmax", "laplace", "relu2"):
        block = make(mixer, causal=True)
        whole = to_numpy(block(X))
        for tokens in (2, 7):
            alone = expected(block, X[:, :tokens], attending(block, None))
            assert_close(whole[:, :tokens], alone)


@pytest.mark.parametrize("mixer", ["softmax", "laplace", "relu2"])
def test_padding_of_nan_is_ignored(mixer):
    block = make(mixer)
    filled = np.where(MASK[..., None], X, np.nan).astype("float32")
    expected = to_numpy(block(X, mask=MASK))[MASK]
    assert_close(to_numpy(block(filled, mask=MASK))[MASK], expected)


@pytest.mark.parametrize("mixer", ["softmax", "laplace", "csp"])
def test_padding_matches_shorter_sequence(mixer):
    block = make(CSP(None, **BARE) if mixer == "csp" else mixer)
    mix = permuting("linear", None, None) if mixer == "csp" else attending(block, None)
    outputs = to_numpy(block(X, mask=MASK))
    for sample, (length,) in enumerate(LENGTHS):
        alone = expected(block, X[sample : sample + 1, :length], mix)
        assert_close(outputs[sample, :length], alone[0])


def test_batch_statistics_exclude_padding():
    norm = make_norm("batchnorm")
    other = np.where(MASK[..., None], X, 100)
    outputs = to_numpy(functional_norm(norm)([other, MASK], training=True))
    real = X[MASK].astype("float64")
    wanted = (real - real.mean(axis=0)) / np.sqrt(real.var(axis=0) + 1e-5)
    assert_close(outputs[MASK], wanted)


def functional_norm(norm):
    inputs, mask = keras.Input((12, 6)), keras.Input((12,), dtype="bool")
    return keras.Model([inputs, mask], normalize(norm, inputs, mask))


def test_unused_weights_are_dropped():
    dropped, kept = (make(CSP(**BARE), drop_unused=drop) for drop in (True, False))
    assert kept.count_params() - dropped.count_params() == (6 + 1) * 4 + 2 * 2 * 4 + 23
    frozen = {weight.name for weight in kept.non_trainable_weights}
    assert frozen == {"gamma", "beta", "bias_table"}


def test_simple_bias_matches_authors():
    golden = load_golden("mega_parts")
    for tokens in (4, 6):
        bias = to_numpy(simple_bias(golden["simple_bias_table"].astype("float32"), tokens))
        wanted = golden[f"simple_bias_max6_len{tokens}"]
        np.testing.assert_array_equal(bias, wanted.astype("float32"))


def test_rotary_bias_matches_authors():
    golden = load_golden("mega_parts")
    a, b = (golden[f"rotary_{name}"][0].astype("float32") for name in ("alpha", "beta"))
    positions = np.arange(5)
    assert_close(to_numpy(rotary_bias(a, b, positions, positions)), golden["rotary_bias_len5"])


@pytest.mark.parametrize("function", ["laplace", "relu2"])
def test_attention_functions_match_authors(function):
    golden = load_golden("mega_parts")
    values = MegaAttention(function)._activate(golden["laplace_in"].astype("float32"))
    assert_close(to_numpy(values), golden[f"{function}_out"])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scalenorm_matches_authors(dtype):
    if dtype == "float64" and keras.config.backend() == "jax":
        pytest.skip("JAX disables float64 by default")
    golden = load_golden("mega_parts")
    norm = make_norm("scalenorm", dtype=dtype)
    norm.build((5, 5))
    outputs = norm(keras.ops.convert_to_tensor(golden["scalenorm_in"], dtype))
    assert keras.backend.standardize_dtype(outputs.dtype) == dtype
    assert_close(to_numpy(outputs), golden["scalenorm_out"], dtype=dtype)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(inner_dim=0), "`inner_dim` must be a positive integer.*0"),
        (dict(shared_dim=None), "`shared_dim` must be a positive integer.*None"),
        (dict(mixer="linear"), "`mixer` must be one of.*'linear'"),
        (dict(mlp_dim=0), "`mlp_dim` must be a positive integer.*0"),
        (dict(average=dict(ema_dim=0)), "`ema_dim` must be a positive integer.*0"),
        (dict(average=dict(truncation=0)), "`truncation` must be a positive integer.*0"),
        (dict(attention=dict(position_bias="sine")), "`position_bias` must be one of.*'sine'"),
        (dict(attention=ROTARY, shared_dim=5), "`shared_dim` must be even.*5"),
        (
            dict(attention=dict(max_sequence_length=0)),
            "`max_sequence_length` must be a positive integer.*0",
        ),
        (
            dict(attention=dict(max_sequence_length=8)),
            "at most max_sequence_length=8.*tokens=12",
        ),
        (dict(attention=dict(chunk_size=5)), "chunk_size=5 must divide.*tokens=12"),
        (dict(norm="groupnorm"), "`norm` must be one of.*'groupnorm'"),
        (dict(dropout=1), r"`dropout` must be in \[0, 1\).*1"),
        (dict(hidden_dropout=-1), r"`hidden_dropout` must be in \[0, 1\).*-1"),
        (dict(attention=dict(dropout=2)), r"`dropout` must be in \[0, 1\).*2"),
        (dict(mixer=CSP(**BARE), causal=True), "`mixer` must be an attention function.*CSP"),
        (
            dict(mixer=SliceSort(**BARE), attention=dict(chunk_size=4)),
            "`mixer` must be an attention function.*SliceSort",
        ),
        (
            dict(causal=True, average=dict(bidirectional=True)),
            "`average` must not set .*'bidirectional': True",
        ),
    ],
)
def test_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        MegaBlock(**{**SMALL, **arguments})(X)


@pytest.mark.parametrize("tokens", [None, 0])
def test_unknown_or_zero_length_requires_max_length(tokens):
    message = f"`max_sequence_length` or `chunk_size` must be set.*tokens={tokens}"
    with pytest.raises(ValueError, match=message):
        functional(MegaBlock(**SMALL), (tokens, 6))


@pytest.mark.parametrize(
    "make_block",
    [
        partial(MegaBlock, attention=dict(max_sequence_length=16)),
        partial(MegaBlock, mixer="laplace", attention=dict(chunk_size=8, ragged=True)),
        partial(
            MegaBlock,
            mixer="relu2",
            average=dict(truncation=3),
            attention=ROTARY,
            norm="scalenorm",
        ),
    ],
)
def test_block_supports_any_length(make_block):
    block = make_block(**SMALL)
    inputs, mask = keras.Input((None, 6)), keras.Input((None,), dtype="bool")
    model = keras.Model([inputs, mask], block(inputs, mask=mask))
    for tokens in (12, 5, 9):
        part, real = X[:, :tokens], MASK[:, :tokens]
        outputs = model.predict([part, real], verbose=0)
        mix = attending(block, real, 8 if block.mixer == "laplace" else None)
        assert_close(outputs[real], expected(block, part, mix, real)[real])


@pytest.mark.parametrize("jit", [False, True], ids=["", "jit"])
@pytest.mark.parametrize(
    ("attention", "message"),
    [
        (
            dict(max_sequence_length=10),
            "at most max_sequence_length=10.*tokens=.*12",
        ),
        (dict(chunk_size=5), "chunk_size=5 must divide.*tokens=.*12"),
    ],
)
def test_unknown_length_is_checked_at_run_time(attention, message, jit):
    """From the second length on, TensorFlow traces for any length. The third one is invalid."""
    model = functional(MegaBlock(**SMALL, attention=attention), (None, 6))
    model.compile(jit_compile=jit and keras.config.backend() != "torch")
    for tokens in (10, 5):
        model.predict(X[:, :tokens], verbose=0)
    if jit and keras.config.backend() == "tensorflow":  # XLA reaches the reshape first
        message = "Input to reshape is a tensor with 144 values"
    with pytest.raises(Exception, match=f"(?s){message}"):
        model.predict(X, verbose=0)


def test_unidirectional_average_with_bidirectional_attention():
    block = make(average=dict(ema_dim=2, bidirectional=False))
    wanted = expected(block, X, attending(block, None))
    assert_close(to_numpy(block(X)), wanted)
    assert block.ema.delta.shape == (6, 2)


def test_average_matches_authors():
    """The golden unidirectional average is from a block with bidirectional attention."""
    golden = load_golden("mega_parts")
    block = MegaBlock(shared_dim=4, average=dict(ema_dim=2, bidirectional=False))
    block.build(golden["x"].shape)
    block.ema.set_weights([golden[f"uni_{weight.name}"] for weight in block.ema.weights])
    assert_close(to_numpy(block.ema(golden["x"].astype("float32"))), golden["uni_out"])
