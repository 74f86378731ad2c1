"""Test the logic of Triton kernels against the oracle, in Triton's interpreter."""

import importlib.util
import itertools
import os
from weakref import ref

import keras
import numpy as np
import pytest

from keras_permix import ops
from keras_permix.ops.backend.plan import Plan
from keras_permix.ops.backend.triton.windows import Reads, Window
from tests.accelerators.triton_cases import AHEAD, CASES, DTYPES, as_tensors, check, check_second
from tests.harness import load_module, to_numpy
from tests.oracle import permutations as oracle
from tests.zoo.models import tiny

pytestmark = [
    pytest.mark.interpreted,
    pytest.mark.skipif(keras.config.backend() != "torch", reason="PyTorch runs Triton's kernels"),
    pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="Triton is not installed"),
    pytest.mark.skipif(
        os.environ.get("TRITON_INTERPRET") != "1",
        reason="TRITON_INTERPRET=1 is not set, as `make test-accelerators` does",
    ),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_kernels_match_oracle(case, dtype, triton_launches):
    op, shape, arguments, kernels = CASES[case]
    check(op, shape, arguments, dtype)
    assert triton_launches[: len(kernels)] == list(kernels)


@pytest.mark.parametrize("case", CASES)
def test_second_derivatives_match_oracle(case):
    op, shape, arguments, _ = CASES[case]
    check_second(op, shape, arguments)


@pytest.mark.parametrize("class_name", ["LRATransformer", "SliceGraphormer"])
def test_padded_models_launch_kernels(class_name, triton_launches, monkeypatch):
    model = tiny(class_name)
    inputs = model.make_inputs(seed=0, batch=3)
    outputs = to_numpy(model(inputs))
    assert set(triton_launches) == {"sort_groups_kernel"}
    monkeypatch.setattr("keras_permix.ops.dispatch.dispatch.FORCED", "reference")
    np.testing.assert_array_equal(outputs, to_numpy(model(inputs)))


def test_function_transforms_launch_no_kernels(triton_launches):
    import torch

    many, steps = np.random.default_rng(0).normal(size=(3, 2, 8, 4)).astype("float32"), (0, 1, 2, 3)

    def loss(x):
        return (ops.csp(x, steps, 2) ** 3).sum()

    gradients = torch.func.vmap(torch.func.grad(loss))(torch.from_numpy(many))
    assert triton_launches == []
    for x, gradient in zip(many, gradients, strict=True):
        at = oracle.csp(x, steps, 2)
        expected = oracle.gradient(3 * oracle.values(x, at) ** 2, at)
        np.testing.assert_array_equal(gradient, expected)
    ops.csp(torch.from_numpy(many[0]), steps, 2)
    assert triton_launches, "calls outside of a transform launch kernels"


# PyTorch's compiler warns about deprecations in PyTorch, and about the cache of reduced steps.
@pytest.mark.filterwarnings("ignore:Dynamo detected a call")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("case", CASES)
def test_compiled_calls_launch_same_kernels(case, triton_launches):
    op, shape, arguments, kernels = CASES[case]
    check(op, shape, arguments, "float32", compiled=AHEAD)
    assert triton_launches[: len(kernels)] == list(kernels)


@pytest.mark.filterwarnings("ignore:Dynamo detected a call")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("case", CASES)
def test_compiled_calls_create_no_tables(case, monkeypatch):
    """Compiled calls must not convert Python numbers to tensors, for the sake of CUDA graphs."""
    import torch

    from keras_permix.ops.backend.torch.triton import tables

    op, shape, arguments, _ = CASES[case]
    arguments, x = as_tensors(arguments), torch.randn(shape, requires_grad=True)
    torch.compiler.reset()
    call = torch.compile(lambda x: getattr(ops, op)(x, **arguments), fullgraph=True, **AHEAD)
    expected, wanted = _value_and_gradient(call, x)
    made = []
    monkeypatch.setattr(tables, "_table", lambda values, *_: values and made.append(values))
    tables._tables.cache_clear()
    value, gradient = _value_and_gradient(call, x)
    assert not made and torch.equal(value, expected) and torch.equal(gradient, wanted)


@pytest.mark.filterwarnings("ignore:Dynamo detected a call")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize(
    ("op", "arguments"),
    [("csp", dict(steps=(0, 1, 5), group_size=2)), ("group_sort", {}), ("slice_sort", {})],
)
def test_compiled_calls_support_varying_tokens(op, arguments, triton_launches):
    import torch

    torch.compiler.reset()
    call = torch.compile(
        lambda x: getattr(ops, op)(x, **arguments), dynamic=True, fullgraph=True, **AHEAD
    )
    for tokens in (6, 8, 12):
        x = np.random.default_rng(tokens).normal(size=(2, tokens, 3)).astype("float32")
        sources = getattr(oracle, op)(x, **arguments)
        value, gradient = _value_and_gradient(call, torch.tensor(x, requires_grad=True))
        np.testing.assert_array_equal(to_numpy(value), oracle.values(x, sources))
        expected = oracle.gradient(2 * oracle.values(x, sources), sources)
        np.testing.assert_array_equal(to_numpy(gradient), expected)
    assert len(triton_launches) >= 6


