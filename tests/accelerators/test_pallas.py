"""Test Pallas kernels against the oracle, interpreted and on a TPU."""

import re
from dataclasses import replace
from functools import partial

import keras
import numpy as np
import pytest

from keras_permix import ops
from keras_permix.ops.backend.plan import Plan
from tests import backends
from tests.accelerators import triton_cases
from tests.backends import compiled, value_and_gradient
from tests.harness import to_numpy
from tests.oracle import permutations as oracle

pytestmark = pytest.mark.skipif(keras.config.backend() != "jax", reason="JAX runs Pallas's kernels")

DTYPES = ("float32", "bfloat16")
# Cases that also run in bfloat16.
NARROW = ("pairs", "shifted", "not a power of two", "aligned", "across tiles")
NARROW += ("pairs, masked", "across blocks, masked")
# name: (tokens, steps or None, group size, align), kernels of the value and the gradient
CASES = {
    "shift": ((12, (5, -3, 0), 1, "independent"), {"shift"}),
    "shift, prime length": ((13, (1, 2, 12), 1, "independent"), {"shift"}),
    "pairs": ((12, (0, 7, 11), 2, "independent"), {"sort_pairs", "unsort_pairs"}),
    "pairs, unshifted": ((34, None, 2, "independent"), {"sort_pairs", "unsort_pairs"}),
    "pairs, several tiles": ((130, (0, 7, 129), 2, "independent"), {"sort_pairs", "unsort_pairs"}),
    "groups": ((16, None, 4, "independent"), {"sort_with_positions", "unsort"}),
    "shifted": ((12, (1, 2, 3), 4, "independent"), {"shift", "sort_with_positions", "unsort"}),
    "across sublanes": ((32, None, 32, "independent"), {"sort_with_positions", "unsort"}),
    "one tile": ((64, None, 64, "independent"), {"sort_with_positions", "unsort"}),
    "across tiles": ((256, None, 256, "independent"), {"sort_with_positions", "unsort"}),
    "not a power of two": ((13, None, 5, "independent"), {"sort_with_positions", "unsort"}),
    "aligned": ((12, (1, 2, 3), 4, "reference"), {"shift", "sort_with_positions", "unsort"}),
}
PAIRS, SORT = {"sort_pairs", "unsort_pairs"}, {"sort_with_positions", "unsort"}
# Masked cases, and kernels of the value and the gradient without those that pack gaps.
MASKED = {
    "shift, masked": {"shift"},
    "identity, masked": {"shift"},
    "pairs, masked": PAIRS,
    "pairs, unshifted, masked": PAIRS,
    "pairs, aligned, masked": {"shift", *SORT},
    "groups of 3, masked": {"shift", *SORT},
    "groups of 3, aligned, masked": {"shift", *SORT},
    "descending, masked": SORT,
    "pairs, odd length, masked": PAIRS,
    "across tiles, masked": SORT,
    "across blocks, masked": SORT,
}
MASKED_CASES = {
    **triton_cases.CASES,
    "pairs, odd length, masked": (
        "csp",
        (4, 13, 3),
        dict(steps=(0, 7, 12), group_size=2, ragged=True, mask=triton_cases.mask(13)),
    ),
    "across tiles, masked": ("group_sort", (4, 100, 3), dict(mask=triton_cases.mask(100))),
    "across blocks, masked": (
        "group_sort",
        (4, 100, 3),
        dict(group_size=5, mask=triton_cases.mask(100)),
    ),
}


def _has_tpu():
    if keras.config.backend() != "jax":
        return False
    import jax

    return jax.default_backend() == "tpu"


