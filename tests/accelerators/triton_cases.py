"""Calls for which Triton kernels must match the oracle bit for bit, interpreted or on a GPU."""

import keras
import numpy as np

from keras_permix import ops
from tests.backends import value_and_gradient
from tests.harness import assert_same, to_numpy
from tests.oracle import permutations as oracle

DTYPES = ("float32", "float16", "bfloat16")
SHIFT, PAIRS = ("shift_kernel",) * 2, ("order_pairs_kernel", "undo_pairs_kernel")
SORT = ("sort_groups_kernel", "put_back_kernel")
SHIFTED_SORT = ("shift_kernel", *SORT, "shift_kernel")
ALIGNED_SORT = ("sort_groups_kernel", *SORT)  # once for the reference channel
STEPS = tuple(range(-20, 20))  # more channels than one tile
FAR = tuple(15 * channel for channel in range(20))  # nearby rows for each 8 channels
REUSED = tuple(64 * channel for channel in range(20))  # sectors of 8 or 16 are reused soon
DISTANT = tuple(200 * channel for channel in range(20))  # sectors are not reused soon
FLIPS = tuple(channel % 3 == 0 for channel in range(5))


def mask(tokens):
    """Return masks of four samples: no padding, trailing padding, gaps, and only padding."""
    rows = np.ones((4, tokens), bool)
    rows[1, 2 * tokens // 3 :] = False
    rows[2] = np.random.default_rng(3).random(tokens) < 0.5
    rows[3] = False
    return rows


# name: (op, shape, arguments, kernels of forward and backward)
CASES = {
    "shift": ("channel_shift", (2, 70, 40), dict(steps=STEPS), SHIFT),
    "shift by csp": ("csp", (2, 7, 40), dict(steps=STEPS, group_size=1), SHIFT),
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
    "shift, reused sectors": ("channel_shift", (2, 2250, 20), dict(steps=REUSED), SHIFT),
    "pairs, reused sectors": ("csp", (2, 2250, 20), dict(steps=REUSED, group_size=2), PAIRS),
    "shift, distant sectors": ("channel_shift", (1, 2250, 20), dict(steps=DISTANT), SHIFT),
    "pairs, distant sectors": ("csp", (1, 2250, 20), dict(steps=DISTANT, group_size=2), PAIRS),
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
    "short last group": ("group_sort", (2, 10, 5), dict(group_size=4, ragged=True), SORT),
    "unpaired last token": (
        "csp", (2, 7, 40), dict(steps=STEPS, group_size=2, ragged=True), PAIRS
    ),
    "shift, masked": ("channel_shift", (4, 70, 40), dict(steps=STEPS, mask=mask(70)), SHIFT),
    "shift fetched, masked": (
        "channel_shift", (4, 8200, 3), dict(steps=(0, 1, 5000), mask=mask(8200)), SHIFT
    ),
    "identity, masked": (
        "csp", (4, 9, 3), dict(steps=(0, 0, 0), group_size=1, mask=mask(9)), SHIFT
    ),
    "pairs, masked": ("csp", (4, 66, 40), dict(steps=STEPS, group_size=2, mask=mask(66)), PAIRS),
    "pairs fetched, masked": (
        "csp", (3, 8200, 3), dict(steps=(0, 1, 5000), group_size=2, mask=mask(8200)[1:]), PAIRS
    ),
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
    "one group of 300, masked": (
        "group_sort", (2, 300, 2), dict(mask=mask(300)[1:3]), SORT
    ),
    "descending, masked": (
        "slice_sort", (4, 20, 5), dict(descending=FLIPS, mask=mask(20)), SORT
    ),
}  # fmt: skip
# Larger cases without kernels to expect, for a GPU.
LARGE = {
    "pairs": ("csp", (4, 1024, 200), dict(steps=tuple(range(200)), group_size=2)),
    "groups of 4": ("group_sort", (4, 256, 96), dict(group_size=4)),
    "one group of 196": ("slice_sort", (4, 196, 96), dict(descending=False)),
    "groups of 1000": ("csp", (2, 2000, 24), dict(steps=tuple(range(24)), group_size=1000)),
    "groups of 1024": ("group_sort", (2, 2048, 24), dict(group_size=1024, align="reference")),
    "one group of 4096": ("csp", (1, 4096, 12), dict(steps=tuple(range(12)), group_size=4096)),
    "one group of 16384": ("group_sort", (1, 16384, 12), {}),
    "circle of 4096": (
        "csp",
        (1, 4096, 12),
        dict(steps=tuple(range(0, 4096, 342)), group_size=2),
    ),
    "fetched": ("csp", (1, 9000, 40), dict(steps=tuple(range(0, 9000, 225)), group_size=2)),
}


def ties_and_infinities(shape):
    """Return few distinct values, exact in every float dtype, with signed zeros and infinities."""
    rng = np.random.default_rng(0)
    return rng.choice(np.float32([-np.inf, -1.5, -1, -0.0, 0.0, 1, 1.5, np.inf]), shape)


def sources_of(op, x, arguments):
    """Return the sources of all values by the oracle, which allows a short last group."""
    arguments = {name: value for name, value in arguments.items() if name != "ragged"}
    return getattr(oracle, op)(x, **arguments)


def as_tensors(arguments):
    """Convert the mask to a tensor. PyTorch's compiler does not accept NumPy arrays."""
    if "mask" not in arguments:
        return arguments
    return {**arguments, "mask": keras.ops.convert_to_tensor(arguments["mask"])}


AHEAD = dict(backend="aot_eager")  # compiles as `torch.compile` does, but generates no kernels


def check(op, shape, arguments, dtype, implementation="triton", compiled=None, times=1):
    """Check that values and gradients match the oracle, including the signs of zeros.

    Without a gradient, the sort may leave zeros of both signs in any order. `compiled` holds
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

        torch.compiler.reset()  # it limits the number of compilations per function
        call = torch.compile(call, fullgraph=True, **compiled)
    tensor = keras.ops.convert_to_tensor(x, dtype)
    for _ in range(times):
        value, gradient = value_and_gradient(call, tensor, keras.ops.cast(cotangent, dtype))
        assert keras.backend.standardize_dtype(value.dtype) == dtype
        assert_same(to_numpy(value), oracle.values(x, sources))
        np.testing.assert_array_equal(to_numpy(gradient), oracle.gradient(cotangent, sources))
    for _ in range(times):
        value = to_numpy(call(tensor))
        np.testing.assert_array_equal(value, oracle.values(x, sources))
        real = arguments.get("mask", np.ones(shape[:2], bool))[..., None]
        signs = np.signbit(x, where=real, out=np.zeros(shape, bool))
        np.testing.assert_array_equal(np.signbit(value).sum(axis=1), signs.sum(axis=1))


def check_second(op, shape, arguments):
    """Check that a Hessian-vector product of integers matches the oracle."""
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
