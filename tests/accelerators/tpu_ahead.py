"""Compile programs with libtpu for absent TPUs. The programs can be read, but not run."""

import re

import keras
import numpy as np

from keras_permix.tasks import task_of

CUSTOM_CALL = 'custom_call_target="tpu_custom_call"'
EXCHANGES = r"all-gather|all-to-all|collective-permute|reduce-scatter"


def program(function, shape, dtype, sharding):
    """Return `function` compiled for the devices of `sharding`."""
    import jax

    x = jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
    return jax.jit(function).lower(x).compile()


def kernels_of(text):
    """Return the Mosaic kernels that a compiled program calls."""
    calls = [line for line in text.splitlines() if CUSTOM_CALL in line]
    return {name for line in calls for name in re.findall(r"permix_([a-z_]+)", line)}


def with_gradient(function):
    import jax

    def both(x):
        value, pull = jax.vjp(function, x)
        return value, pull(x)

    return both


def train_step(model, samples, distribution):
    """Return a training step of Keras, compiled for a batch of `samples` samples."""
    import jax

    task = task_of(model)
    model.compile(keras.optimizers.AdamW(), task.loss(0.0))
    model.optimizer.build(model.trainable_variables)
    replicated, sharded = batch(distribution), batch(distribution, "batch")

    def spec(array, sharding, shape=None):
        return jax.ShapeDtypeStruct(shape or array.shape, array.dtype, sharding=sharding)

    def of_samples(array):
        return spec(array, sharded, (samples, *array.shape[1:]))

    kinds = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = tuple([spec(variable.value, replicated) for variable in kind] for kind in kinds)
    inputs = jax.tree.map(of_samples, model.make_inputs(0, 1))
    _, targets = task.batches(task.generate(4).train, 4)[0]
    with distribution.scope():
        step = jax.jit(model.train_step, donate_argnums=0)
        return step.lower(state, (inputs, of_samples(np.asarray(targets)))).compile()


def batch(distribution, *axes):
    """Return the sharding of a batch along axes of the mesh. No axes: a replicated array."""
    from jax.sharding import NamedSharding, PartitionSpec

    return NamedSharding(distribution.device_mesh.backend_mesh, PartitionSpec(*axes))
