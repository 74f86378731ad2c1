"""Test dispatch: selection, forced implementations, `explain`, exports and empty tensors."""

import json

import keras
import numpy as np
import pytest

from keras_permix import ops
from keras_permix.ops.backend.plan import Hardware, Implementation, Plan
from keras_permix.ops.dispatch import dispatch
from tests.backends import compiled, value_and_gradient
from tests.harness import to_numpy

X = np.random.default_rng(0).normal(size=(2, 8, 4)).astype("float32")
STEPS = (0, 1, 2, 3)
SCHEDULE = ops.ShiftSchedule("linear", 4)


@pytest.fixture
def served(monkeypatch):
    """Record the names of implementations that run, and add one for a missing device."""
    names = []

    def noting(name, function):
        def call(*arguments, **options):
            names.append(name)
            return function(*arguments, **options)

        return call

    candidates = [Implementation("group_sort", "elsewhere", print, devices=("abacus",))]
    for candidate in dispatch.NATIVE.IMPLEMENTATIONS:
        facts = {key: value for key, value in vars(candidate).items() if key != "installed"}
        candidates.append(
            Implementation(**{**facts, "function": noting(candidate.name, candidate.function)})
        )
    monkeypatch.setattr(dispatch.NATIVE, "IMPLEMENTATIONS", tuple(candidates))
    return names


def test_forced_name_of_another_op_is_ignored(monkeypatch, served):
    usual = ops.explain("max_exchange", X).chosen
    other = next(
        candidate.name
        for candidate in dispatch.NATIVE.IMPLEMENTATIONS
        if candidate.op == "damped_ema"
    )
    monkeypatch.setattr(dispatch, "FORCED", other)
    assert other not in ops.explain("max_exchange", X).objections
    assert ops.explain("max_exchange", X).chosen == usual
    ops.max_exchange(X)
    assert served == [usual]


def test_reference_can_be_forced(monkeypatch, served):
    monkeypatch.setattr(dispatch, "FORCED", "reference")
    assert ops.explain("csp", X, STEPS, 2).chosen == "reference"
    ops.csp(X, STEPS, 2)
    assert served == []


def test_forced_unsupported_implementation_raises(monkeypatch, served):
    monkeypatch.setattr(dispatch, "FORCED", "elsewhere")
    for call in (lambda: ops.group_sort(X, 2), lambda: ops.explain("group_sort", X, 2)):
        with pytest.raises(
            ValueError, match="'elsewhere' does not support.*it requires device abacus"
        ):
            call()


def test_requested_unsupported_implementation_raises(served):
    with pytest.raises(
        ValueError, match="(?s)'elsewhere' does not support.*abacus.*shape=.2, 8, 4."
    ):
        ops.group_sort(X, 2, implementation="elsewhere")


def test_forced_unknown_name_raises(monkeypatch):
    monkeypatch.setattr(dispatch, "FORCED", "magic")
    for call in (lambda: ops.max_exchange(X), lambda: ops.explain("max_exchange", X)):
        with pytest.raises(ValueError, match="`KERAS_PERMIX_IMPLEMENTATION` must be one.*'magic'"):
            call()


@pytest.mark.skipif(keras.config.backend() == "torch", reason="PyTorch detects exports")
@pytest.mark.parametrize(("op", "arguments"), [("csp", (STEPS, 2)), ("max_exchange", ())])
def test_exporting_selects_reference(op, arguments):
    with ops.exporting():
        assert ops.explain(op, X, *arguments).chosen == "reference"
        with pytest.raises(RuntimeError), ops.exporting():
            raise RuntimeError
        assert ops.explain(op, X, *arguments).chosen == "reference"
    assert ops.explain(op, X, *arguments).chosen != "reference"


def test_overlapping_exports():
    """Exports in two threads may overlap without being nested."""
    first, second = ops.exporting(), ops.exporting()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert dispatch.EXPORTING
    second.__exit__(None, None, None)
    assert not dispatch.EXPORTING


@pytest.mark.skipif(keras.config.backend() == "torch", reason="PyTorch detects exports")
def test_exporting_overrides_forced_implementation(monkeypatch):
    monkeypatch.setattr(dispatch, "FORCED", "native")
    with ops.exporting():
        assert ops.explain("csp", X, STEPS, 2).chosen == "reference"
    assert ops.explain("csp", X, STEPS, 2).chosen == "native"


def test_argument_overrides_forced_implementation(monkeypatch, served):
    monkeypatch.setattr(dispatch, "FORCED", "elsewhere")
    ops.group_sort(X, 2, implementation="reference")
    assert served == []


def test_explained_implementation_runs(served):
    chosen = ops.explain("group_sort", X, 2).chosen
    ops.group_sort(X, 2)
    assert served == [chosen] and chosen != "elsewhere"


