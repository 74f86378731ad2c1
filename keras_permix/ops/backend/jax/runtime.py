"""What JAX runs on and how: tracing, single CPUs, timers, variables of a model."""

import contextlib
from time import perf_counter

import jax
import keras
from jax import lax
from keras import ops

from keras_permix.ops.backend.jax.hardware import devices_of_program


def has_data(x):
    """Whether this process holds the numbers in `x` now, on whatever devices."""
    return not isinstance(x, jax.core.Tracer) and x.is_fully_addressable


def alone_on_cpu():
    """Whether XLA compiles for one CPU, with nothing to divide."""
    return [device.platform for device in devices_of_program()] == ["cpu"]


def each(function, *arrays):
    """Apply to each sample; on one CPU one by one, so that it stays in the cache."""
    if not alone_on_cpu():
        return jax.vmap(function)(*arrays)
    return lax.map(lambda entries: function(*entries), arrays)


def apart(function, x):
    """Call a function of the whole batch, and fuse nothing with it.

    XLA for CPUs fuses a gather with what comes after, and gathers again for each of the uses. A
    conditional is an edge that it keeps; `lax.optimization_barrier` is not. Both branches are the
    same. The condition depends on one sample, for which several devices would have to wait.
    """
    if not alone_on_cpu():
        return function(x)
    first_is_positive = (x[(slice(1),) * x.ndim] > 0).any()
    return lax.cond(first_is_positive, function, function, x)


def make_runners(function, x, weights):
    """A forward call, and one with gradients for `x` and for the weights."""

    def call(x, weights):
        if not isinstance(function, keras.Layer):
            return function(x)
        fixed = [variable.value for variable in function.non_trainable_variables]
        return function.stateless_call(weights, fixed, x)[0]

    def both(x, weights, cotangent):
        result, pull = jax.vjp(call, x, weights)
        for_x, for_weights = pull(cotangent)
        return [result, for_x, *for_weights]

    forward, both = jax.jit(lambda *arguments: [call(*arguments)]), jax.jit(both)
    cotangent = jax.numpy.ones_like(call(x, weights))
    return lambda: forward(x, weights), lambda: both(x, weights, cotangent)


def chip(number=0):
    """The name of an accelerator, or "" where there is none."""
    device = jax.devices()[number]
    return "" if device.platform == "cpu" else device.device_kind


def seconds(call):
    """How long a call takes, until its results are there."""
    start = perf_counter()
    jax.block_until_ready(call())
    return perf_counter() - start


def peak_bytes(call, number):
    """`None`: JAX tells the peak since the process began, and not that of a call."""


def full_precision():
    """Products of float32 are exact to float32 within: no TF32, and no bfloat16 on a TPU."""
    return jax.default_matmul_precision("highest")


@contextlib.contextmanager
def weights_kept(model):
    """Give a model back what Keras has taken out of it for a step that does not end.

    `fit`, `evaluate` and `predict` empty its variables before the first step and fill them after
    the last. An error between, such as one for inputs of another shape or Ctrl-C, leaves them so.
    And `fit` leaves a moving average and the weight that it became one array, which the next step
    would delete twice.
    """
    optimizer = getattr(model, "optimizer", None)
    variables = [
        *model.variables,
        *model.metrics_variables,
        *(optimizer.variables if optimizer else ()),
    ]
    before = [(variable, variable._value) for variable in variables]
    try:
        yield
    except BaseException:
        model.jax_state_sync()  # of the last whole step, where there was one
        for variable, value in before:
            if variable._value is None and value is not None and not value.is_deleted():
                variable.assign(value)
        raise
    # A loss that is scaled has an optimizer within the optimizer.
    if optimizer and getattr(optimizer, "inner_optimizer", optimizer).use_ema:
        for variable in model.trainable_variables:
            variable.assign(ops.copy(variable.value))
