"""Test permutations on PyTorch: derivatives, `torch.func`, compilation, caches and aliases."""

import keras
import numpy as np
import pytest

from keras_permix import ops
from tests.harness import to_numpy
from tests.oracle import permutations as oracle

pytestmark = pytest.mark.skipif(keras.config.backend() != "torch", reason="requires PyTorch")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 12, 6)).astype("float32")
# Gaps, all padding, and padding last.
MASK = np.stack([RNG.random(12) < 0.6, np.zeros(12, bool), np.arange(12) < 7])
STEPS = (0, 1, -5, 40, 2**40, -(10**30))
CASES = {
    "shift": ("channel_shift", (STEPS,), {}),
    "pairs": ("csp", (STEPS, 2), {}),
    "pairs, aligned": ("csp", (STEPS, 2), {"align": "reference"}),
    "groups of 3, aligned": ("csp", (STEPS, 3), {"align": "reference"}),
    "ragged groups": ("group_sort", (5,), {"ragged": True}),
    "sort": ("slice_sort", ((True, False) * 3,), {}),
    "exchange": ("max_exchange", (), {}),
}


def tensor(array):
    """Copy an array to a tensor on the device of Keras."""
    return keras.ops.convert_to_tensor(np.array(array))


@pytest.fixture(params=CASES)
def case(request):
    """Return a function of a tensor and a mask, and one from a mask to the source positions."""
    name, arguments, named = CASES[request.param]
    described = {key: value for key, value in named.items() if key != "ragged"}

    def function(x, mask=None, implementation=None):
        op = getattr(ops, name)
        return op(x, *arguments, mask=mask, implementation=implementation, **named)

    return function, lambda mask=None: getattr(oracle, name)(X, *arguments, mask=mask, **described)


def cubed(function, mask, weight):
    """Return a loss whose gradient depends on `x` through the permutation."""
    return lambda x: (function(x, mask) ** 3 * weight).sum()


@pytest.mark.parametrize("mask", [None, MASK], ids=["unmasked", "masked"])
def test_first_and_second_derivatives_match_oracle(case, mask):
    import torch

    function, sources = case
    x, weight = tensor(X).requires_grad_(), RNG.integers(1, 9, X.shape)
    direction = RNG.integers(-8, 9, X.shape).astype("float32")
    loss = cubed(function, mask, tensor(weight).float())
    (gradient,) = torch.autograd.grad(loss(x), x, create_graph=True)
    (second,) = torch.autograd.grad(gradient, x, tensor(direction))
    # Exact: nothing is summed, and the same products round equally.
    permuted = oracle.values(X, sources(mask))
    outer = tensor(oracle.values(direction, sources(mask)) * 1.0)
    leaf = tensor(permuted).requires_grad_()
    plain = (leaf**3 * tensor(weight).float()).sum()
    (first,) = torch.autograd.grad(plain, leaf, create_graph=True)
    (curved,) = torch.autograd.grad(first, leaf, outer)
    expected = oracle.gradient(to_numpy(first.detach()), sources(mask))
    np.testing.assert_array_equal(to_numpy(gradient.detach()), expected)
    expected = oracle.gradient(to_numpy(curved), sources(mask))
    np.testing.assert_array_equal(to_numpy(second), expected)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("mask", [None, MASK], ids=["unmasked", "masked"])
def test_torch_func_transforms(case, mask):
    import torch

    function, sources = case
    at = sources(mask)
    mask = None if mask is None else tensor(mask)
    x, weight = tensor(X), tensor(RNG.normal(size=X.shape)).float()
    moved = tensor(oracle.values(X, at))
    expected = oracle.gradient(to_numpy(3 * moved**2 * weight), at)
    found = torch.func.grad(cubed(function, mask, weight))(x)
    np.testing.assert_array_equal(to_numpy(found), expected)

    many = torch.stack([x, x.flip(1), -x], dim=1)
    mapped = torch.func.vmap(lambda x: function(x, mask), in_dims=1)(many)
    for result, one in zip(mapped, many.unbind(1), strict=True):
        np.testing.assert_array_equal(to_numpy(result), to_numpy(function(one, mask)))
    gradients = torch.func.vmap(torch.func.grad(cubed(function, mask, weight)), in_dims=1)(many)
    np.testing.assert_array_equal(to_numpy(gradients[0]), expected)

    def total(many):
        return (torch.func.vmap(lambda x: function(x, mask), in_dims=1)(many) ** 3 * weight).sum()

    leaf = many.clone().requires_grad_()
    total(leaf).backward()
    for found in (torch.func.grad(total)(many), leaf.grad):
        np.testing.assert_array_equal(to_numpy(found[:, 0]), expected)
    _, tangent = torch.func.jvp(lambda x: function(x, mask), (x,), (weight,))
    np.testing.assert_array_equal(to_numpy(tangent), oracle.values(to_numpy(weight), at))


