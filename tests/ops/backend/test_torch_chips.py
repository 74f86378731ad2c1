"""Which GPUs Triton's kernels are for, told of GPUs that are not there."""

import keras
import pytest

pytestmark = pytest.mark.skipif(keras.config.backend() != "torch", reason="PyTorch's own")

GPUS = {
    "A100": ("NVIDIA A100", (8, 0), None, None),
    "H200": ("NVIDIA H200", (9, 0), None, None),
    "V100": ("Tesla V100", (7, 0), None, "capability 8.0, and this is: Tesla V100 (7.0)"),
    "MI300": ("AMD Instinct MI300X", (9, 4), "6.4", "an NVIDIA GPU, and this is: AMD Instinct"),
}


@pytest.fixture(params=GPUS)
def gpu(request, monkeypatch):
    """A GPU that PyTorch tells of, and what the kernels should object to."""
    import torch

    from keras_permix.ops.backend.torch import runtime

    name, capability, hip, objection = GPUS[request.param]
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: name)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda number: capability)
    monkeypatch.setattr(torch.version, "hip", hip)
    runtime._looked_up.cache_clear()
    yield objection
    runtime._looked_up.cache_clear()


def test_what_a_kernel_objects_to(gpu):
    from keras_permix.ops.backend.plan import Call, Hardware, Plan
    from keras_permix.ops.backend.torch.rows import ROWS

    hardware = Hardware("cuda", chip=0)
    kernels = [row for row in ROWS if row.name == "triton"]
    assert len(kernels) == 4
    for row in kernels:
        call = Call(row.op, hardware, "float32", (2, 8, 4), False, False, Plan(group_size=4), {})
        found = row.limit(call)
        assert found is None if gpu is None else gpu in found


@pytest.mark.parametrize("lacking", ["a C compiler", "the headers of Python"])
def test_triton_needs_what_compiles_its_launcher(lacking, monkeypatch):
    from keras_permix.ops.backend.torch import runtime

    monkeypatch.setenv("CC", "")
    monkeypatch.setattr("shutil.which", lambda name: None if "C c" in lacking else name)
    monkeypatch.setattr("sysconfig.get_path", lambda name: "/nowhere")
    assert runtime._what_triton_lacks().startswith(f"Triton needs {lacking}, and there is n")


def test_derivatives_forward_are_not_lost():
    import torch

    from keras_permix.ops.backend.torch.runtime import transformed

    assert transformed(None) is None
    with torch.autograd.forward_ad.dual_level():
        assert transformed(None) == "it does not support forward-mode derivatives"


def test_what_a_cuda_graph_reads_stays(monkeypatch):
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


def test_a_compiler_takes_the_answer_for_a_constant(gpu):
    import torch

    from keras_permix.ops.backend.torch import runtime

    def function(x):
        return x + 1 if runtime.objection_of(0) is None else x - 1

    torch.compiler.reset()  # it knows this function by its lines
    x = torch.zeros(3)
    found = torch.compile(function, fullgraph=True, backend="eager")(x)
    assert found.tolist() == [1.0 if gpu is None else -1.0] * 3
