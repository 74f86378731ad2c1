"""Test permutations on TensorFlow: tracing, second derivatives and edge cases."""

import logging

import keras
import numpy as np
import pytest

if keras.config.backend() != "tensorflow":
    pytest.skip("requires TensorFlow", allow_module_level=True)

import tensorflow as tf

from keras_permix import ops
from keras_permix.ops.backend.tensorflow import permute, runtime
from tests.backends import value_and_gradient
from tests.harness import assert_close
from tests.oracle import permutations as oracle

RNG = np.random.default_rng(0)
SHAPE = (3, 7, 4)
X = RNG.integers(-2, 3, SHAPE).astype("float32")
COTANGENT = RNG.integers(-8, 9, SHAPE).astype("float32")
MASK = np.array([[1, 1, 1, 1, 1, 0, 0], [0, 1, 0, 1, 1, 0, 1], [0, 0, 0, 0, 0, 0, 0]], bool)
STEPS = (3, -(2**40) - 1, 2**70 + 5, 2**31 + 2)  # exceed 32 bits
LINEAR = ops.ShiftSchedule("linear", channels=4)
DOWN = (True, False, False, True)
CASES = {
    "shift": (
        lambda x, mask: ops.channel_shift(x, STEPS, mask=mask),
        lambda x, mask: oracle.channel_shift(x, STEPS, mask),
    ),
    "pairs": (
        lambda x, mask: ops.csp(x, STEPS, 2, ragged=True, mask=mask),
        lambda x, mask: oracle.csp(x, STEPS, 2, mask=mask),
    ),
    "aligned pairs": (
        lambda x, mask: ops.csp(x, STEPS, 2, align="reference", ragged=True, mask=mask),
        lambda x, mask: oracle.csp(x, STEPS, 2, "reference", mask),
    ),
    "groups": (
        lambda x, mask: ops.csp(x, STEPS, 3, ragged=True, mask=mask),
        lambda x, mask: oracle.csp(x, STEPS, 3, mask=mask),
    ),
    "schedule": (
        lambda x, mask: ops.csp(x, LINEAR, 3, ragged=True, mask=mask),
        lambda x, mask: oracle.csp(x, oracle.schedule("linear", x.shape[2]), 3, mask=mask),
    ),
    "aligned groups": (
        lambda x, mask: ops.csp(x, STEPS, 3, align="reference", ragged=True, mask=mask),
        lambda x, mask: oracle.csp(x, STEPS, 3, "reference", mask),
    ),
    "sort up and down": (
        lambda x, mask: ops.slice_sort(x, DOWN, mask=mask),
        lambda x, mask: oracle.slice_sort(x, DOWN, mask),
    ),
    "exchange": (
        lambda x, mask: ops.max_exchange(x, mask=mask),
        oracle.max_exchange,
    ),
}
TRACES = {
    "known": dict(shape=SHAPE),
    "unknown": dict(shape=(None, None, SHAPE[2])),
    "unknown, compiled": dict(shape=(None, None, SHAPE[2]), jit_compile=True),
}


def traced(function, shape, jit_compile=None):
    """Trace `function` with a tensor of static shape `shape` and its mask."""
    signature = [tf.TensorSpec(shape, "float32"), tf.TensorSpec(shape[:2], "bool")]
    compiled = tf.function(function, signature, autograph=False, jit_compile=jit_compile)
    return lambda x, mask: compiled(x, tf.ones(x.shape[:2], "bool") if mask is None else mask)


@pytest.mark.parametrize("mask", [None, MASK], ids=["unmasked", "masked"])
@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("case", CASES)
def test_traced_values_and_gradients(case, trace, mask):
    function, sources = CASES[case]
    chosen = None if mask is None else MASK  # `call` shadows `mask`

    def call(x, mask):
        return function(x, None if chosen is None else mask)

    call = traced(call, **TRACES[trace])
    value, gradient = value_and_gradient(lambda x: call(x, mask), X, COTANGENT)
    np.testing.assert_array_equal(value, oracle.values(X, sources(X, mask)))
    np.testing.assert_array_equal(gradient, oracle.gradient(COTANGENT, sources(X, mask)))