@pytest.mark.skipif(keras.config.backend() == "torch", reason="no `explain` in torch.compile")
def test_explain_inside_compiled_function(served):
    explained = []

    @compiled
    def function(x):
        explained.append(ops.explain("group_sort", x, 2).chosen)
        return ops.group_sort(x, 2)

    function(keras.ops.convert_to_tensor(X))
    assert explained and explained[-1] == served[-1]


def test_symbolic_call_on_unknown_device(served):
    explanation = ops.explain("group_sort", keras.Input((8, 4)), 2)
    assert explanation.chosen is None
    assert "elsewhere: unknown until run time: it depends on the device" in str(explanation)


def test_symbolic_call_without_device_requirements(monkeypatch):
    candidates = (
        Implementation("group_sort", "small", print, max_group=1),
        Implementation("group_sort", "all", print),
    )
    monkeypatch.setattr(dispatch.NATIVE, "IMPLEMENTATIONS", candidates)
    explanation = ops.explain("group_sort", keras.Input((8, 4)), 2)
    assert explanation.chosen == "all"
    assert explanation.objections["small"] == "it supports groups of at most 1 tokens"
    explanation = ops.explain("group_sort", keras.Input((None, 4)), 2)
    assert explanation.chosen is None
    assert "all: unknown until run time: it depends on the number of tokens" in str(explanation)


def test_device_requirement_rejects_unknown_device(monkeypatch):
    monkeypatch.setattr(dispatch.RUNTIME, "hardware", lambda x: Hardware())
    candidate = Implementation("group_sort", "elsewhere", print, devices=("abacus",))
    monkeypatch.setattr(dispatch.NATIVE, "IMPLEMENTATIONS", (candidate,))
    explanation = ops.explain("group_sort", X, 2)
    assert explanation.chosen == "reference"
    assert (
        "requires device abacus, but the device is not known" in explanation.objections["elsewhere"]
    )


@pytest.mark.parametrize("steps", [STEPS, SCHEDULE], ids=["steps", "schedule"])
def test_model_with_ops_is_saved(steps, tmp_path):
    inputs = keras.Input((None, 4))
    outputs = ops.slice_sort(ops.csp(inputs, steps, 2), (True, False, True, False))
    model = keras.Model(inputs, outputs)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    for part in (X, X[:, :6]):
        np.testing.assert_array_equal(to_numpy(again(part)), to_numpy(model(part)))


def floats(*shape):
    return np.zeros(shape, "float32")


def ema(x, **mask):
    parameters = [np.full((x.shape[2], 2), 0.5, "float32")] * 4
    return ops.damped_ema(x, *parameters, np.ones(x.shape[2], "float32"), **mask)


def attention(x, **mask):
    return ops.simple_attention(*[x[:, :, None]] * 3, **mask)[:, :, 0]


# Ops as functions of `x`, (batch, tokens, 4), and an optional mask.
EMPTY = {
    "channel_shift": lambda x, **mask: ops.channel_shift(x, STEPS, **mask),
    "channel_shift by schedule": lambda x, **mask: ops.channel_shift(x, SCHEDULE, **mask),
    "group_sort": lambda x, **mask: ops.group_sort(x, **mask),
    "group_sort 1": lambda x, **mask: ops.group_sort(x, 1, **mask),
    "csp": lambda x, **mask: ops.csp(x, STEPS, 2, **mask),
    "csp in groups of 4": lambda x, **mask: ops.csp(x, STEPS, 4, **mask),
    "csp by schedule": lambda x, **mask: ops.csp(x, SCHEDULE, 3, ragged=True, **mask),
    "csp reference": lambda x, **mask: ops.csp(x, STEPS, 2, align="reference", **mask),
    "csp ragged": lambda x, **mask: ops.csp(x, STEPS, 3, ragged=True, **mask),
    "slice_sort": lambda x, **mask: ops.slice_sort(x, (True, False) * 2, **mask),
    "max_exchange": lambda x, **mask: ops.max_exchange(x, **mask),
    "sinkhorn_csp": lambda x, **mask: ops.sinkhorn_csp(x, STEPS, 2, **mask),
    "damped_ema": ema,
    "simple_attention": attention,
    "butterfly_permute": lambda x: ops.butterfly_permute(x, 2, 1, axis=2),
    "butterfly_unpermute": lambda x: ops.butterfly_unpermute(x, 2, 1, axis=2),
}
MASKED = [name for name in EMPTY if not name.startswith("butterfly")]


