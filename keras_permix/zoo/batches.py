"""Convert data sets batch by batch."""

import functools
import types

import keras

from keras_permix.ops.backend import running


class _Batches(keras.utils.PyDataset):
    """Convert each batch of another data set by a function."""

    def __init__(self, data, convert):
        super().__init__(data.workers, data.use_multiprocessing, data.max_queue_size)
        self._data, self._convert = data, convert

    @property
    def num_batches(self):
        return self._data.num_batches

    def __getitem__(self, index):
        return self._convert(self._data[index])

    def on_epoch_begin(self):
        self._data.on_epoch_begin()

    def on_epoch_end(self):
        self._data.on_epoch_end()


def convert_batches(x, convert, model):
    """Convert a generator, `keras.utils.PyDataset` or `tf.data.Dataset` batch by batch.

    Args:
        x: The data. Anything else is returned as it is.
        convert: A function from a batch to one of arrays, for generators and `PyDataset`.
        model: A Keras model. Tensors of a `tf.data.Dataset` are cast to the dtypes of its steps.
    """
    if isinstance(x, types.GeneratorType):
        return (convert(batch) for batch in x)
    if isinstance(x, keras.utils.PyDataset):
        return _Batches(x, convert)
    if hasattr(x, "element_spec") and (datasets := running.tensorflow_datasets()).is_dataset(x):
        return datasets.cast(x, functools.partial(running.step_dtype, model=model))
    return x
