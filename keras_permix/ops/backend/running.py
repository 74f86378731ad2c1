"""Provide functions that depend on the backend, which Keras selects when it is imported."""

import contextlib
import random
from importlib import import_module

import keras
import numpy as np

BACKENDS = ("jax", "tensorflow", "torch")


def name():
    """Return the name of the backend."""
    return keras.config.backend()


def version():
    """Return the version of the backend's package."""
    return import_module(name()).__version__


def fuses_steps():
    """Return whether Keras can run several training steps as one program."""
    return name() != "torch"


def batches_have_one_shape():
    """Return whether Keras infers the shapes of all batches from the first two."""
    return name() == "tensorflow"


def keeps_freed_memory():
    """Return whether memory that the backend frees stays resident in the process."""
    return name() == "tensorflow"


def exports():
    """Return the module that exports models to formats in which Keras fails, or `None`."""
    return module("exports") if name() == "torch" else None


def complete_onnx():
    """Add conversions that the models need to the converter from TensorFlow to ONNX."""
    if name() == "tensorflow":
        module("onnx_converter").complete_onnx()


def cpu():
    """Return the name of the CPU of this process for `keras.device`."""
    if name() != "jax":
        return "cpu"
    return f"cpu:{import_module('jax').local_devices(backend='cpu')[0].id}"


def weights_kept(model):
    """Return a context in which a model keeps its weights if a method of Keras fails."""
    return module("runtime").weights_kept(model) if name() == "jax" else contextlib.nullcontext()


def outputs_of(model, inputs):
    """Return the outputs for a batch; on JAX as one program, which compiles faster than many."""
    if name() == "jax":
        return model.predict_on_batch(inputs)
    return keras.ops.convert_to_numpy(model(inputs, training=False))


def compiles_resizing():
    """Return whether `keras.ops.image.resize` can be compiled; TensorFlow's XLA lacks it."""
    return name() != "tensorflow"


def with_dense_gradient(x):
    """Return `x` with a dense gradient, instead of `tf.IndexedSlices` on TensorFlow."""
    return module("linear").dense(x) if name() == "tensorflow" else x


def erfc(x):
    """Return 1 - erf(x); TensorFlow cannot load `erf` as exported by JAX."""
    return import_module("jax").lax.erfc(x) if name() == "jax" else 1 - keras.ops.erf(x)


def call_for_shapes(function, inputs):
    """Call a function for its shapes; JAX traces it without computing or changing variables."""
    if name() != "jax":
        function(inputs)
        return
    with keras.StatelessScope():
        import_module("jax").eval_shape(function, inputs)


def made_to_be_read(make):
    """Make a model whose weights will be read from a file.

    JAX then compiles no initializers, and the weights have no values until they are read.
    """
    if name() != "jax":
        return make()
    made = []
    import_module("jax").eval_shape(lambda: made.append(make()))
    for layer in made[0]._flatten_layers():
        for generator in layer._seed_generators:  # Files do not hold their states.
            fresh = keras.random.SeedGenerator.from_config(generator.get_config())
            generator.state.assign(fresh.state)
    return made[0]


def seed_again(seed):
    """Seed the random numbers of this process between two epochs.

    On TensorFlow only Python and NumPy are seeded, because TensorFlow would discard its compiled
    functions. Layers draw from seed generators, which have states.
    """
    if name() == "tensorflow":
        random.seed(seed)
        np.random.seed(seed)
    else:
        keras.utils.set_random_seed(seed)


def step_dtype(dtype, model):
    """Return the dtype in which compiled steps of a model hold data of a NumPy dtype.

    JAX uses 32 bits by default, and warns when it truncates. Replicas of TensorFlow do not support
    booleans.
    """
    if name() == "jax":
        return import_module("jax").dtypes.canonicalize_dtype(dtype).name
    replicated = name() == "tensorflow" and model.distribute_strategy.num_replicas_in_sync > 1
    return "uint8" if dtype == "bool" and replicated else dtype


def tensorflow_datasets():
    """Return the module for `tf.data.Dataset`, which works on every backend."""
    return import_module("keras_permix.ops.backend.tensorflow.datasets")


def has_data(x):
    """Return whether a tensor has values, which it lacks while a step is compiled or exported."""
    return module("runtime").has_data(x)


def module(file):
    """Import the module `file` of the current backend."""
    if name() not in BACKENDS:
        rule = f"`KERAS_BACKEND` must be one of {BACKENDS}"
        raise ValueError(f"{rule}. Received: KERAS_BACKEND={name()!r}")
    return import_module(f"keras_permix.ops.backend.{name()}.{file}")