@pytest.mark.parametrize("shape", [(0, 8, 4), (2, 0, 4), (0, 0, 4)])
@pytest.mark.parametrize(
    ("name", "masked"), [*((name, False) for name in EMPTY), *((name, True) for name in MASKED)]
)
def test_empty_tensors_keep_their_shape(name, masked, shape):
    mask = {"mask": np.ones(shape[:2], bool)} if masked else {}
    results = value_and_gradient(lambda x: EMPTY[name](x, **mask), floats(*shape), floats(*shape))
    assert [tuple(result.shape) for result in results] == [shape] * 2


def test_explain_empty_tensor():
    explanation = ops.explain("csp", floats(2, 0, 4), STEPS, 2)
    assert explanation.chosen == "copy"
    assert "reference: it is not used for empty tensors" in str(explanation)
    assert str(explanation).endswith("copy: selected")


def test_other_empty_shapes():
    assert tuple(ops.sinkhorn(floats(0, 3, 3)).shape) == (0, 3, 3)
    assert tuple(ops.sinkhorn(floats(2, 0, 0)).shape) == (2, 0, 0)
    assert tuple(ops.patchify(floats(0, 4, 6, 3), 2).shape) == (0, 6, 12)
    assert tuple(ops.patchify(floats(2, 0, 6, 3), 2).shape) == (2, 0, 12)
    assert tuple(ops.unpatchify(floats(0, 6, 12), 2, 4, 6).shape) == (0, 4, 6, 3)
    assert tuple(ops.unpatchify(floats(2, 0, 12), 2, 0, 6).shape) == (2, 0, 6, 3)
    with pytest.raises(ValueError, match="`size` must be a positive integer.*size=0"):
        ops.butterfly_permute(floats(2, 0, 4), 2, 1, axis=1)


@pytest.mark.skipif(keras.config.backend() != "torch", reason="tensors are immutable")
@pytest.mark.parametrize(
    "identity",
    [
        lambda x: ops.group_sort(x, 1, implementation="reference"),
        lambda x: ops.channel_shift(x, (0, 8, -8, 0), implementation="reference"),
        lambda x: ops.group_sort(x, 1),
        lambda x: ops.channel_shift(x, (0, 8, -8, 0)),
        lambda x: ops.butterfly_permute(x, 2, 0, axis=1),
    ],
)
def test_identity_returns_a_copy(identity):
    x = keras.ops.convert_to_tensor(X.copy())
    identity(x)[:] = 7
    np.testing.assert_array_equal(to_numpy(x), X)


def test_plan_of_schedule_equals_plan_of_steps():
    schedule = ops.ShiftSchedule("linear", 4)
    for tokens in (8, 6):
        steps = tuple(ops.shift_steps("linear", tokens, 4).tolist())
        assert Plan(schedule, 2).at(tokens) == Plan(steps, 2).at(tokens)
    assert schedule.at(8) is schedule.at(8)
    steps = (9, -1, 10**12, 0)
    assert Plan(steps, 2).at(8).steps is Plan(steps, 2).at(8).steps, "reduced once"


@pytest.mark.parametrize("name", ["linear", "random"])
def test_schedule_converts_numpy_integers(name):
    given = dict(channels=np.int8(100), layer_index=np.int64(1), num_layers=np.int16(2))
    schedule, plain = (
        ops.ShiftSchedule(name, **numbers)
        for numbers in (given, dict(channels=100, layer_index=1, num_layers=2))
    )
    assert schedule.at(1000) == plain.at(1000)
    assert json.dumps(schedule.get_config()) == json.dumps(plain.get_config())


def test_nonzero_mask_values_are_true():
    x = np.random.default_rng(0).normal(size=(1, 6, 4)).astype("float32")
    mask = np.array([[2.0, 0.5, 0.0, 1.0, 0.0, 3.0]], "float32")
    for implementation in (None, "reference"):
        results = [
            to_numpy(ops.csp(x, (0, 1, 2, 3), 2, mask=m, implementation=implementation))
            for m in (mask, mask != 0)
        ]
        np.testing.assert_array_equal(*results)
        assert not results[0][0, [2, 4]].any() and results[0][0, [0, 1, 3, 5]].all()


def test_empty_tensor_with_requested_implementation():
    name = ops.explain("group_sort", np.ones((1, 4, 3), "float32"), 2).chosen
    empty = np.zeros((2, 0, 3), "float32")
    assert ops.group_sort(empty, 2, implementation=name).shape == (2, 0, 3)


def test_descending_accepts_only_booleans():
    x = np.array([[[1.0, 1.0], [2.0, 2.0]]], "float32")
    up_and_down = ops.slice_sort(x, (np.bool_(False), True))
    np.testing.assert_array_equal(to_numpy(up_and_down), [[[1, 2], [2, 1]]])
    with pytest.raises(ValueError, match="`descending` must be.*descending=1, channels=2"):
        ops.slice_sort(x, 1)