@pytest.mark.filterwarnings("ignore:Dynamo detected a call")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("group_size", [2, 3])
def test_compiled_calls_support_varying_channels(group_size, triton_launches):
    import torch

    torch.compiler.reset()
    call = torch.compile(lambda x: ops.group_sort(x, group_size), fullgraph=True, **AHEAD)
    for channels in (3, 4, 5):
        x = np.random.default_rng(channels).normal(size=(2, 6, channels)).astype("float32")
        expected = np.sort(x.reshape(2, -1, group_size, channels), axis=2).reshape(x.shape)
        value, _ = _value_and_gradient(call, torch.tensor(x, requires_grad=True))
        np.testing.assert_array_equal(to_numpy(value), expected)
    assert len(triton_launches) >= 6


@pytest.mark.filterwarnings("ignore:Dynamo detected a call")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("dynamic", [False, True])
def test_dynamic_shapes_are_tagged_cudagraph_unsafe(dynamic):
    import torch

    found = []

    def record(graph, inputs):
        found.extend(node.target for node in graph.graph.nodes if "by_triton" in str(node.target))
        return graph.forward

    torch.compiler.reset()
    sort = torch.compile(lambda x: ops.csp(x, (0, 1, 5), 2), backend=record, dynamic=dynamic)
    sort(torch.randn(2, 6, 3))
    (op,) = found
    assert (torch.Tag.cudagraph_unsafe in op.tags) == dynamic


@pytest.mark.parametrize("case", CASES)
def test_name_restores_tables_in_another_process(case):
    """Restore tables from the name in a saved program. Unknown names raise."""
    import torch

    from keras_permix.ops.backend.plan import Plan
    from keras_permix.ops.backend.torch.triton import tables

    _, shape, arguments, _ = CASES[case]
    x, steps = torch.zeros(shape), arguments.get("steps")
    for size, back in itertools.product((1, 2, shape[1]), (False, True)):
        plan = Plan(steps, size).at(shape[1])
        name = tables._held(*tables._call(x, plan, back))
        expected = tables.tables_for(x, plan, back)
        vars(tables.HELD).clear()
        tables._tables.cache_clear()
        for found, wanted in zip(getattr(tables.HELD, name), expected, strict=True):
            assert found is wanted is None or torch.equal(found, wanted)
    with pytest.raises(AttributeError, match="nothing"):
        getattr(tables.HELD, "nothing")  # noqa: B009


def _value_and_gradient(call, x):
    import torch

    value = call(x)
    return value, *torch.autograd.grad((value**2).sum(), x)


def test_tables_of_cuda_graphs_stay_in_memory(monkeypatch):
    import torch

    from keras_permix.ops.backend.torch.triton import tables

    x, plan = torch.zeros(1, 8, 2), Plan((1, 2), 1)
    monkeypatch.setattr(tables, "recorded", lambda x: x.shape[1] == 8)
    monkeypatch.setattr(tables, "RECORDED", {})
    kept = ref(tables.tables_for(x, plan).moves)
    lost = ref(tables.tables_for(torch.zeros(1, 9, 2), plan).moves)
    tables._tables.cache_clear()
    assert kept() is not None and lost() is None
    assert tables.tables_for(x, plan).moves is kept()  # recorded again


def test_results_can_be_changed_in_place(triton_launches):
    import torch

    x = torch.arange(8.0).reshape(1, 4, 2).requires_grad_()
    result = ops.csp(x, (0, 1), 2)
    result += 1
    (result**2).sum().backward()
    values = x.detach().numpy()
    wanted = oracle.values(values, oracle.csp(values, (0, 1), 2)) + 1
    assert np.array_equal(result.detach(), wanted) and torch.equal(x.grad, 2 * (x + 1))
    assert triton_launches


def test_pairs_without_gradient_save_no_residuals(triton_launches):
    import torch

    from keras_permix.ops.backend.torch.triton.functions import run
    from keras_permix.ops.backend.triton.pairs import order_pairs

    x = torch.zeros(1, 4, 2)
    assert order_pairs(run, x, Reads(Window()), aligned=False, with_residuals=False)[1] is None
    with torch.no_grad():
        ops.csp(x.requires_grad_(), (0, 1), 2)
    assert triton_launches == ["order_pairs_kernel"] * 2


def test_residuals_of_pairs_take_one_bit():
    import torch

    from keras_permix.ops.backend.torch.triton.functions import run
    from keras_permix.ops.backend.triton.pairs import order_pairs

    residuals = order_pairs(
        run, torch.zeros(2, 64, 40), Reads(Window()), aligned=False, with_residuals=True
    )[1]
    assert (tuple(residuals.shape), residuals.dtype) == ((2, 1, 40), torch.int32)


@pytest.mark.parametrize(("tokens", "bytes_each"), [(256, 1), (257, 2)])
def test_residuals_of_sort_take_one_or_two_bytes(tokens, bytes_each):
    import torch

    from keras_permix.ops.backend.torch.triton.functions import run
    from keras_permix.ops.backend.triton.sort import sort_groups

    residuals = sort_groups(run, torch.zeros(1, tokens, 1), tokens, with_residuals=True)[1]
    assert residuals.element_size() == bytes_each


def test_strided_input_and_empty_batch():
    import torch

    x = torch.arange(24.0).reshape(2, 3, 4).flip(2).transpose(1, 2).requires_grad_()
    out = ops.group_sort(x, 2, implementation="triton")
    assert torch.equal(out, x.unflatten(1, (2, 2)).sort(2).values.flatten(1, 2))
    out.sum().backward()  # with an expanded scalar as gradient
    assert ops.group_sort(x[:0], 2, implementation="triton").shape == (0, 4, 3)


def test_tuned_program_sizes_give_equal_results(capsys):
    tool = load_module("tools/tune_triton.py")
    assert tool.main(["--dry-run"]) == 0
    assert capsys.readouterr().out.count("equal") == 21
