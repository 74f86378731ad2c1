"""Compare two TensorFlow replicas with one device: `python -m tests.training.replicas`.

Prints a dict of lists:

- weights after a clipped step on one device and on two, with and without a scaled loss,
- weights after a step where only the second replica has an infinite gradient,
- the dropout masks of each replica.
"""

import json

import keras
import numpy as np
import tensorflow as tf

from keras_permix.training.distribute import distributed

X = np.array([[1, 0], [1, 0], [5, 4], [5, 4]], "float32")  # two samples per replica


def stepped(here, inputs, scaled=False):
    """Return the weights of a linear model after an SGD step with clipped gradients."""
    with here.scope():
        optimizer = keras.optimizers.SGD(1.0, global_clipnorm=1.0)
        if scaled:
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=8.0)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False)])
        model.set_weights([np.zeros((2, 1), "float32")])
        model.compile(optimizer, lambda y, outputs: outputs[:, 0], jit_compile=False)
        here.prepare(model)
        model.fit(inputs, np.zeros(4), batch_size=4, verbose=0)
    return model.get_weights()[0].ravel().tolist()


def masks(here):
    """Return the dropout output for ones, per replica."""
    with here.scope():
        model = keras.Sequential([keras.Input((32,)), keras.layers.Dropout(0.5)])
    here.draw_apart(model)
    strategy = here.strategy
    found = strategy.run(lambda: model(tf.ones((1, 32)), training=True))
    return [part.numpy().ravel().tolist() for part in strategy.experimental_local_results(found)]


def main():
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    found = {}
    for kind in (None, "data"):
        with distributed(kind) as here:
            found[f"{here.devices} devices"] = stepped(here, X)
            found[f"{here.devices} devices, scaled"] = stepped(here, X, scaled=True)
    infinite = X.copy()
    infinite[3] = np.inf
    found["infinite"] = stepped(here, infinite, scaled=True)
    found["masks"] = masks(here)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
