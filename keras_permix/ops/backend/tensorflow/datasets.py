"""Handle `tf.data.Dataset`, which all backends of Keras support."""

import tensorflow as tf


def is_dataset(x):
    """Return whether `x` is a `tf.data.Dataset` of dense tensors only."""
    if not isinstance(x, tf.data.Dataset):
        return False
    return all(isinstance(spec, tf.TensorSpec) for spec in tf.nest.flatten(x.element_spec))


def cast(dataset, dtype_of):
    """Cast the tensors of a data set; `dtype_of` maps the name of a dtype to the new name."""
    structure = dataset.element_spec
    dtypes = tf.nest.map_structure(lambda spec: dtype_of(spec.dtype.name), structure)
    if dtypes == tf.nest.map_structure(lambda spec: spec.dtype.name, structure):
        return dataset

    def batch_cast(*batch):
        batch = batch if isinstance(structure, tuple) else batch[0]
        return tf.nest.map_structure(tf.cast, batch, dtypes)

    return dataset.map(batch_cast)
