"""Test ops in `torch.compile` and `torch.export`."""

import subprocess
import sys
import warnings

import keras
import numpy as np
import pytest

from keras_permix import ops
from keras_permix.layers import CSP
from tests.harness import assert_close, needs_cpu, to_numpy
from tests.harness.processes import environment
from tests.oracle import permutations as oracle

pytestmark = pytest.mark.skipif(keras.config.backend() != "torch", reason="requires PyTorch")

X = np.random.default_rng(0).normal(size=(2, 16, 6)).astype("float32")


def sort(x):
    return ops.group_sort(x, 8)


def test_traced_sizes_are_checked():
    """Exporters trace sizes that may vary at run time."""
    import torch

    from keras_permix.ops.dispatch.checks import require

    assert require(X, torch.tensor(True), "size ", torch.tensor(3)) is X
    with pytest.raises(ValueError, match="size 3"):
        require(X, torch.tensor(False), "size ", torch.tensor(3))


def test_compiled_sort_matches_numpy():
    import torch

    needs_cpu()
    names = []

    def record(graph, inputs):
        names.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    result = torch.compile(sort, backend=record, fullgraph=True)(torch.from_numpy(X))
    np.testing.assert_array_equal(to_numpy(result), oracle.values(X, oracle.group_sort(X, 8)))
    assert any("keras_permix.sort_by_numpy" in name for name in names)


def test_dense_compiles_without_graph_break():
    import torch

    x, kernel, bias = (torch.ones(shape) for shape in ((2, 3, 4), (4, 5), (5,)))
    product = torch.compile(lambda *given: ops.dense(*given), backend="eager", fullgraph=True)
    np.testing.assert_array_equal(to_numpy(product(x, kernel, bias)), np.full((2, 3, 5), 5.0))


