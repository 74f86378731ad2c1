"""`tf.data.Dataset`, which every backend of Keras trains on."""

import contextlib

import keras
import tensorflow as tf


def is_dataset(x):
    """Whether this is a `tf.data.Dataset` of tensors alone, none of them sparse or ragged."""
    if not isinstance(x, tf.data.Dataset):
        return False
    return all(isinstance(spec, tf.TensorSpec) for spec in tf.nest.flatten(x.element_spec))


def is_read_here(strategy):
    """Whether no other process takes a part of what a model's strategy reads.

    To divide a data set, TensorFlow looks for its files and its size of a batch, and `scan` is
    nothing that it looks through.

    Args:
        strategy: That of `tf.distribute` in which the model was made, or `None`.
    """
    if keras.distribution.distribution() is not None:
        return False
    return (
        strategy is None
        or strategy.num_replicas_in_sync == 1
        or isinstance(strategy, tf.distribute.MirroredStrategy)
    )


def cast(dataset, dtype_of):
    """Cast the tensors of a data set, as `is_dataset` takes it, to other dtypes.

    Args:
        dataset: The data set.
        dtype_of: A function from the name of a dtype to that of the new one.
    """
    structure = dataset.element_spec
    dtypes = tf.nest.map_structure(lambda spec: dtype_of(spec.dtype.name), structure)
    if dtypes == tf.nest.map_structure(lambda spec: spec.dtype.name, structure):
        return dataset

    def batch_cast(*batch):
        batch = batch if isinstance(structure, tuple) else batch[0]
        return tf.nest.map_structure(tf.cast, batch, dtypes)

    return dataset.map(batch_cast)


class Watched:
    """The same batches of a data set, of which the first is looked at when it is drawn.

    No batch is drawn for that: a generator has it but once, and a shuffle gives another then.

    Args:
        dataset: As `is_dataset` takes it.
        look: What is called with the first batch, of NumPy arrays, each time that the data set
            is begun.
    """

    def __init__(self, dataset, look):
        self.dataset = dataset.scan(tf.constant(True), self._handed_on)
        self._look, self._structure, self._error = look, dataset.element_spec, None

    @contextlib.contextmanager
    def told(self):
        """Raise what `look` raised, in place of what TensorFlow makes of it."""
        self._error = None
        try:
            yield
        except Exception:
            if self._error is None:
                raise
            raise self._error from None

    def _handed_on(self, is_first, batch):
        arrays = tf.nest.flatten(batch)
        seen = tf.cond(
            is_first, lambda: tf.numpy_function(self._seen, arrays, tf.bool), lambda: True
        )
        with tf.control_dependencies([seen]):
            return tf.constant(False), tf.nest.map_structure(tf.identity, batch)

    def _seen(self, *arrays):
        try:
            self._look(tf.nest.pack_sequence_as(self._structure, arrays))
        except Exception as error:
            self._error = error
            raise
        return True