ABSENT = pytest.mark.skipif(not _has_tpu(), reason="requires a TPU")
WAYS = (
    pytest.param(True, marks=pytest.mark.interpreted, id="interpreted"),
    pytest.param(False, marks=[pytest.mark.on_tpu, ABSENT], id="tpu"),
)


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """Return kernels with small blocks, so that few tokens cover all paths of the network."""
    from keras_permix.ops.backend.jax.tpu_permute import Pallas

    if not request.param:
        return Pallas()
    from keras_permix.ops.backend.jax.tpu import sort as pallas_tpu_sort

    # The network uses all values twice; with fusion, XLA for CPUs would compute them twice.
    monkeypatch.setitem(backends.OPTIONS, "xla_disable_hlo_passes", "fusion")
    monkeypatch.setattr(pallas_tpu_sort, "VECTORS", 8)  # tiles of 64 tokens
    monkeypatch.setattr(pallas_tpu_sort, "BLOCK", 128)
    return Pallas(interpret=True)


def kernels_of(function, *arrays):
    """Return the names of the kernels in a program."""
    import jax

    program = jax.jit(function).lower(*arrays).as_text(debug_info=True)
    return set(re.findall(r"permix_([a-z_]+)", program))


def csp(way, steps, group_size, align):
    from keras_permix.ops.backend.jax import tpu_permute

    plan = Plan(steps, group_size, align == "reference")
    return lambda x: tpu_permute.permute(x, None, plan, way=way)


@pytest.mark.parametrize(
    ("case", "dtype"),
    [(case, dtype) for case in CASES for dtype in DTYPES if dtype == "float32" or case in NARROW],
)
def test_kernels_match_oracle(case, dtype, way):
    (tokens, steps, group_size, align), kernels = CASES[case]
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (2, tokens, 3)).astype("float32")  # with many ties
    x[rng.random(x.shape) < 0.1] = np.inf
    cotangent = rng.integers(-8, 9, x.shape).astype("float32")
    sources = oracle.csp(x, steps or (0, 0, 0), group_size, align)
    function, tensor = csp(way, steps, group_size, align), keras.ops.cast(x, dtype)

    value, gradient = value_and_gradient(function, tensor, cotangent)
    assert value.dtype == dtype
    np.testing.assert_array_equal(to_numpy(value), oracle.values(x, sources))
    np.testing.assert_array_equal(to_numpy(gradient), oracle.gradient(cotangent, sources))

    def traced(x, cotangent):
        return value_and_gradient(function, x, cotangent, whole=False)

    assert kernels_of(traced, tensor, cotangent) == kernels
    np.testing.assert_array_equal(to_numpy(compiled(function)(tensor)), oracle.values(x, sources))


@pytest.mark.parametrize(("group_size", "kernels"), [(1, {"shift"}), (2, {"shift", *PAIRS})])
def test_long_samples_are_shifted_in_parts(group_size, kernels, way, monkeypatch):
    monkeypatch.setattr("keras_permix.ops.backend.jax.tpu_permute.part_of", lambda tokens: 16)
    steps = (0, 1, 15, 16, 17, 47)
    x, cotangent = np.random.default_rng(0).normal(size=(2, 2, 48, len(steps))).astype("float32")
    function, sources = csp(way, steps, group_size, "independent"), oracle.csp(x, steps, group_size)
    value, gradient = value_and_gradient(function, keras.ops.convert_to_tensor(x), cotangent)
    np.testing.assert_array_equal(to_numpy(value), oracle.values(x, sources))
    np.testing.assert_array_equal(to_numpy(gradient), oracle.gradient(cotangent, sources))

    def traced(x):
        return value_and_gradient(function, x, x, whole=False)

    assert kernels_of(traced, keras.ops.zeros(x.shape)) == kernels


@pytest.mark.parametrize(
    ("case", "gaps", "dtype"),
    [(case, gaps, "float32") for case in MASKED for gaps in (False, True)]
    + [(case, False, "bfloat16") for case in NARROW if case in MASKED],
)
def test_masked_kernels_match_oracle(case, gaps, dtype, way, monkeypatch):
    from keras_permix.ops.backend.jax import implementations, tpu_permute

    def served(row):
        function = partial(tpu_permute.permute, way=way)
        pallas = replace(row, function=function, devices=(), limit=None)
        return pallas if row.name == "tpu_pallas" else row

    monkeypatch.setattr(
        implementations, "IMPLEMENTATIONS", tuple(map(served, implementations.IMPLEMENTATIONS))
    )
    op, shape, arguments, *_ = MASKED_CASES[case]
    mask = arguments["mask"] if gaps else np.sort(arguments["mask"], axis=1)[:, ::-1]
    arguments = {**arguments, "mask": mask}
    triton_cases.check(op, shape, arguments, dtype, "tpu_pallas")

    def traced(x):
        function = partial(getattr(ops, op), **arguments, implementation="tpu_pallas")
        return value_and_gradient(function, x, x, whole=False)

    x = keras.ops.zeros(shape)
    assert kernels_of(traced, x) == MASKED[case] | {"pack", "unpack"}


