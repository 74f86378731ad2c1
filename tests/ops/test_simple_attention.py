"""Test `simple_attention` against its quadratic form in NumPy, and its memory use."""

import sys

import keras
import numpy as np
import pytest

from keras_permix import ops
from keras_permix.bench.timing import peak_megabytes
from tests.backends import BACKEND, compiled, value_and_gradient
from tests.harness import assert_close, load_golden, to_numpy
from tests.oracle import attention as oracle

# A partial chunk of 32 tokens, two full chunks, and chunks of 40 tokens with a partial last one.
SHAPES = ((2, 5, 3, 4), (2, 64, 1, 8), (1, 90, 2, 40))
SCALES = ("length", "valid", None)


def arrays(shape, seed=0):
    """Return query, key and value, stacked."""
    return np.random.default_rng(seed).normal(scale=0.5, size=(3, *shape)).astype("float32")


def gaps(shape):
    """Return a mask with gaps. The first token and the last sample are padding."""
    mask = np.random.default_rng(1).random(shape[:2]) < 0.6
    mask[:, 0] = mask[-1] = False
    return mask


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients_match_quadratic_form(shape, scale, masked, causal):
    stacked, cotangent = arrays(shape), arrays(shape, seed=2)[0]
    options = dict(scale=scale, causal=causal, mask=gaps(shape) if masked else None)
    value, gradient = value_and_gradient(
        lambda t: ops.simple_attention(t[0], t[1], t[2], **options), stacked, cotangent
    )
    assert_close(to_numpy(value), oracle.simple_attention(*stacked, **options))
    expected = oracle.simple_attention_gradients(*stacked, cotangent, **options)
    assert_close(to_numpy(gradient), np.stack(expected))


def test_values_match_golden():
    golden = load_golden("simpletron")
    parts = (golden["x"] @ golden[f"{name}_kernel"] + golden[f"{name}_bias"] for name in "qkv")
    query, key, value = (part.reshape(2, 5, 2, 4).astype("float32") for part in parts)
    result = to_numpy(ops.simple_attention(query, key, value))
    assert_close(result.reshape(2, 5, 8), golden["core_2heads"])


@pytest.mark.skipif(keras.config.backend() == "jax", reason="JAX has no float64 without a flag")
@pytest.mark.parametrize("causal", [False, True])
def test_float64_is_preserved(causal):
    stacked = arrays((2, 40, 2, 3)).astype("float64")
    result = to_numpy(ops.simple_attention(*stacked, causal=causal))
    wanted = oracle.simple_attention(*stacked, causal=causal)
    assert result.dtype == "float64"
    assert_close(result, wanted, "float64")


@pytest.mark.parametrize("causal", [False, True])
def test_values_of_different_width(causal):
    query, key, _ = arrays((2, 40, 2, 3))
    value = arrays((2, 40, 2, 7))[2]
    result = to_numpy(ops.simple_attention(query, key, value, causal=causal))
    assert_close(result, oracle.simple_attention(query, key, value, causal=causal))


@pytest.mark.parametrize("causal", [False, True])
def test_padding_values_are_ignored(causal):
    stacked, mask = arrays((2, 40, 2, 3)), gaps((2, 40))
    options = dict(mask=mask, scale="valid", causal=causal)
    spoiled = stacked.copy()
    spoiled[1:, ~mask] = np.nan
    expected = to_numpy(ops.simple_attention(*stacked, **options))
    np.testing.assert_array_equal(to_numpy(ops.simple_attention(*spoiled, **options)), expected)


def test_causal_ignores_later_tokens():
    stacked = arrays((1, 80, 2, 3))
    later = stacked.copy()
    later[:, :, 50:] += 1
    first, second = (
        to_numpy(ops.simple_attention(*three, scale="valid", causal=True))
        for three in (stacked, later)
    )
    assert_close(first[:, :50], second[:, :50])
    assert not np.allclose(first[:, 50:], second[:, 50:])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(0, 40, 2, 3), (2, 0, 2, 3), (0, 0, 2, 3)], ids=str)
