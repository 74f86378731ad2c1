"""Calls that the Triton kernels must serve bit for bit, in the interpreter and on a GPU alike."""

import keras
import numpy as np

from keras_permix import ops
from tests.backends import value_and_gradient
from tests.harness import to_numpy
from tests.oracle import permutations as oracle

DTYPES = ("float32", "float16", "bfloat16")
SHIFT, PAIRS = ("shift_kernel",) * 2, ("order_pairs_kernel", "undo_pairs_kernel")
SORT = ("sort_groups_kernel", "put_back_kernel")
SHIFTED_SORT = ("shift_kernel", *SORT, "shift_kernel")
ALIGNED_SORT = ("sort_groups_kernel", *SORT)  # once for the reference channel
STEPS = tuple(range(-20, 20))  # past one tile of channels
FAR = tuple(15 * channel for channel in range(20))  # rows of 8 channels are near each other
WALK = tuple(64 * channel for channel in range(20))  # sectors of 8 or 16 are used again soon
APART = tuple(200 * channel for channel in range(20))  # and none are here
FLIPS = tuple(channel % 3 == 0 for channel in range(5))


def mask(tokens):
    """Masks of four samples: no padding, padding last, gaps, and only padding."""
    rows = np.ones((4, tokens), bool)
    rows[1, 2 * tokens // 3 :] = False
    rows[2] = np.random.default_rng(3).random(tokens) < 0.5
    rows[3] = False
    return rows


# name: (op, shape, arguments, kernels that forward and backward launch)
CASES = {
    "shift": ("channel_shift", (2, 70, 40), dict(steps=STEPS), SHIFT),
    "shift alone": ("csp", (2, 7, 40), dict(steps=STEPS, group_size=1), SHIFT),
    "pairs": ("csp", (2, 130, 40), dict(steps=STEPS, group_size=2), PAIRS),
    "pairs, aligned": (
        "csp", (2, 66, 40), dict(steps=STEPS, group_size=2, align="reference"), PAIRS
    ),
    "shift in arcs": ("channel_shift", (2, 301, 40), dict(steps=STEPS), SHIFT),
    "pairs in arcs": ("csp", (2, 390, 40), dict(steps=STEPS, group_size=2), PAIRS),
    "shift in long arcs": ("channel_shift", (1, 901, 20), dict(steps=FAR), SHIFT),
    "pairs in long arcs, aligned": (
        "csp", (1, 902, 20), dict(steps=FAR, group_size=2, align="reference"), PAIRS
    ),
    "shift walked": ("channel_shift", (2, 2250, 20), dict(steps=WALK), SHIFT),
    "pairs walked": ("csp", (2, 2250, 20), dict(steps=WALK, group_size=2), PAIRS),
    "shift apart": ("channel_shift", (1, 2250, 20), dict(steps=APART), SHIFT),
    "pairs apart": ("csp", (1, 2250, 20), dict(steps=APART, group_size=2), PAIRS),
    "pairs, unshifted": ("group_sort", (1, 10, 3), dict(group_size=2), PAIRS),
    "groups of 3": ("csp", (1, 9, 40), dict(steps=STEPS, group_size=3), SHIFTED_SORT),
    "groups of 16": ("group_sort", (2, 64, 5), dict(group_size=16), SORT),
    "groups of 5, aligned": (
        "csp", (2, 10, 40), dict(steps=STEPS, group_size=5, align="reference"),
        ("shift_kernel", *ALIGNED_SORT),
    ),
    "one group, aligned": ("group_sort", (1, 33, 4), dict(align="reference"), ALIGNED_SORT),
    "one group": ("group_sort", (2, 63, 3), {}, SORT),
    "one group of 16384": ("group_sort", (1, 16384, 1), {}, SORT),
    "descending": ("slice_sort", (2, 20, 5), dict(descending=FLIPS), SORT),
    "all descending": ("slice_sort", (1, 8, 3), dict(descending=True), SORT),
    "a short last group": ("group_sort", (2, 10, 5), dict(group_size=4, ragged=True), SORT),
    "a last token without partner": (
        "csp", (2, 7, 40), dict(steps=STEPS, group_size=2, ragged=True), PAIRS
    ),
    "shift, masked": ("channel_shift", (4, 70, 40), dict(steps=STEPS, mask=mask(70)), SHIFT),
    "shift fetched, masked": (
        "channel_shift", (4, 8200, 3), dict(steps=(0, 1, 5000), mask=mask(8200)), SHIFT
    ),
    "only padding cleared": (
        "csp", (4, 9, 3), dict(steps=(0, 0, 0), group_size=1, mask=mask(9)), SHIFT
    ),
    "pairs, masked": ("csp", (4, 66, 40), dict(steps=STEPS, group_size=2, mask=mask(66)), PAIRS),
    "pairs, unshifted, masked": (
        "group_sort", (4, 10, 3), dict(group_size=2, mask=mask(10)), PAIRS
    ),
    "pairs, aligned, masked": (
        "csp", (4, 22, 40), dict(steps=STEPS, group_size=2, align="reference", mask=mask(22)), PAIRS
    ),
    "groups of 3, masked": (
        "csp", (4, 10, 40), dict(steps=STEPS, group_size=3, ragged=True, mask=mask(10)),
        SHIFTED_SORT,
    ),
    "groups of 3, aligned, masked": (
        "csp", (4, 9, 40), dict(steps=STEPS, group_size=3, align="reference", mask=mask(9)),
        ("shift_kernel", *ALIGNED_SORT),
    ),
    "descending, masked": (
        "slice_sort", (4, 20, 5), dict(descending=FLIPS, mask=mask(20)), SORT
    ),
}  # fmt: skip


def ties_and_infinities(shape):
    """Few values, both zeros and both infinities among them, that every float dtype holds."""
    rng = np.random.default_rng(0)
    return rng.choice(np.float32([-np.inf, -1.5, -1, -0.0, 0.0, 1, 1.5, np.inf]), shape)


def sources_of(op, x, arguments):
    """Where the oracle takes every value from. It always allows a short last group."""
    arguments = {name: value for name, value in arguments.items() if name != "ragged"}
    return getattr(oracle, op)(x, **arguments)


def as_tensors(arguments):
    """Arguments whose mask is a tensor, since PyTorch's compiler takes none of NumPy."""
    if "mask" not in arguments:
        return arguments
    return {**arguments, "mask": keras.ops.convert_to_tensor(arguments["mask"])}


def bits(x):
    """What tells -0.0 from 0.0."""
    return x.astype("float32").view("int32")


AHEAD = dict(backend="aot_eager")  # through what `torch.compile` does before it makes kernels


def check(op, shape, arguments, dtype, implementation="triton", compiled=None, times=1):
    """Check values and gradients, to the last bit and the sign of zeros, against the oracle.

    Without a gradient to come the sort may leave zeros of both signs in any order. `compiled` are
    arguments of `torch.compile`.
    """
    x = ties_and_infinities(shape)
    sources = sources_of(op, x, arguments)
    cotangent = np.random.default_rng(1).integers(-8, 9, shape).astype("float32")
    function, given = getattr(ops, op), as_tensors(arguments)

    def call(tensor):
        return function(tensor, **given, implementation=implementation)

    if compiled:
        import torch

        torch.compiler.reset()  # it counts how often it compiles one function
        call = torch.compile(call, fullgraph=True, **compiled)
    tensor = keras.ops.convert_to_tensor(x, dtype)
    for _ in range(times):
        value, gradient = value_and_gradient(call, tensor, keras.ops.cast(cotangent, dtype))
        assert keras.backend.standardize_dtype(value.dtype) == dtype
        np.testing.assert_array_equal(bits(to_numpy(value)), bits(oracle.values(x, sources)))
        np.testing.assert_array_equal(to_numpy(gradient), oracle.gradient(cotangent, sources))
    for _ in range(times):
        alone = to_numpy(call(tensor))
        np.testing.assert_array_equal(alone, oracle.values(x, sources))
        real = arguments.get("mask", np.ones(shape[:2], bool))[..., None]
        signs = np.signbit(x, where=real, out=np.zeros(shape, bool))
        np.testing.assert_array_equal(np.signbit(alone).sum(axis=1), signs.sum(axis=1))


def check_second(op, shape, arguments):
    """Check a Hessian times a vector, of integers that float32 holds, against the oracle."""
    import torch

    rng = np.random.default_rng(2)
    x, weight, direction = (rng.integers(-8, 9, shape).astype("float32") for _ in range(3))
    tensor = keras.ops.convert_to_tensor(x).requires_grad_()
    out = getattr(ops, op)(tensor, **arguments, implementation="triton")
    loss = (out**3 * keras.ops.convert_to_tensor(weight)).sum()
    (first,) = torch.autograd.grad(loss, tensor, create_graph=True)
    (second,) = torch.autograd.grad(first, tensor, keras.ops.convert_to_tensor(direction))
    sources = sources_of(op, x, arguments)
    curved = 6 * oracle.values(x, sources) * weight * oracle.values(direction, sources)
    np.testing.assert_array_equal(to_numpy(second), oracle.gradient(curved, sources))
