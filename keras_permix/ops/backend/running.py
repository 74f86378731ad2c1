"""The backend that runs. Keras chooses it when it is imported, and it stays."""

import contextlib
import random
from importlib import import_module

import keras
import numpy as np

BACKENDS = ("jax", "tensorflow", "torch")


def name():
    """The name of the backend."""
    return keras.config.backend()


def version():
    """The version of the backend's package."""
    return import_module(name()).__version__


def fuses_steps():
    """Whether Keras has several training steps run as one program."""
    return name() != "torch"


def batches_have_one_shape():
    """Whether Keras takes the shapes of all batches from the first two, as for TensorFlow."""
    return name() == "tensorflow"


def exports():
    """Return the module that exports models in formats where Keras fails, or `None`."""
    return module("exports") if name() == "torch" else None


def complete_onnx():
    """Teach the converter from TensorFlow to ONNX what our models are made of and it lacks."""
    if name() == "tensorflow":
        module("onnx_converter").complete_onnx()


def cpu():
    """The CPU of this process by the name that `keras.device` takes, whatever others there are."""
    if name() != "jax":
        return "cpu"
    return f"cpu:{import_module('jax').local_devices(backend='cpu')[0].id}"


def weights_kept(model):
    """A context in which a method of Keras that fails leaves a model its weights."""
    return module("runtime").weights_kept(model) if name() == "jax" else contextlib.nullcontext()


def outputs_of(model, inputs):
    """Return the outputs for a batch; on JAX by one program, which compiles faster than many."""
    if name() == "jax":
        return model.predict_on_batch(inputs)
    return keras.ops.convert_to_numpy(model(inputs, training=False))


def compiles_resizing():
    """Whether `keras.ops.image.resize` may be in a compiled step: TensorFlow's XLA lacks it."""
    return name() != "tensorflow"


def with_dense_gradient(x):
    """`x`, whose gradient is a tensor, where TensorFlow would have a list of rows for some uses."""
    return module("linear").dense(x) if name() == "tensorflow" else x


def erfc(x):
    """1 - erf(x). What JAX makes of its `erf`, TensorFlow does not read from a file."""
    return import_module("jax").lax.erfc(x) if name() == "jax" else 1 - keras.ops.erf(x)


def call_for_shapes(function, inputs):
    """Call a function of which only the shapes are needed: JAX traces it, and computes nothing.

    It changes no variable there.
    """
    if name() != "jax":
        function(inputs)
        return
    with keras.StatelessScope():
        import_module("jax").eval_shape(function, inputs)


def made_to_be_read(make):
    """Make a model whose weights are read from a file next: JAX compiles no initializer for it.

    Until then they have no values there.
    """
    if name() != "jax":
        return make()
    made = []
    import_module("jax").eval_shape(lambda: made.append(make()))
    for layer in made[0]._flatten_layers():
        for generator in layer._seed_generators:  # Their states are in no file.
            fresh = keras.random.SeedGenerator.from_config(generator.get_config())
            generator.state.assign(fresh.state)
    return made[0]


def seed_again(seed):
    """Give the random numbers of this process a seed, between two epochs.

    On TensorFlow only Python and NumPy get it, because TensorFlow would discard its compiled
    functions. Layers draw from seed generators, which have states.
    """
    if name() == "tensorflow":
        random.seed(seed)
        np.random.seed(seed)
    else:
        keras.utils.set_random_seed(seed)


def has_replicas(model):
    """Whether a model is trained in several replicas, as TensorFlow's strategies do."""
    return name() == "tensorflow" and model.distribute_strategy.num_replicas_in_sync > 1


def step_dtype(dtype, model):
    """The name of the dtype in which compiled steps of a model hold data of a NumPy dtype.

    JAX has 32 bits unless it is told otherwise, and warns when it truncates. Replicas of TensorFlow
    take no booleans.
    """
    if name() == "jax":
        return import_module("jax").dtypes.canonicalize_dtype(dtype).name
    return "uint8" if dtype == "bool" and has_replicas(model) else dtype


def tensorflow_datasets():
    """Return the module for `tf.data.Dataset`, which works on every backend."""
    return import_module("keras_permix.ops.backend.tensorflow.datasets")


def has_data(x):
    """Whether numbers can be read from a tensor now: not while a step is compiled or exported."""
    return module("runtime").has_data(x)


def module(file):
    """Import what the backend has in a file of a given name, and no other backend's.

    Raises:
        ValueError: if it is no backend of this package.
    """
    if name() not in BACKENDS:
        raise ValueError(
            "keras_permix needs the Keras backend 'jax', 'tensorflow' or 'torch'. "
            f"Received: KERAS_BACKEND={name()!r}"
        )
    return import_module(f"keras_permix.ops.backend.{name()}.{file}")