# torch.compile uses deprecated PyTorch APIs.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("mask", [None, MASK], ids=["unmasked", "masked"])
def test_compiled_values_and_gradients_match_oracle(case, mask):
    import torch

    function, sources = case
    torch.compiler.reset()
    mask_ = () if mask is None else (tensor(mask),)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    x = tensor(X).requires_grad_()
    value = compiled(x, *mask_)
    cotangent = RNG.integers(-8, 9, X.shape).astype("float32")
    (gradient,) = torch.autograd.grad(value, x, tensor(cotangent))
    np.testing.assert_array_equal(to_numpy(value.detach()), oracle.values(X, sources(mask)))
    np.testing.assert_array_equal(to_numpy(gradient), oracle.gradient(cotangent, sources(mask)))


@pytest.mark.parametrize("case_", CASES)
def test_masks_and_ragged_groups_avoid_reference(case_):
    name, arguments, named = CASES[case_]
    explained = ops.explain(name, X, *arguments, mask=MASK, **named)
    assert explained.chosen != "reference"


def test_results_do_not_alias_inputs():
    import torch

    x = tensor(X)
    for function in (
        lambda x: ops.group_sort(x, 1),
        lambda x: ops.channel_shift(x, (0,) * 6),
        lambda x: ops.channel_shift(x, (12, 0, -12, 24, 0, 0)),
        lambda x: ops.csp(x[:, :1], (1,) * 6, 2, ragged=True),
        lambda x: ops.group_sort(x, 1, mask=np.ones((3, 12), bool)),
    ):
        with torch.no_grad():
            function(x).add_(1)
        np.testing.assert_array_equal(to_numpy(x), X)
    integers = torch.tensor([[[3], [1], [2], [0]]], dtype=torch.int32)
    assert ops.group_sort(integers, 4).flatten().tolist() == [0, 1, 2, 3]
    assert integers.flatten().tolist() == [3, 1, 2, 0]


def test_cache_stays_within_its_limit():
    import torch

    from keras_permix.ops.backend.torch.shift import Cache

    cache, made = Cache(1000), []

    def make(count):
        made.append(count)
        return torch.zeros(count, dtype=torch.uint8)

    for count in (400, 500, 400, 300, 400, 2000, 400, 500):
        assert len(cache.get(make, count)) == count
        assert cache.held == sum(tensor.nbytes for tensor in cache.entries.values()) <= 1000
    assert made == [400, 500, 300, 2000, 500]


def test_fake_tensors_are_not_cached():
    from torch._subclasses.fake_tensor import FakeTensorMode

    steps = (0, 1, 2, 3, 4, 7)
    with FakeTensorMode() as mode:
        import torch

        x = torch.empty(3, 12, 6)
        assert ops.explain("csp", x, steps, 4).chosen == "sort"
        assert tuple(ops.csp(x, steps, 4).shape) == tuple(x.shape) and mode is x.fake_mode
        assert tuple(ops.csp(x, steps, 2).shape) == tuple(x.shape)
    result = ops.csp(X, steps, 2)
    np.testing.assert_array_equal(to_numpy(result), oracle.values(X, oracle.csp(X, steps, 2)))


def test_export_with_dynamic_length():
    import torch

    class Mixer(torch.nn.Module):
        def forward(self, x, mask):
            return ops.slice_sort(ops.csp(x, STEPS, 2, mask=mask), True, mask=mask)

    tokens = 2 * torch.export.Dim("pairs", min=2)
    shapes = {"x": {1: tokens}, "mask": {1: tokens}}
    arguments = tensor(X), tensor(MASK)
    program = torch.export.export(Mixer(), arguments, dynamic_shapes=shapes)
    x, mask = RNG.normal(size=(3, 18, 6)).astype("float32"), RNG.random((3, 18)) < 0.7
    expected = oracle.values(x, oracle.csp(x, STEPS, 2, mask=mask))
    expected = oracle.values(expected, oracle.slice_sort(expected, True, mask))
    result = program.module()(tensor(x), tensor(mask))
    np.testing.assert_array_equal(to_numpy(result), expected)


def test_result_supports_in_place_operations(case):
    function, sources = case
    for x in (tensor(X), tensor(X).double()):
        result = function(x.requires_grad_())
        result.add_(1)
        expected = oracle.values(to_numpy(x.detach()), sources()) + 1
        np.testing.assert_array_equal(to_numpy(result.detach()), expected)


def test_threads_share_fewer_rows(monkeypatch):
    from keras_permix.ops.backend.torch import numpy_sort

    monkeypatch.setattr(numpy_sort, "WORTH_A_THREAD", 4)
    monkeypatch.setattr("torch.get_num_threads", lambda: 4)
    x = RNG.normal(size=(1, 17, 1)).astype("float32")
    sorted_ = ops.slice_sort(tensor(x), implementation="numpy")
    np.testing.assert_array_equal(to_numpy(sorted_), np.sort(x, axis=1))
