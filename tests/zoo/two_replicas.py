"""Print the results of a text model on two TensorFlow replicas, and without replicas, as JSON."""

import json

import keras
import numpy as np
import tensorflow as tf

from keras_permix.data import Pipeline
from keras_permix.zoo import LRATransformer

TEXTS, CLASSES = ["a", "bb", "ccc", "d"], np.array([0, 1, 2, 0])


def make():
    keras.utils.set_random_seed(0)
    model = LRATransformer.from_preset("test")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01), loss)
    return model


def numbers(model):
    """Yield names and results of all ways to pass data."""
    arrays = model.encode(TEXTS)
    data = tf.data.Dataset.from_tensor_slices((arrays, CLASSES)).batch(4)
    ways = {
        "texts": dict(x=TEXTS, y=CLASSES),
        "arrays": dict(
            x=arrays, y=CLASSES, sample_weight=CLASSES > 0, validation_data=(arrays, CLASSES)
        ),
        "dataset": dict(x=data, validation_data=data),
        "pipeline": dict(x=Pipeline(arrays, CLASSES, batch_size=4)),
        "generator": dict(x=((arrays, CLASSES) for _ in range(2)), steps_per_epoch=1),
    }
    for name, given in ways.items():
        yield name, model.fit(**given, shuffle=False, verbose=0).history
    yield "evaluate", model.evaluate(TEXTS, CLASSES, verbose=0)
    yield "predict", model.predict(TEXTS, verbose=0).tolist()


def main():
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        shared = make()
    assert shared.distribute_strategy.num_replicas_in_sync == 2
    print(json.dumps([dict(numbers(shared)), dict(numbers(make()))]))


if __name__ == "__main__":
    main()
