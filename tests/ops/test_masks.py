"""Test masked permutations against the NumPy oracle, bit for bit.

Cases run with the reference and with the implementation chosen by default. One batch holds every
kind of mask. Neither values nor gradients may depend on padding.
"""

import keras
import numpy as np
import pytest

from keras_permix import ops
from keras_permix.ops import ShiftSchedule
from tests.backends import compiled, value_and_gradient
from tests.harness import assert_same, to_numpy
from tests.oracle import permutations as oracle

MASK = np.array(
    [
        [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],  # all real
        [1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0],  # real tokens first
        [0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1],  # gaps
        [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1],  # padding first
        [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],  # one real token
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],  # all padding
    ],
    bool,
)
X = np.random.default_rng(0).integers(-8, 9, (*MASK.shape, 7)).astype("float32") / 4  # many ties
COTANGENT = np.random.default_rng(1).integers(1, 99, X.shape).astype("float32")
SMALL = (0, 1, 5, -1, 12, 40, -40)
HUGE = (0, 2**31, -(2**31) - 1, 2**62 + 3, -(2**63), 10**30 + 1, -(10**30))

# Schedules use the number of real tokens. The oracle gets the name and sizes of a schedule.
SCHEDULES = {
    "linear": ShiftSchedule("linear", 7),
    "linear_paper": ShiftSchedule("linear_paper", 7),
    "linear_code": ShiftSchedule("linear_code", 7, group_size=3),
    "linear_head": ShiftSchedule("linear_head", 7),
    "unit": ShiftSchedule("unit", 7),
    "power": ShiftSchedule("power", 7, layer_index=1, num_layers=3),
    "power_code": ShiftSchedule("power_code", 7),
    "random": ShiftSchedule("random", 7, layer_index=1, num_layers=2),
    "zero": ShiftSchedule("zero", 7),
}

# name -> (op, positional arguments, keyword arguments)
CASES = {
    "channel_shift": ("channel_shift", (SMALL,), {}),
    "channel_shift huge": ("channel_shift", (HUGE,), {}),
    "slice_sort": ("slice_sort", (), {}),
    "slice_sort down": ("slice_sort", (True,), {}),
    "slice_sort both": ("slice_sort", ((True, False) * 3 + (True,),), {}),
    "max_exchange": ("max_exchange", (), {}),
}
for size in (1, 2, 3, 7, None):
    for align in ("independent", "reference"):
        named = {"align": align, "ragged": size == 7}
        steps = {"small": SMALL, "huge": HUGE}
        CASES[f"group_sort {size} {align}"] = ("group_sort", (size,), named)
        for kind, values in steps.items():
            CASES[f"csp {size} {align} {kind}"] = ("csp", (values, size), named)
for name, schedule in SCHEDULES.items():
    CASES[f"shift by {name}"] = ("channel_shift", (schedule,), {})
CASES["csp 2 by linear"] = ("csp", (SCHEDULES["linear"], 2), {})
CASES["csp 3 reference by power"] = ("csp", (SCHEDULES["power"], 3), {"align": "reference"})
COMPILED = (
    "shift by linear",
    "csp 3 reference by power",
    "channel_shift huge",
    "slice_sort both",
    "max_exchange",
    "group_sort 7 independent",
    "csp 2 independent small",
    "csp 3 reference huge",
)


WITH_64_BITS = pytest.mark.skipif(
    keras.config.backend() == "jax", reason="JAX has no 64 bits without a flag"
)
INTEGERS = ("int32", "int8", "uint8", pytest.param("int64", marks=WITH_64_BITS))


@pytest.fixture(params=["reference", "chosen"])
def implementation(request):
    return request.param


def call(case, implementation, dtype="float32"):
    """Return the op of a case as a function of `x`, and the source positions of the oracle."""
    name, arguments, named = CASES[case]
    if implementation == "chosen":
        x = keras.ops.convert_to_tensor(X, dtype)
        implementation = ops.explain(name, x, *arguments, mask=MASK, **named).chosen
        assert implementation != "reference"

    def function(x):
        op = getattr(ops, name)
        return op(x, *arguments, mask=MASK, implementation=implementation, **named)

    described = {key: value for key, value in named.items() if key != "ragged"}
    known = [_described(argument) for argument in arguments]
    return function, getattr(oracle, name)(X, *known, mask=MASK, **described)


