"""Test Triton kernels on a GPU: values and gradients, bit for bit."""

import importlib.util
import os

import keras
import pytest

from keras_permix import ops
from tests.accelerators.triton_cases import AHEAD, CASES, DTYPES, LARGE, check, check_second


def _skip_reason():
    """Return why the tests cannot run, or None."""
    if keras.config.backend() != "torch" or not importlib.util.find_spec("triton"):
        return "PyTorch with Triton runs these kernels"
    import torch

    if not torch.cuda.is_available():
        return "requires a CUDA device"
    from keras_permix.ops.backend.torch import runtime

    if objection := runtime.objection_of(torch.cuda.current_device()):
        return objection
    if os.environ.get("TRITON_INTERPRET") == "1":
        return "TRITON_INTERPRET=1 would interpret them"
    return None


pytestmark = [
    pytest.mark.on_gpu,
    pytest.mark.skipif(_skip_reason() is not None, reason=str(_skip_reason())),
    # Triton 3.9 warns at every compilation. These kernels do not multiply or add floats.
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_kernels_match_oracle(case, dtype, triton_launches):
    op, shape, arguments, kernels = CASES[case]
    check(op, shape, arguments, dtype)
    assert triton_launches[: len(kernels)] == list(kernels)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", LARGE)
def test_large(case, dtype, triton_launches):
    check(*LARGE[case], dtype)
    assert triton_launches


@pytest.mark.parametrize("case", CASES)
def test_second_derivatives_match_oracle(case):
    op, shape, arguments, _ = CASES[case]
    check_second(op, shape, arguments)


@pytest.fixture
def compiler():
    """Skip if PyTorch is older than 2.12, which `torch.compile` requires: see pyproject.toml."""
    import torch

    if torch.__version__ < "2.12":
        pytest.skip(f"PyTorch {torch.__version__} treats compiled calls as exports")


# PyTorch's compiler warns about deprecations in PyTorch.
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("case", LARGE)
def test_compiled(case, compiler, triton_launches):
    check(*LARGE[case], "float32", compiled=AHEAD)
    assert triton_launches


# As above.
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("case", LARGE)
def test_recorded_as_cuda_graphs(case, compiler):
    """Warm up, record and replay."""
    check(*LARGE[case], "float32", compiled=dict(mode="reduce-overhead"), times=4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_larger_groups_use_torch_sort(dtype, triton_launches):
    arguments = dict(group_size=32768)
    x = keras.ops.zeros((1, 32768, 6), dtype)
    assert ops.explain("group_sort", x, **arguments).chosen == "sort"
    check("group_sort", (1, 32768, 6), arguments, dtype, implementation=None)
    assert triton_launches == []


def test_triton_is_chosen():
    x = keras.ops.zeros((1, 8, 4))
    for op, *arguments in (("csp", (0,) * 4, 2), ("slice_sort",), ("channel_shift", (0,) * 4)):
        assert ops.explain(op, x, *arguments).chosen == "triton"


def test_subnormals_are_not_flushed_to_zero():
    import numpy as np

    x = np.float32([1e-40, -1e-40, 3e-41, 0.0, 2e-40, 1e-41]).reshape(1, 6, 1)
    for group_size in (2, 6):
        groups = np.sort(x.reshape(1, -1, group_size, 1), axis=2)
        out = ops.group_sort(x, group_size, implementation="triton")
        assert keras.ops.convert_to_numpy(out).tobytes() == groups.tobytes()
