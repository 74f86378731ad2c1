"""Run one process of a small distributed run.

    python -m tests.training.together OUT KIND [LOST EPOCH]

Writes rows and weights to OUT/PROCESS.npz. Process LOST kills itself in epoch EPOCH.
"""

import os
import sys
from pathlib import Path

import keras
import numpy as np

from keras_permix import data
from keras_permix.recipes.recipe import merge
from keras_permix.training import train
from keras_permix.training.distribute import distributed
from tests.training import runs

# No dropout, since processes draw different masks. The generated data use the name of a known set,
# which recipes require.
CHANGES = dict(model=dict(dropout=0.0, num_layers=2), augmentation=dict(mixup=0.2), epochs=2)
VALUES = {**merge(runs.VALUES, CHANGES), "data": {"name": "cifar10"}}


def run(out, **arguments):
    """Train and save a preset in `out`. Returns rows without times, scores and weights."""
    recipe = Path(out).parent / f"recipe_{os.getpid()}.toml"
    recipe.write_text(runs.as_toml(VALUES), encoding="utf-8")
    data.load_images = lambda name, data_dir=None: runs.make_images()
    done = train(recipe, out=out, verbose=0, **arguments)
    rows = [[value for key, value in row.items() if key != "seconds"] for row in done.rows]
    return [np.array(rows), np.array(list(done.scores.values())), *done.model.get_weights()]


def main(out, kind, lost=None, epoch=None):
    if cpus := int(os.environ.get("LOGICAL_CPUS", 0)):
        import tensorflow as tf

        (cpu,) = tf.config.list_physical_devices("CPU")
        parts = [tf.config.LogicalDeviceConfiguration() for _ in range(cpus)]
        tf.config.set_logical_device_configuration(cpu, parts)
    if lost and keras.config.backend() == "jax":
        from keras_permix.training.distribute import jax

        jax.SHUTDOWN = 4  # seconds that the other processes wait for the lost one
    with distributed(kind) as here:
        print(f"process {here.index} of {here.count}, {here.devices} devices", flush=True)
        callbacks = [runs.Killer(int(epoch))] if str(here.index) == lost else []
        found = run(out, callbacks=callbacks, distribute=here)
        np.savez(os.path.join(out, f"{here.index}.npz"), *found)


if __name__ == "__main__":
    main(*sys.argv[1:])
