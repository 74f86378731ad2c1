"""Test ops against the NumPy oracle over shapes, steps, groups, masks, dtypes and ties.

Permutations do not round, so values and gradients must match bit for bit. The backends therefore
also match each other.
"""

import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_permix import ops
from tests.backends import BACKEND, compiled, value_and_gradient
from tests.harness import assert_same, to_numpy
from tests.oracle import permutations as oracle

DTYPES = ("float32", "float16", "bfloat16", "int32", "int8")
SETTINGS = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# A fixed set of shapes limits recompilation.
SHAPES = ((2, 8, 6), (1, 12, 3), (3, 7, 4), (2, 1, 2), (1, 33, 5))


@st.composite
def tensors(draw, dtypes=DTYPES):
    """Draw an array of one of the shapes, with many ties and, for floats, infinities."""
    shape, dtype = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(dtypes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        x = rng.integers(-2, 3, shape).astype("float32")
    else:
        x = rng.normal(size=shape).astype("float32")
    if "int" in dtype:
        return (4 * x).astype(dtype), dtype
    if draw(st.booleans()):
        x[rng.random(shape) < 0.2] = np.inf
        x[rng.random(shape) < 0.2] = -np.inf
    # Round to values that bfloat16 and float16 represent exactly.
    return np.where(np.isinf(x), x, (8 * x).round() / 8).astype("float32"), dtype


@st.composite
def masks(draw, shape):
    """Draw no mask, or one with gaps. A sample may be all padding."""
    if draw(st.booleans()):
        return None
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.random(shape[:2]) < draw(st.sampled_from((0.0, 0.5, 0.9)))


def check(function, x, dtype, sources):
    """Check values, and gradients of floats, against the source positions of the oracle."""
    tensor = keras.ops.convert_to_tensor(x, dtype)
    if "int" in dtype:
        result = function(tensor)
    else:
        cotangent = np.random.default_rng(1).integers(-8, 9, x.shape).astype("float32")
        result, gradient = value_and_gradient(function, tensor, keras.ops.cast(cotangent, dtype))
        np.testing.assert_array_equal(to_numpy(gradient), oracle.gradient(cotangent, sources))
    assert keras.backend.standardize_dtype(result.dtype) == dtype
    assert_same(to_numpy(result), oracle.values(x, sources))


@SETTINGS
@given(data=st.data(), tensor=tensors())
def test_csp(data, tensor):
    x, dtype = tensor
    steps = data.draw(st.lists(st.integers(-40, 40), min_size=x.shape[2], max_size=x.shape[2]))
    group_size = data.draw(st.sampled_from((1, 2, 3, 4, x.shape[1])))
    align = data.draw(st.sampled_from(("independent", "reference")))
    mask = data.draw(masks(x.shape))
    ragged = x.shape[1] % group_size != 0
    check(
        lambda t: ops.csp(t, steps, group_size, align=align, mask=mask, ragged=ragged),
        x,
        dtype,
        oracle.csp(x, steps, group_size, align, mask),
    )


@SETTINGS
@given(data=st.data(), tensor=tensors())
def test_group_sort(data, tensor):
    x, dtype = tensor
    group_size = data.draw(st.sampled_from((None, 1, 2, 3, x.shape[1])))
    mask = data.draw(masks(x.shape))
    size = group_size or x.shape[1]
    check(
        lambda t: ops.group_sort(t, group_size, mask=mask, ragged=x.shape[1] % size != 0),
        x,
        dtype,
        oracle.csp(x, [0] * x.shape[2], size, mask=mask),
    )


@SETTINGS
@given(data=st.data(), tensor=tensors())
def test_channel_shift(data, tensor):
    x, dtype = tensor
    steps = data.draw(st.lists(st.integers(-40, 40), min_size=x.shape[2], max_size=x.shape[2]))
    mask = data.draw(masks(x.shape))
    check(
        lambda t: ops.channel_shift(t, steps, mask=mask),
        x,
        dtype,
        oracle.csp(x, steps, 1, mask=mask),
    )


@SETTINGS
@given(data=st.data(), tensor=tensors())
def test_slice_sort(data, tensor):
    x, dtype = tensor
    per_channel = st.lists(st.booleans(), min_size=x.shape[2], max_size=x.shape[2])
    descending = data.draw(st.one_of(st.booleans(), per_channel))
    mask = data.draw(masks(x.shape))
    check(
        lambda t: ops.slice_sort(t, descending, mask=mask),
        x,
        dtype,
        oracle.slice_sort(x, descending, mask),
    )


@SETTINGS
@given(data=st.data(), tensor=tensors())
def test_max_exchange(data, tensor):
    x, dtype = tensor
    mask = data.draw(masks(x.shape))
    check(lambda t: ops.max_exchange(t, mask=mask), x, dtype, oracle.max_exchange(x, mask))


LARGE = np.random.default_rng(0).normal(size=(2, 64, 24)).astype("float32")
LONG = np.random.default_rng(1).normal(size=(1, 1024, 4)).astype("float32")
STEPS = tuple(range(24))
# name -> (op, tokens, function from tokens to the source positions of the oracle)
CASES = {
    "csp, pairs": (lambda t: ops.csp(t, STEPS, 2), LARGE, lambda x: oracle.csp(x, STEPS, 2)),
    "csp, groups of 16": (
        lambda t: ops.csp(t, STEPS, 16), LARGE, lambda x: oracle.csp(x, STEPS, 16)
    ),
    "shift": (lambda t: ops.channel_shift(t, STEPS), LARGE, lambda x: oracle.csp(x, STEPS, 1)),
    "sort": (ops.slice_sort, LARGE, oracle.slice_sort),
    "sort of 1024": (ops.slice_sort, LONG, oracle.slice_sort),
    "descending": (lambda t: ops.slice_sort(t, True), LARGE, lambda x: oracle.slice_sort(x, True)),
    "exchange": (ops.max_exchange, LARGE, oracle.max_exchange),
}  # fmt: skip
LARGE_CASES = {case: (function, x, sources(x)) for case, (function, x, sources) in CASES.items()}


@pytest.mark.parametrize("case", LARGE_CASES)
def test_large(case):
    function, x, sources = LARGE_CASES[case]
    check(function, x, "float32", sources)


# torch.compile uses deprecated PyTorch APIs.
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.skipif(BACKEND == "jax", reason="`test_large` compiles on JAX")
@pytest.mark.parametrize("case", LARGE_CASES)
def test_compiled(case):
    function, x, sources = LARGE_CASES[case]
    check(compiled(function), x, "float32", sources)


@pytest.mark.parametrize("case", LARGE_CASES)
def test_reference_matches_oracle(case, monkeypatch):
    monkeypatch.setattr("keras_permix.ops.dispatch.dispatch.FORCED", "reference")
    function, x, sources = LARGE_CASES[case]
    check(function, x, "float32", sources)


def test_subnormal_numbers_differ_from_zero():
    x = np.float32([1e-40, -1e-40, 3e-41, 0.0, 2e-40, 1e-41]).reshape(1, 6, 1)
    result = to_numpy(ops.csp(x, (0,), 2))
    assert result.tobytes() == oracle.values(x, oracle.csp(x, [0], 2)).tobytes()
    result = to_numpy(ops.slice_sort(x))
    assert result.tobytes() == np.sort(x, axis=1).tobytes()


def test_zeros_keep_their_signs():
    zeros = np.random.default_rng(0).choice(np.float32([-0.0, 0.0]), (2, 16, 4))
    for result in (ops.csp(zeros, (0, 1, 2, 3), 2), ops.csp(zeros, (0, 1, 2, 3), 8)):
        signs = np.signbit(to_numpy(result))
        np.testing.assert_array_equal(signs.sum(axis=1), np.signbit(zeros).sum(axis=1))


@pytest.mark.parametrize("implementation", [None, "reference"])
def test_exchange_prefers_the_first_zero_of_any_sign(implementation):
    x = np.array([-0.0, 0.0, -1.0], "float32").reshape(1, 3, 1)
    result = to_numpy(ops.max_exchange(x, implementation=implementation))
    np.testing.assert_array_equal(np.signbit(result), np.signbit(x))


def test_group_larger_than_memory_is_one_group():
    x, mask = np.arange(8, 0, -1).astype("float32").reshape(1, 8, 1), np.arange(8)[None] < 6
    for implementation in (None, "reference"):
        given = dict(mask=mask, implementation=implementation)
        result = to_numpy(ops.group_sort(x, 1 << 33, ragged=True, **given))
        assert result.ravel().tolist() == [3, 4, 5, 6, 7, 8, 0, 0]


def test_nan_count_is_preserved():
    x = np.random.default_rng(0).normal(size=(1, 16, 4)).astype("float32")
    x[0, [3, 7], :] = np.nan
    for result in (ops.csp(x, (0, 1, 2, 3), 2), ops.slice_sort(x), ops.max_exchange(x)):
        assert np.isnan(to_numpy(result)).sum() == np.isnan(x).sum()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_token_count_beyond_16_bits(dtype):
    x = np.random.default_rng(0).integers(-3, 4, (1, 70_000, 2)).astype("float32")
    check(ops.slice_sort, x, dtype, oracle.slice_sort(x))
