"""Test that libtpu compiles the Pallas kernels for absent TPUs. No program runs."""

import importlib.util
import re

import keras
import pytest

from keras_permix import ops
from tests.accelerators.tpu_ahead import kernels_of, program, with_gradient

pytestmark = [
    pytest.mark.ahead_of_time,
    pytest.mark.skipif(keras.config.backend() != "jax", reason="JAX runs Pallas's kernels"),
    pytest.mark.skipif(not importlib.util.find_spec("libtpu"), reason="libtpu is not installed"),
]

STEPS = tuple(range(192))
GAPS = ("pack", "unpack")  # for masks with gaps
# name: (function, tokens, kernels of the value, kernels of value and gradient)
CASES = {
    "shift": (lambda x: ops.channel_shift(x, STEPS), 196, {"shift"}, {"shift"}),
    "pairs": (
        lambda x: ops.csp(x, STEPS, 2),
        196,
        {"sort_pairs"},
        {"sort_pairs", "unsort_pairs"},
    ),
    "pairs of 16384": (
        lambda x: ops.csp(x, STEPS, 2),
        16384,
        {"sort_pairs"},
        {"sort_pairs", "unsort_pairs"},
    ),
    "shifted groups": (
        lambda x: ops.csp(x, STEPS, 49),
        196,
        {"shift", "sort"},
        {"shift", "sort_with_positions", "unsort"},
    ),
    "one group": (ops.group_sort, 256, {"sort"}, {"sort_with_positions", "unsort"}),
    "one group of 16384": (ops.group_sort, 16384, {"sort"}, {"sort_with_positions", "unsort"}),
    "descending": (
        lambda x: ops.slice_sort(x, True),
        256,
        {"sort"},
        {"sort_with_positions", "unsort"},
    ),
    "pairs in parts": (
        lambda x: ops.csp(x, STEPS, 2),
        32768,
        {"shift", "sort_pairs"},
        {"shift", "sort_pairs", "unsort_pairs"},
    ),
    "shift, masked": (
        lambda x: ops.channel_shift(x, STEPS, mask=x[..., 0] > 0),
        196,
        {"shift", *GAPS},
        {"shift", *GAPS},
    ),
    "pairs, masked": (
        lambda x: ops.csp(x, STEPS, 2, mask=x[..., 0] > 0),
        196,
        {"sort_pairs", *GAPS},
        {"sort_pairs", "unsort_pairs", *GAPS},
    ),
    "shifted groups, masked": (
        lambda x: ops.csp(x, STEPS, 49, mask=x[..., 0] > 0),
        196,
        {"shift", "sort", *GAPS},
        {"shift", "sort_with_positions", "unsort", *GAPS},
    ),
    "descending, masked": (
        lambda x: ops.slice_sort(x, True, mask=x[..., 0] > 0),
        256,
        {"sort", *GAPS},
        {"sort_with_positions", "unsort", *GAPS},
    ),
    "one group, XLA": (ops.group_sort, 32768, set(), set()),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_kernels_compile(case, dtype, one_device):
    function, tokens, *kernels = CASES[case]
    for compiled, expected in zip((function, with_gradient(function)), kernels, strict=True):
        text = program(compiled, (2, tokens, len(STEPS)), dtype, one_device).as_text()
        assert kernels_of(text) == expected
        assert not re.search(r" (gather|scatter)\(", text)
