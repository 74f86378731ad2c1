"""Test Triton kernels called from JAX against the oracle, interpreted and on a GPU.

The interpreter runs on PyTorch tensors.
"""

import importlib.util
import os
from dataclasses import replace
from functools import partial
from threading import Lock

import keras
import numpy as np
import pytest

from tests.accelerators.triton_cases import CASES, LARGE, check

pytestmark = pytest.mark.skipif(
    keras.config.backend() != "jax", reason="JAX calls Triton's kernels"
)
INTERPRETED = [
    pytest.mark.interpreted,
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("torch", "triton"))),
        reason="PyTorch and Triton are not installed",
    ),
    pytest.mark.skipif(
        os.environ.get("TRITON_INTERPRET") != "1",
        reason="TRITON_INTERPRET=1 is not set, as `make test-accelerators` does",
    ),
]


def _has_gpu():
    if keras.config.backend() != "jax":
        return False
    import jax

    return jax.default_backend() == "gpu"


ON_GPU = [pytest.mark.on_gpu, pytest.mark.skipif(not _has_gpu(), reason="requires a GPU")]
WAYS = (
    pytest.param(True, marks=INTERPRETED, id="interpreted"),
    pytest.param(False, marks=ON_GPU, id="gpu"),
)

ONE_AT_A_TIME = Lock()  # Triton's interpreter has a single, global grid

FEW = (
    "shift", "pairs, aligned", "pairs in arcs", "groups of 3", "groups of 5, aligned", "descending",
    "short last group", "unpaired last token", "shift, masked", "identity, masked",
    "pairs, aligned, masked", "pairs, unshifted, masked", "groups of 3, aligned, masked",
    "descending, masked", "pairs fetched, masked",
)  # fmt: skip


def run(program, arrays, results):
    """Interpret a kernel in place of `ops.backend.jax.triton.run`."""
    import jax

    from keras_permix.ops.backend.torch.triton import functions

    names = [name for name, array in arrays.items() if array is not None]
    absent = dict.fromkeys(set(arrays) - set(names))

    def interpreted(*given):
        with ONE_AT_A_TIME:
            return interpret(given)

    def interpret(given):
        tensors = {name: to_torch(a) for name, a in zip(names, given, strict=True)} | absent
        return tuple(map(from_torch, functions.run(program, tensors, specs)))

    shapes = [jax.ShapeDtypeStruct(*result) for result in results.values()]
    specs = {name: (shape, str(np.dtype(dtype))) for name, (shape, dtype) in results.items()}
    return jax.pure_callback(interpreted, tuple(shapes), *(arrays[name] for name in names))


def to_torch(array):
    import torch

    array = np.array(array)
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def from_torch(tensor):
    import ml_dtypes
    import torch

    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


@pytest.fixture(params=WAYS)
def interpreted(request, monkeypatch):
    """Interpret the Triton kernels of JAX, unless the test runs on a GPU."""
    from keras_permix.ops.backend.jax import implementations, triton

    if not request.param:
        return False
    function = partial(triton.permute, run=run, platform=None)

    def anywhere(row):
        if row.name != "triton":
            return row
        return replace(row, function=function, devices=(), limit=None, requires=None)

    monkeypatch.setattr(
        implementations, "IMPLEMENTATIONS", tuple(map(anywhere, implementations.IMPLEMENTATIONS))
    )
    return True


@pytest.mark.parametrize(
    ("case", "dtype"),
    [*((case, "float32") for case in FEW), ("pairs", "bfloat16"), ("groups of 16", "float16")],
)
def test_kernels_match_oracle(case, dtype, interpreted, request):
    op, shape, arguments, kernels = CASES[case]
    launches = request.getfixturevalue("triton_launches") if interpreted else None
    check(op, shape, arguments, dtype)
    assert launches is None or launches[: len(kernels)] == list(kernels)


@pytest.mark.on_gpu
@pytest.mark.skipif(not _has_gpu(), reason="requires a GPU")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", LARGE)
def test_large(case, dtype):
    check(*LARGE[case], dtype)


@pytest.mark.parametrize("case", ["pairs, masked", "groups of 3, masked", "shift"])
def test_vmapped_second_derivative_matches_native(case, interpreted):
    import jax

    from keras_permix import ops

    op, shape, arguments, _ = CASES[case]
    x, tangent = np.random.default_rng(0).integers(-8, 9, (2, 2, *shape)).astype("float32")

    def function(implementation):
        def loss(x):
            out = getattr(ops, op)(x, **arguments, implementation=implementation)
            return (out**3 * np.arange(out.size).reshape(out.shape)).sum()

        return jax.vmap(lambda x, t: jax.jvp(jax.grad(loss), (x,), (t,)))

    found, wanted = (function(name)(x, tangent) for name in ("triton", "native"))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