@pytest.mark.on_tpu
@ABSENT
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", [512, 1024, 4096])
def test_several_tiles(tokens, dtype):
    arguments = dict(steps=tuple(range(200)), group_size=tokens)
    triton_cases.check("csp", (2, tokens, 200), arguments, dtype, "tpu_pallas")


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint16"])
def test_integers_are_sorted(dtype, way):
    x = np.random.default_rng(0).integers(0, 120, (2, 32, 3)).astype(dtype)
    x[0, :3] = np.iinfo(dtype).min, np.iinfo(dtype).max, np.iinfo(dtype).max
    function = compiled(csp(way, None, 32, "independent"))
    result = to_numpy(function(keras.ops.convert_to_tensor(x)))
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.sort(x, axis=1))


@pytest.mark.parametrize("group_size", [2, 16])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sort_preserves_all_bits(dtype, group_size, way):
    """Sort signed zeros, subnormal numbers, infinities, and NaN, also with all bits set."""
    special = np.float32([0.0, -0.0, 1e-39, -1e-39, np.inf, -np.inf, np.nan, 1.0])
    special = np.append(special, np.uint32([0xFFFFFFFF, 0x7FFFFFFF]).view("float32"))
    x = keras.ops.cast(np.random.default_rng(0).choice(special, (2, 16, 3)), dtype)
    function = csp(way, None, group_size, "independent")
    value, _ = value_and_gradient(function, x, np.ones(x.shape, "float32"))
    for result in (compiled(function)(x), value):
        bits = f"uint{8 * x.dtype.itemsize}"
        before, after = (np.sort(np.asarray(t).view(bits), axis=1) for t in (x, result))
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("dtype", ["int16", "int32"])
def test_integer_sort_returns_stable_positions(dtype, way):
    """Sort with positions, as in a program that differentiates with respect to other inputs."""
    import jax

    extremes = [np.iinfo(dtype).min, np.iinfo(dtype).max, 0]
    x = np.random.default_rng(0).choice(extremes, (2, 128, 3)).astype(dtype)
    with_positions = way("sort_with_positions")
    groups, positions = jax.jit(lambda x: with_positions(x[:, None], False))(x)
    expected = np.argsort(x, axis=1, kind="stable")
    np.testing.assert_array_equal(positions[:, 0], expected)
    np.testing.assert_array_equal(groups[:, 0], np.take_along_axis(x, expected, 1))


def test_groups_and_channels_exceed_one_block(way):
    x = np.random.default_rng(0).normal(size=(3, 40, 130)).astype("float32")
    result = compiled(csp(way, None, 4, "independent"))(keras.ops.convert_to_tensor(x))
    expected = np.sort(x.reshape(3, 10, 4, 130), axis=2).reshape(x.shape)
    np.testing.assert_array_equal(to_numpy(result), expected)


def test_residuals_of_pairs_take_one_bit(way):
    import jax
    import jax.numpy as jnp

    x = jnp.zeros((2, 512, 40))
    function = csp(way, None, 2, "independent")
    residuals = jax.tree.leaves(jax.eval_shape(lambda x: jax.vjp(function, x)[1], x))
    residuals = [(t.shape, t.dtype.name) for t in residuals]
    if way.interpret:
        assert residuals == [((2, 8, 40), "int32")]
    else:  # also lists the residuals of the XLA fallback, which compiled programs drop
        assert ((2, 8, 40), "int32") in residuals
