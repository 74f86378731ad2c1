"""Inputs for several replicas of a model, where booleans are integers.

There Keras sums the first batch that it gets, and TensorFlow knows no sum of booleans. The models
make booleans of them again.
"""

import types

import keras
import numpy as np

from keras_permix.ops.backend.tensorflow.datasets import without_booleans


def for_replicas(x):
    """The same inputs, or batches of them with targets, without booleans.

    Args:
        x: Arrays or tensors, however they nest, a generator, a `keras.utils.PyDataset` or a
            `tf.data.Dataset`; anything else is given back.
    """
    if isinstance(x, keras.utils.PyDataset):
        return _Batches(x)
    if isinstance(x, types.GeneratorType):
        return (_integers(batch) for batch in x)
    if hasattr(x, "element_spec"):
        return without_booleans(x)
    return _integers(x) if isinstance(x, dict | list | tuple | np.ndarray) else x


def _integers(batch):
    return keras.tree.map_structure(_integer, batch)


def _integer(array):
    if isinstance(array, np.ndarray):
        return array.astype("uint8") if array.dtype == bool else array
    is_bool = keras.ops.is_tensor(array) and keras.backend.standardize_dtype(array.dtype) == "bool"
    return keras.ops.cast(array, "uint8") if is_bool else array


class _Batches(keras.utils.PyDataset):
    """The batches of another, and no booleans."""

    def __init__(self, data):
        super().__init__(data.workers, data.use_multiprocessing, data.max_queue_size)
        self._data = data

    @property
    def num_batches(self):
        return self._data.num_batches

    def __getitem__(self, index):
        return _integers(self._data[index])

    def on_epoch_begin(self):
        self._data.on_epoch_begin()

    def on_epoch_end(self):
        self._data.on_epoch_end()