def _described(argument):
    """Convert a schedule to that of the oracle."""
    if isinstance(argument, ShiftSchedule):
        return oracle.schedule(**argument.get_config())
    return argument


def check(function, sources, dtype="float32", whole=True):
    x, cotangent = (keras.ops.convert_to_tensor(array, dtype) for array in (X, COTANGENT))
    value, gradient = value_and_gradient(function, x, cotangent, whole)
    assert keras.backend.standardize_dtype(value.dtype) == dtype
    assert_same(to_numpy(value), oracle.values(X, sources))
    np.testing.assert_array_equal(to_numpy(gradient), oracle.gradient(COTANGENT, sources))


@pytest.mark.parametrize("case", CASES)
def test_masked(case, implementation):
    check(*call(case, implementation), whole=implementation != "reference")


@WITH_64_BITS
@pytest.mark.parametrize("case", COMPILED)
def test_masked_in_float64(case, implementation):
    check(*call(case, implementation, "float64"), "float64", whole=implementation != "reference")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", COMPILED)
def test_masked_in_low_precision(case, dtype, implementation):
    check(*call(case, implementation, dtype), dtype, whole=implementation != "reference")


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("case", COMPILED)
def test_masked_integers(case, dtype, implementation):
    function, sources = call(case, implementation, dtype)
    whole = (4 * X + 8 * (dtype == "uint8")).astype(dtype)
    result = to_numpy(function(keras.ops.convert_to_tensor(whole)))
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, oracle.values(whole, sources))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_ragged_groups_of_integers(dtype):
    """Fill values must not sort before the largest integer of any dtype."""
    x = np.arange(7, 0, -1, dtype)
    x[4] = np.iinfo(dtype).max
    wanted = np.concatenate([np.sort(group) for group in (x[:3], x[3:6], x[6:])])
    for outputs in (
        ops.group_sort(x[None, :, None], 3, ragged=True),
        ops.csp(x[None, :, None], [0], 3, ragged=True),
    ):
        np.testing.assert_array_equal(to_numpy(outputs)[0, :, 0], wanted)


@WITH_64_BITS
@pytest.mark.parametrize(
    "case", ["slice_sort both", "group_sort 7 reference", "csp 2 reference huge"]
)
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_all_64_bits_are_compared(dtype, case):
    """Use values that share the upper or the lower half, and lower halves with either sign bit."""
    rng = np.random.default_rng(2)
    upper = rng.integers(-2, 2, X.shape)
    x = (upper << 32) + rng.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1], X.shape)
    if dtype == "float64":  # bits of numbers near 2 and -2
        x = (x + (1 << 62) * np.sign(x + 0.5).astype("int64")).view("float64")
    name, arguments, named = CASES[case]
    described = {key: value for key, value in named.items() if key != "ragged"}
    sources = getattr(oracle, name)(x, *arguments, mask=MASK, **described)

    def function(x):
        return getattr(ops, name)(x, *arguments, mask=MASK, **named)

    x_tensor = keras.ops.convert_to_tensor(x)
    if dtype == "int64":
        value = function(x_tensor)
    else:
        cotangent = keras.ops.convert_to_tensor(COTANGENT, dtype)
        value, gradient = value_and_gradient(function, x_tensor, cotangent)
        np.testing.assert_array_equal(to_numpy(gradient), oracle.gradient(COTANGENT, sources))
    np.testing.assert_array_equal(to_numpy(value), oracle.values(x, sources))


# torch.compile uses deprecated PyTorch APIs.
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace:UserWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.parametrize("case", COMPILED)
def test_masked_and_compiled(case, implementation):
    if keras.config.backend() == "torch" and implementation == "reference":
        pytest.skip("torch.compile would trace every Keras op of the references")
    function, sources = call(case, implementation)
    check(compiled(function), sources)