def test_schedule_compiles_once():
    import torch

    layer, graphs = CSP(group_size=8), []
    layer.build(X.shape)

    def record(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def mix(x):
        return layer.mix(x)

    mixed = torch.compile(mix, backend=record, fullgraph=True)
    for x in (X, -X, X):
        result = mixed(torch.from_numpy(x))
        sources = oracle.csp(x, oracle.schedule("linear", 6), 8)
        np.testing.assert_array_equal(to_numpy(result), oracle.values(x, sources))
    assert len(graphs) == 1


def test_sort_op_passes_opcheck():
    """Compare shapes, strides, dtypes and aliases with those of fake tensors."""
    import torch

    from keras_permix.ops.backend.torch.sort_op import sort_by_numpy

    x = torch.from_numpy(X)
    for arguments in (
        (x, None, 8, False, None, True),
        (x, torch.tensor([7, 0]), 16, False, [True, False] * 3, True),
        (x, None, 5, True, None, True),
        (x.to(torch.bfloat16), None, 16, False, None, False),
        (-torch.zeros(1, 300, 1), None, 300, False, None, True),
    ):
        torch.library.opcheck(sort_by_numpy, arguments)


def test_sort_op_is_registered_on_compilation():
    """Registration takes 0.1 s, so importing the package must not trigger it."""
    needs_cpu()
    code = """
import torch, keras_permix
has = lambda: hasattr(torch.ops.keras_permix, "sort_by_numpy")
before = has()
sort = torch.compile(lambda x: keras_permix.ops.group_sort(x), backend="eager", fullgraph=True)
x = torch.tensor([[[2.0], [1.0], [3.0]]])
print(before, sort(x).flatten().tolist(), has())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True
    )
    assert done.stdout == "False [1.0, 2.0, 3.0] True\n", done.stderr


class Sort(keras.layers.Layer):
    def call(self, inputs):
        return sort(inputs)


def test_exported_program_has_no_custom_ops():
    import torch

    program = torch.export.export(Sort(), (torch.from_numpy(X),))
    code = [module.code for module in program.graph_module.modules() if hasattr(module, "code")]
    assert "aten.sort" in "".join(code) and "keras_permix" not in "".join(code)
    result = program.module()(torch.from_numpy(X))
    np.testing.assert_array_equal(to_numpy(result), oracle.values(X, oracle.group_sort(X, 8)))


@pytest.mark.parametrize("strict", [False, True])
def test_export_with_dynamic_batch(strict):
    import torch

    class Mixer(torch.nn.Module):
        def forward(self, x):
            return ops.slice_sort(ops.csp(x, (0, 1, 2, 3, 4, 5), 2))

    batch = {"x": {0: torch.export.Dim("batch")}}
    x = torch.from_numpy(X)
    program = torch.export.export(Mixer(), (x,), dynamic_shapes=batch, strict=strict)
    many = np.random.default_rng(1).normal(size=(5, *X.shape[1:])).astype("float32")
    expected = oracle.values(many, oracle.csp(many, (0, 1, 2, 3, 4, 5), 2))
    expected = oracle.values(expected, oracle.slice_sort(expected))
    result = program.module()(torch.from_numpy(many))
    np.testing.assert_array_equal(to_numpy(result), expected)


def test_exported_sort_is_supported_by_onnx():
    """ONNX has no stable sort, which trainable models would otherwise contain."""
    import torch

    class Mixer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def forward(self, x):
            return ops.slice_sort(x * self.scale)

    program = torch.export.export(Mixer(), (torch.from_numpy(X),))
    assert "aten.sort.default" in program.graph_module.code
    assert "aten.sort.stable" not in program.graph_module.code


def test_exported_masked_sort_is_supported_by_onnx():
    """ONNX has no cumulative sum of booleans and does not define the order of NaN padding."""
    import torch

    class Mixer(torch.nn.Module):
        def forward(self, x, mask):
            return ops.slice_sort(x, mask=mask)

    mask = np.random.default_rng(1).random(X.shape[:2]) < 0.7
    tensors = (torch.from_numpy(X), torch.from_numpy(mask))
    program = torch.export.export(Mixer(), tensors)
    for node in program.graph.nodes:
        assert not any(value != value for value in node.args if isinstance(value, float)), node
        if node.target is torch.ops.aten.cumsum.default:
            assert node.args[0].meta["val"].dtype != torch.bool
    result = to_numpy(program.module()(*tensors))
    expected = oracle.values(X, oracle.slice_sort(X, mask=mask))
    np.testing.assert_array_equal(result, expected)


def test_export_simple_attention_with_dynamic_batch():
    import torch

    class Mixer(torch.nn.Module):
        def forward(self, x):
            return ops.simple_attention(x, x, x)

    batch = {"x": {0: torch.export.Dim("batch")}}
    x = torch.from_numpy(X)[:, :, None]
    program = torch.export.export(Mixer(), (x,), dynamic_shapes=batch)
    many = np.random.default_rng(1).normal(size=(5, *x.shape[1:])).astype("float32")
    tokens = many[:, :, 0].astype("float64")
    expected = tokens @ (tokens.swapaxes(1, 2) @ tokens) / 4  # square root of 16 tokens
    result = to_numpy(program.module()(torch.from_numpy(many)))[:, :, 0]
    assert_close(result, expected)


@pytest.mark.filterwarnings("ignore:Dynamo detected a call")  # cached functions in Keras
@pytest.mark.parametrize("tokens", [6, 7])
def test_sinkhorn_csp_compiles_to_one_graph(tokens):
    import torch

    def mix(x):
        return ops.sinkhorn_csp(x, (0, 2, 3), 2, ragged=True)

    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, tokens, 3)))
    mixed = torch.compile(mix, backend="eager", fullgraph=True)(x)
    assert_close(to_numpy(mixed), to_numpy(mix(x)))


# torch.compile uses deprecated PyTorch APIs.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("name, tokens", [("grid", 16), ("power", 16384)])
def test_schedules_of_static_tokens_compile(name, tokens):
    import torch

    x = torch.randn(1, tokens, 512 if name == "power" else 6)
    steps = ops.ShiftSchedule(name, x.shape[2], num_layers=2)
    shifted = torch.compile(
        lambda x: ops.channel_shift(x, steps), backend="eager", fullgraph=True, dynamic=False
    )
    np.testing.assert_array_equal(to_numpy(shifted(x)), to_numpy(ops.channel_shift(x, steps)))


def test_exported_grid_matches():
    import torch

    from keras_permix.ops.backend.torch.exports import program

    inputs = keras.Input(X.shape[1:])
    model = keras.Model(inputs, CSP(shift="grid")(inputs))
    exported = program(model, X).module()
    assert_close(to_numpy(exported(torch.from_numpy(X))), to_numpy(model(X)))


def test_traced_group_sort_matches():
    import torch

    x = torch.from_numpy(X)
    with warnings.catch_warnings(action="ignore"):  # of deprecation, and of constants
        traced = torch.jit.trace(sort, x)
    np.testing.assert_array_equal(to_numpy(traced(-x)), to_numpy(sort(-x)))