@pytest.mark.parametrize("mask", [None, MASK], ids=["unmasked", "masked"])
@pytest.mark.parametrize("case", CASES)
def test_second_derivatives(case, mask):
    """Test a Hessian-vector product of sum(weight * y**3), where y is the permuted x."""
    function, sources = CASES[case]
    sources = sources(X, mask)
    y, moved = (oracle.values(t, sources) for t in (X, COTANGENT))
    expected = oracle.gradient(6 * y * moved * COTANGENT, sources)
    assert expected.any()

    def product(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = tf.reduce_sum(COTANGENT * function(x, mask) ** 3)
            gradient = inner.gradient(loss, x)
        return outer.gradient(gradient, x, output_gradients=COTANGENT)

    call = product if mask is None else tf.function(product, autograph=False)
    np.testing.assert_array_equal(call(tf.constant(X)), expected)


@pytest.mark.parametrize("tokens", [7, None])
def test_native_supports_masks_and_unknown_lengths(tokens):
    calls = (
        ("csp", STEPS, 2),
        ("group_sort",),
        ("slice_sort", DOWN),
        ("channel_shift", STEPS),
        ("max_exchange",),
    )
    served = []

    def trace(x, mask):
        for name, *arguments in calls:
            ragged = dict(ragged=True) if name == "csp" else {}
            for given in (None, mask):
                served.append(ops.explain(name, x, *arguments, mask=given, **ragged).chosen)

    shape = (None, tokens, 4)
    signature = [tf.TensorSpec(shape, "float32"), tf.TensorSpec(shape[:2], "bool")]
    tf.function(trace, signature, autograph=False).get_concrete_function()
    assert served == ["native"] * 2 * len(calls)


@pytest.mark.parametrize("shape", [(0, 6, 4), (2, 0, 4)], ids=["no samples", "no tokens"])
@pytest.mark.parametrize("case", CASES)
def test_empty_tensor_of_unknown_shape(case, shape):
    """Emptiness is unknown while tracing, so the chosen implementation runs."""
    function, x = CASES[case][0], tf.zeros(shape)
    call = tf.function(
        lambda x: function(x, None), [tf.TensorSpec((None, None, 4))], autograph=False
    )
    value, gradient = value_and_gradient(call, x, x)
    assert value.shape == gradient.shape == shape


def test_shift_of_booleans():
    x = RNG.random(SHAPE) < 0.5
    for mask in (None, MASK):
        sources = oracle.channel_shift(x, STEPS, mask)
        result = ops.channel_shift(tf.constant(x), STEPS, mask=mask)
        np.testing.assert_array_equal(result, oracle.values(x, sources))


@pytest.mark.parametrize("mask", [None, [[True, True, True, True, False]]])
def test_max_exchange_keeps_every_bit(mask):
    """The maximum must be distinguished from signed zeros and subnormal numbers."""
    x = np.float32([[-0.0, 0.0, 1e-40, -1e-40, -0.0], [0.0, -0.0, -0.0, -3.0, -0.0]])
    x = np.stack([x[0], x[1], -np.abs(x[0]), x[1][[1, 0, 2, 3, 4]]], axis=-1)[None]
    result = ops.max_exchange(tf.constant(x), mask=mask).numpy()
    expected = oracle.values(x, oracle.max_exchange(x, None if mask is None else np.array(mask)))
    assert result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "int64", "float64", "bfloat16"])
def test_max_exchange_dtypes(dtype):
    x = (RNG.integers(0, 250, SHAPE) - (0 if dtype[0] == "u" else 100)).astype("float32")
    for mask in (None, MASK):
        result = ops.max_exchange(tf.cast(x, dtype), mask=mask)
        expected = oracle.values(x, oracle.max_exchange(x, mask))
        np.testing.assert_array_equal(tf.cast(result, "float32"), expected)


def test_smallest_integers_sort_before_padding():
    x = np.array([[5, -128, 127, -128, 1, 127]], "int8").T[None]
    mask = np.array([[False, True, True, True, True, False]])
    for call, sources in (
        (lambda d: ops.slice_sort(x, d, mask=mask), lambda d: oracle.slice_sort(x, d, mask)),
        (lambda d: ops.max_exchange(-1 - x if d else x, mask=mask), None),
    ):
        for down in (False, True):
            values = -1 - x if sources is None and down else x
            expected = oracle.max_exchange(values, mask) if sources is None else sources(down)
            np.testing.assert_array_equal(call(down), oracle.values(values, expected))


