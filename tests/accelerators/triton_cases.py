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
ALIGNED_SORT = ("sort_groups_kernel", *SORT)  # once for the leader
STEPS = tuple(range(-20, 20))  # past one tile of channels
FAR = tuple(15 * channel for channel in range(20))  # rows of 8 channels are near each other
WALK = tuple(64 * channel for channel in range(20))  # sectors of 8 or 16 are used again soon
APART = tuple(200 * channel for channel in range(20))  # and none are here
TURNS = tuple(channel % 3 == 0 for channel in range(5))

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
    "descending": ("slice_sort", (2, 20, 5), dict(descending=TURNS), SORT),
    "all descending": ("slice_sort", (1, 8, 3), dict(descending=True), SORT),
}  # fmt: skip


def ties_and_infinities(shape):
    """Few values, both zeros and both infinities among them, that every float dtype holds."""
    rng = np.random.default_rng(0)
    return rng.choice(np.float32([-np.inf, -1.5, -1, -0.0, 0.0, 1, 1.5, np.inf]), shape)


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
    sources = getattr(oracle, op)(x, **arguments)
    cotangent = np.random.default_rng(1).integers(-8, 9, shape).astype("float32")
    function = getattr(ops, op)

    def call(tensor):
        return function(tensor, **arguments, implementation=implementation)

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
        np.testing.assert_array_equal(np.signbit(alone).sum(axis=1), np.signbit(x).sum(axis=1))


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
    sources = getattr(oracle, op)(x, **arguments)
    curved = 6 * oracle.values(x, sources) * weight * oracle.values(direction, sources)
    np.testing.assert_array_equal(to_numpy(second), oracle.gradient(curved, sources))
