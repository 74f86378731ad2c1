"""Test which GPUs the Triton kernels support, with mocked GPUs."""

import keras
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(keras.config.backend() != "torch", reason="requires PyTorch")

GPUS = {
    "A100": ("NVIDIA A100", (8, 0), None, None),
    "H200": ("NVIDIA H200", (9, 0), None, None),
    "V100": ("Tesla V100", (7, 0), None, "capability 8.0, found: Tesla V100 (7.0)"),
    "MI300": ("AMD Instinct MI300X", (9, 4), "6.4", "an NVIDIA GPU, found: AMD Instinct"),
}


@pytest.fixture(params=GPUS)
def gpu(request, monkeypatch):
    """Mock a GPU and return the expected objection of the kernels."""
    import torch

    from keras_permix.ops.backend.torch import runtime

    name, capability, hip, objection = GPUS[request.param]
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: name)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda number: capability)
    monkeypatch.setattr(torch.version, "hip", hip)
    runtime._looked_up.cache_clear()
    yield objection
    runtime._looked_up.cache_clear()


def test_kernel_objections(gpu):
    from keras_permix.ops.backend.plan import Call, Hardware, Plan
    from keras_permix.ops.backend.torch.implementations import IMPLEMENTATIONS

    hardware = Hardware("cuda", chip=0)
    kernels = [candidate for candidate in IMPLEMENTATIONS if candidate.name == "triton"]
    assert len(kernels) == 4
    for candidate in kernels:
        call = Call(
            candidate.op, hardware, "float32", (2, 8, 4), False, False, Plan(group_size=4), {}
        )
        found = candidate.limit(call)
        assert found is None if gpu is None else gpu in found


@pytest.mark.parametrize("lacking", ["a C compiler", "the headers of Python"])
def test_triton_requires_c_compiler_and_headers(lacking, monkeypatch):
    from keras_permix.ops.backend.torch import runtime

    monkeypatch.setenv("CC", "")
    monkeypatch.setattr("shutil.which", lambda name: None if "C c" in lacking else name)
    monkeypatch.setattr("sysconfig.get_path", lambda name: "/nowhere")
    assert runtime._what_triton_lacks().startswith(f"Triton requires {lacking}")


def test_forward_mode_derivatives_are_rejected():
    import torch

    from keras_permix.ops.backend.torch.runtime import transformed

    assert transformed() is None
    with torch.autograd.forward_ad.dual_level():
        assert transformed() == "it does not support forward-mode derivatives"


def test_cache_keeps_tables_of_cuda_graphs(monkeypatch):
    from weakref import ref

    import torch

    from keras_permix.ops.backend.torch import shift

    monkeypatch.setattr(shift, "recorded", lambda x: x.shape[0] == 1)
    tables = shift.Cache(80)  # bytes: ten numbers
    kept, lost = (ref(tables.get(torch.zeros, n)) for n in (1, 2))
    for n in (1, 2):
        tables.get(torch.zeros, n)
    for n in range(3, 9):
        tables.get(torch.zeros, n)
    assert kept() is not None and lost() is None
    assert tables.get(torch.zeros, 1) is kept()  # recorded again


def test_steps_are_copied_to_a_device_once(monkeypatch):
    import torch

    from keras_permix import ops
    from keras_permix.ops.backend.torch import shift

    made = []

    def count(device, numbers):
        made.append(numbers)
        return torch.tensor(numbers, device=device)

    monkeypatch.setattr(shift, "_to_device", count)
    mask = np.arange(5) < np.array([[5], [3]])
    for _ in range(2):
        ops.channel_shift(torch.zeros(2, 5, 3), (1, 2, 3), mask=mask)
    assert made == [(1, 2, 3)]


def test_objection_is_constant_in_compiled_function(gpu):
    import torch

    from keras_permix.ops.backend.torch import runtime

    def function(x):
        return x + 1 if runtime.objection_of(0) is None else x - 1

    torch.compiler.reset()  # the cache is keyed by file and line
    x = torch.zeros(3)
    found = torch.compile(function, fullgraph=True, backend="eager")(x)
    assert found.tolist() == [1.0 if gpu is None else -1.0] * 3
