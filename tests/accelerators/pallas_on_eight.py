"""Train on eight CPU devices that stand in for GPUs or TPUs, and compare with one CPU device.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m tests.accelerators.pallas_on_eight

Prints lines of JSON. The first line lists why kernels do not support some tensors. One more line
per platform lists the interpreted kernels with their number of batch shards, and counts the results
that differ. Models train on small integers and sums of few powers of two, so that the order of
summation does not change the result.
"""

import json
from dataclasses import replace
from functools import partial

import numpy as np

from tests.accelerators.chips import CHIPS

PLATFORMS = {"gpu": "A100", "tpu": "v5e"}
TOKENS, CHANNELS = 8, 8


def main():
    import keras

    devices = keras.distribution.list_devices()
    print(json.dumps(objections(devices)), flush=True)
    single = trained(devices[:1])
    for platform, chip in PLATFORMS.items():
        served = pretend(CHIPS[chip])
        differ = by_two_axes(devices)
        if platform == "tpu":  # Callbacks into Triton's interpreter block sums over devices.
            sharded = trained(devices)
            differ += sum(int((a != b).sum()) for a, b in zip(single, sharded, strict=True))
        report = {"platform": platform, "devices": len(devices), "differ": differ}
        print(json.dumps(report | {"served": sorted(served)}), flush=True)


def objections(devices):
    """Return the objections to tensors on eight devices, with and without a distribution."""
    import jax
    import keras
    from jax.sharding import NamedSharding, PartitionSpec

    from keras_permix.ops.backend.jax.runtime import why_undivided

    found = {}

    def traced(x):
        found["traced" if x.shape[0] == 16 else "traced, 12 samples"] = why_undivided(x)
        return x

    distribution = keras.distribution.DataParallel(devices=devices)
    mesh = distribution.device_mesh.backend_mesh
    for name, axes in {"samples": ("batch",), "channels": (None, None, "batch")}.items():
        x = jax.device_put(np.zeros((16, 8, 8)), NamedSharding(mesh, PartitionSpec(*axes)))
        found[f"{name} sharded, no distribution"] = why_undivided(x)
        with distribution.scope():
            found[f"{name} sharded"] = why_undivided(x)
    with distribution.scope():
        jax.eval_shape(traced, x)
        jax.eval_shape(traced, x[:12])
        found["on one device"] = why_undivided(jax.device_put(np.zeros((16, 8, 8))))
    return found


def pretend(chip):
    """Treat CPU devices as `chip`, and interpret its kernels.

    Returns a set to which every kernel adds its name and its number of batch shards.
    """
    from keras_permix.ops.backend.jax import implementations, runtime, tpu_permute, triton
    from keras_permix.ops.backend.jax.tpu import sort
    from tests.accelerators.test_jax_triton import run

    served, real = set(), runtime.hardware

    def note(function, division):
        name = function.args[0] if isinstance(function, partial) else "triton"
        mesh, axis = division
        served.add((name, mesh.shape[axis]))
        return runtime.divided(function, division)

    def pretended(x):
        found = real(x)
        return chip.hardware(found.devices, found.sure, runtime.why_undivided(x))

    def interpreted(row):
        if row.name == "triton":
            function = partial(triton.permute, run=run, platform=None)
            return replace(row, function=function, requires=None)
        if row.name != "tpu_pallas":
            return row
        way = tpu_permute.Pallas(interpret=True)
        return replace(row, function=partial(tpu_permute.permute, way=way))

    tpu_permute.divided = triton.divided = note
    runtime.JAX = (0, 0)
    sort.VECTORS = 8
    runtime.hardware, implementations.IMPLEMENTATIONS = (
        pretended,
        tuple(map(interpreted, implementations.IMPLEMENTATIONS)),
    )
    return served


def by_two_axes(devices):
    """Count values and gradients that differ if two devices hold each shard of a batch."""
    import keras

    from keras_permix import ops
    from tests.backends import value_and_gradient
    from tests.oracle import permutations as oracle

    steps = tuple(range(CHANNELS))
    x, cotangent = np.random.default_rng(0).normal(size=(2, 8, TOKENS, CHANNELS)).astype("float32")
    mesh = keras.distribution.DeviceMesh((4, 2), ["batch", "model"], devices)
    layout = keras.distribution.LayoutMap(mesh)
    with keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch").scope():
        value, gradient = value_and_gradient(lambda x: ops.csp(x, steps, 2), x, cotangent)
    sources = oracle.csp(x, steps, 2)
    differ = value != oracle.values(x, sources), gradient != oracle.gradient(cotangent, sources)
    return int(sum(map(np.sum, differ)))


def trained(devices):
    """Return weights and predictions after two training steps on `devices`."""
    import keras

    from keras_permix import layers

    keras.utils.clear_session()
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices))
    plain = dict(use_output_projection=False)
    inputs = keras.Input((TOKENS, CHANNELS))
    outputs = layers.SliceSort(**plain)(layers.CSP(group_size=2, **plain)(inputs))
    model = keras.Model(inputs, outputs)
    model.set_weights([np.eye(CHANNELS) for _ in model.weights])
    model.compile(keras.optimizers.SGD(2.0**-6), lambda y, p: keras.ops.sum(y * p, axis=(1, 2)))
    x, y = np.random.default_rng(0).integers(-1, 2, (2, 16, TOKENS, CHANNELS)).astype("float32")
    model.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0)
    return [*model.get_weights(), model.predict(x, batch_size=8, verbose=0)]


if __name__ == "__main__":
    main()