class Scaled(keras.Layer):
    """Scale every channel, then permute the real tokens."""

    def build(self, shape):
        self.scale = self.add_weight(shape=shape[-1:], initializer="ones")

    def call(self, x, mask):
        return ops.csp(x * self.scale, (1, 2, 3, 4), 2, ragged=True, mask=mask)


@pytest.mark.parametrize("jit_compile", [True, False])
@pytest.mark.parametrize("tokens", [SHAPE[1], None])
def test_training_step(tokens, jit_compile):
    inputs, mask = keras.Input((tokens, 4)), keras.Input((tokens,), dtype="bool")
    model = keras.Model([inputs, mask], Scaled()(inputs, mask))
    model.compile(keras.optimizers.SGD(1.0), "mse", jit_compile=jit_compile)
    model.fit([X, MASK], COTANGENT, batch_size=len(X), verbose=0)
    sources = oracle.csp(X, (1, 2, 3, 4), 2, mask=MASK)
    slope = 2 * (oracle.values(X, sources) - COTANGENT) / X.size
    expected = 1 - (X * oracle.gradient(slope, sources)).sum(axis=(0, 1))
    assert_close(model.weights[0].numpy(), expected)


@pytest.mark.parametrize("group_size", [1, 2, 3])
def test_masked_layers_share_compiled_functions(group_size):
    permute._permutation.cache_clear()
    for layer in range(2):
        steps = ops.ShiftSchedule("power", 4, layer_index=layer, num_layers=2)
        ops.csp(X, steps, group_size, ragged=True, mask=MASK)
    assert permute._permutation.cache_info().currsize == 1


def test_many_plans_do_not_warn_about_retracing():
    messages, handler = [], logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logging.getLogger("tensorflow").addHandler(handler)
    try:
        for step in range(14):
            ops.csp(X, (step, 5, 4, 40 + step), 7)
    finally:
        logging.getLogger("tensorflow").removeHandler(handler)
    assert not messages


@pytest.mark.parametrize("kinds, traced", [(["CPU"], "cpu"), (["CPU", "GPU"], "unknown")])
def test_platform_of_tensors_and_traces(kinds, traced, monkeypatch):
    """With several kinds of devices, the platform of a trace is unknown."""
    devices = [type("Device", (), dict(device_type=kind)) for kind in kinds]
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda: devices)
    assert runtime.platform(tf.constant(X)) == "cpu"
    platforms = []
    tf.function(lambda x: platforms.append(runtime.platform(x)), autograph=False)(tf.constant(X))
    assert platforms == [traced]


@pytest.mark.parametrize("jit", [False, True], ids=["graph", "compiled"])
@pytest.mark.parametrize("name", ["csp", "group_sort", "sinkhorn_csp"])
def test_group_size_must_divide_dynamic_length(name, jit):
    call = {
        "csp": lambda x: ops.csp(x, (0, 1), 2),
        "group_sort": lambda x: ops.group_sort(x, 2),
        "sinkhorn_csp": lambda x: ops.sinkhorn_csp(x, (0, 1), 2, iterations=1),
    }[name]
    signature = [tf.TensorSpec((None, None, 2))]
    function = tf.function(call, input_signature=signature, jit_compile=jit)
    assert function(tf.ones((1, 4, 2))).shape == (1, 4, 2)
    with pytest.raises(tf.errors.InvalidArgumentError):
        function(tf.ones((1, 5, 2)))


def test_a_graph_keeps_the_device_of_the_caller():
    @tf.function
    def sort(x):
        with tf.device("/CPU:0"):
            return ops.group_sort(x, 7)

    graph = sort.get_concrete_function(tf.TensorSpec(SHAPE)).graph
    calls = [operation for operation in graph.get_operations() if "Call" in operation.type]
    assert calls and all("CPU:0" in call.device for call in calls)