def test_empty_inputs_keep_their_shape(shape, causal, masked):
    mask = np.ones(shape[:2], bool) if masked else None
    stacked = np.zeros((3, *shape), "float32")
    value, gradient = value_and_gradient(
        lambda t: ops.simple_attention(*t, scale="valid", mask=mask, causal=causal),
        stacked,
        stacked[0],
    )
    assert value.shape == shape and gradient.shape == (3, *shape)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_long_sums_in_low_precision(dtype, causal):
    """65,536 ones overflow float16. Added one by one, they exceed the precision of bfloat16."""
    ones = keras.ops.ones((1, 65536, 1, 1), dtype)
    result = ops.simple_attention(ones, ones, ones, causal=causal)
    assert keras.backend.standardize_dtype(result.dtype) == dtype
    seen = np.arange(1, 65537) if causal else 65536
    assert_close(to_numpy(result)[0, :, 0, 0], np.broadcast_to(seen**0.5, 65536), dtype)


# torch.compile uses deprecated PyTorch APIs.
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_compiled():
    stacked = arrays((2, 70, 2, 3))
    function = compiled(lambda t: ops.simple_attention(t[0], t[1], t[2], causal=True))
    result = to_numpy(function(keras.ops.convert_to_tensor(stacked)))
    assert_close(result, oracle.simple_attention(*stacked, causal=True))


@pytest.mark.parametrize("causal", [False, True])
def test_symbolic_call_of_any_length(causal):
    inputs = [keras.Input((None, 2, 3)) for _ in range(3)]
    mask = keras.Input((None,), dtype="bool")
    outputs = ops.simple_attention(*inputs, mask=mask, scale="valid", causal=causal)
    assert outputs.shape == (None, None, 2, 3)
    model = keras.Model([*inputs, mask], outputs)
    model = keras.Model.from_config(model.get_config())
    for tokens in (70, 5, 33):
        stacked, marks = arrays((2, tokens, 2, 3)), gaps((2, tokens))
        expected = oracle.simple_attention(*stacked, marks, "valid", causal)
        assert_close(model.predict([*stacked, marks], verbose=0), expected)


def test_explain():
    query, key, value = arrays((1, 4, 1, 2))
    assert ops.explain("simple_attention", query, key, value).chosen == "reference"


@pytest.mark.skipif(
    sys.platform != "linux" or BACKEND == "tensorflow", reason="memory cannot be measured"
)
@pytest.mark.parametrize("causal", [False, True])
def test_memory_is_linear_in_tokens(causal):
    """A map of 65,536 tokens takes 4 GiB even at one byte per entry.

    A float32 tensor of shape `(tokens, d, d)` takes 1 GiB, a query 16 MiB.
    """
    stacked = arrays((1, 65536, 1, 64))

    def attend(t):
        return ops.simple_attention(t[0], t[1], t[2], causal=causal)

    assert peak_megabytes(lambda: value_and_gradient(attend, stacked, stacked[0])) < 1000


WRONG = {
    "rank": (dict(query=np.zeros((2, 5, 8))), r"must have the same shape.*\(2, 5, 8\)"),
    "tokens": (dict(key=np.zeros((2, 4, 2, 4))), r"shapes=.*\(2, 4, 2, 4\)"),
    "heads": (dict(value=np.zeros((2, 5, 1, 4))), r"shapes=.*\(2, 5, 1, 4\)"),
    "channels": (dict(key=np.zeros((2, 5, 2, 3))), r"shapes=.*\(2, 5, 2, 3\)"),
    "integers": (dict(query=np.zeros((2, 5, 2, 4), int)), "`query` must be floating.*int"),
    "dtypes": (dict(value=np.zeros((2, 5, 2, 4), "float16")), "the same dtype.*float16"),
    "mask": (dict(mask=np.ones((2, 4), bool)), r"`mask`.*of `query`.*query.shape=\(2, 5, 2, 4\)"),
    "scale": (dict(scale="depth"), r"`scale` must be one of \('length', 'valid', None\).*'depth'"),
}


def test_symbolic_and_known_tensors_are_combined():
    known = keras.ops.ones((1, 4, 2, 3))
    result = ops.simple_attention(keras.Input((4, 2, 3), batch_size=1), known, known)
    assert result.shape == (1, 4, 2, 3)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_argument_raises(name):
    arguments, message = WRONG[name]
    good = dict(zip(("query", "key", "value"), np.zeros((3, 2, 5, 2, 4)), strict=True))
    with pytest.raises(ValueError, match=f"(?s){message}"):
        ops.simple_attention(**{**good, **arguments})
