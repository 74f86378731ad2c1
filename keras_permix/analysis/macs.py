"""How many multiply-adds a model takes, counted from what its layers get and give."""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras

from keras_permix import layers as ours
from keras_permix.layers.parts.dense import Dense


class MACs(NamedTuple):
    """What `count_macs` gives.

    Args:
        total: Multiply-adds of one sample.
        by_layer: Those that each layer does itself, not by layers within it, by its path.
        uncounted: How many layers and operations of a class there is no rule for, by its name.
            They are not in `total`.
    """

    total: int
    by_layer: dict[str, int]
    uncounted: dict[str, int]


def count_macs(model: Any, inputs: Any = None, rules: dict | None = None) -> MACs:
    """Count the multiply-adds of one sample, as the Dimension Mixer paper does.

    The model is called once, and each layer is asked for what it did. Counted are: the
    multiply-adds of matrix products, those of attention's maps included; one for each output of a
    normalization, that of images included, of an activation that is not linear, and of a softmax;
    and of block-diagonal layers one for each output that a bias is added to. Not counted are the
    biases of dense layers, resizing, sums, means, and what only moves or sorts.

    Args:
        model: A model.
        inputs: What to call it with, a batch of one sample. `None`: what a model of the zoo makes
            up, such as an image of its own size.
        rules: What layers of other classes do, or the same ones: a function of the layer and of
            the shapes of its first input and output, by their class.

    Returns:
        A `MACs`: `total`, `by_layer`, and `uncounted`, which names what has no rule.

    Raises:
        ValueError: for inputs that are no batch of one sample, or none where the model makes none.

    Example:

    >>> from keras_permix.analysis import count_macs
    >>> from keras_permix.zoo import MLPMixer
    >>> macs = count_macs(MLPMixer(expansion=1))
    >>> macs.total, macs.by_layer["patch_embedding/projection"], macs.uncounted
    (20726016, 371712, {})

    Source: Sapkota & Bhattarai, "Dimension Mixer", 2023, Tables II and V, whose numbers it meets.
    """
    if inputs is None and hasattr(model, "make_inputs"):
        inputs = model.make_inputs(seed=0, batch=1)
    sizes = [shape[:1] for shape in _shapes(inputs)]
    if not sizes or set(sizes) != {(1,)}:
        raise ValueError(
            "`inputs` must be a batch of one sample, and be given for a model that is not of the "
            f"zoo. Received: inputs of shapes {_shapes(inputs)}"
        )
    rules = {**dict.fromkeys(FREE, _nothing), **RULES, **(rules or {})}
    by_layer: dict[str, int] = {}
    unknown: dict[int, str] = {}

    def note(layer, shapes, output_shapes):
        rule = rules.get(type(layer), _nothing if _is_graph(layer) else None)
        if rule is None:
            unknown[id(layer)] = type(layer).__name__
            return
        macs = rule(layer, shapes[0], output_shapes[0])
        if macs:
            by_layer[layer.path] = by_layer.get(layer.path, 0) + macs

    with contextlib.ExitStack() as calls:
        for layer in model._flatten_layers():
            calls.enter_context(_watched(layer, note))
        model(inputs, training=False)
    for operation in _operations(model):
        unknown[id(operation)] = type(operation).__name__
    names = sorted(unknown.values())
    return MACs(sum(by_layer.values()), by_layer, {name: names.count(name) for name in names})


def _dense(layer, x, y):
    return math.prod(y) * x[-1] + _activation(layer, x, y)


def _block_dense(layer, x, y):
    per_output = x[-1] // layer.blocks + layer.use_bias
    return math.prod(y) * per_output + _activation(layer, x, y)


def _activation(layer, x, y):
    return 0 if layer.activation is keras.activations.linear else math.prod(y)


def _normalization(layer, x, y):
    return math.prod(y)


def _softmax_attention(layer, x, y):
    """Scores, their softmax, and the means of the values."""
    batch, tokens, channels = x[0], math.prod(x[1:-1]), x[-1]
    head_dim = layer.head_dim or channels // layer.num_heads
    return batch * layer.num_heads * tokens**2 * (2 * head_dim + 1)


def _simple_attention(layer, x, y):
    """The product of keys and values, and that of it and the queries."""
    batch, tokens, channels = x[0], math.prod(x[1:-1]), x[-1]
    head_dim = layer.head_dim or channels // layer.num_heads
    return batch * layer.num_heads * tokens * 2 * head_dim**2


def _nothing(layer, x, y):
    return 0


Rule = Callable[[Any, tuple[int, ...], tuple[int, ...]], int]
RULES: dict[type, Rule] = {
    keras.layers.Activation: _activation,
    keras.layers.BatchNormalization: _normalization,
    keras.layers.Dense: _dense,
    keras.layers.LayerNormalization: _normalization,
    keras.layers.RMSNormalization: _normalization,
    ours.BlockDense: _block_dense,
    Dense: _dense,
    ours.ImagePreprocessor: _normalization,
    ours.SimpleAttention: _simple_attention,
    ours.SoftmaxAttention: _softmax_attention,
}
# Layers that move, select and add, or leave all products to layers within them.
FREE = (
    keras.layers.Add,
    keras.layers.Concatenate,
    keras.layers.Dropout,
    keras.layers.Embedding,
    keras.layers.Flatten,
    keras.layers.Identity,
    keras.layers.InputLayer,
    keras.layers.Masking,
    keras.layers.Permute,
    keras.layers.Reshape,
    ours.ButterflyBlock,
    ours.ButterflyLinear,
    ours.ButterflyLinearMLP,
    ours.ButterflyMLP,
    ours.CSP,
    ours.GraphEmbedding,
    ours.MixerBlock,
    ours.MLPMixerBlock,
    ours.PatchEmbedding,
    ours.PatchOnlyMixer,
    ours.PositionEmbedding,
    ours.RandomOrder,
    ours.SimpleAttentionBlock,
    ours.SliceSort,
    ours.TokenEmbedding,
)
# Operations of functional models that do the same, by the names of their classes.
FREE_OPERATIONS = (
    "Add", "Cast", "Concatenate", "ExpandDims", "GetItem", "Max", "Maximum", "Mean", "OnesLike",
    "Reshape", "Sum", "Transpose", "ZerosLike",
)  # fmt: skip


def _is_graph(layer):
    """Whether a layer is a model that does nothing but call others."""
    return isinstance(layer, keras.Sequential) or hasattr(layer, "operations")


def _operations(model):
    """Operations, which are no layers, in the graphs of functional models, that are not free."""
    for graph in model._flatten_layers():
        for operation in getattr(graph, "operations", ()):
            free = type(operation).__name__ in FREE_OPERATIONS
            if not free and not isinstance(operation, keras.layers.Layer):
                yield operation


@contextlib.contextmanager
def _watched(layer: Any, note: Callable) -> Iterator[None]:
    """Have `note` told what a layer is called with, and what it gives, in shapes."""
    held = vars(layer)
    before = {name: held[name] for name in CALLS if name in held}
    for name in CALLS:
        held[name] = _telling(layer, getattr(layer, name), note)
    try:
        yield
    finally:
        for name in CALLS:
            del held[name]
        held.update(before)


CALLS = ("call", "quantized_call")  # Keras calls the one or the other.


def _telling(layer, call, note):
    @functools.wraps(call)
    def told(*args, **kwargs):
        outputs = call(*args, **kwargs)
        note(layer, _shapes((args, kwargs)), _shapes(outputs))
        return outputs

    return told


def _shapes(arrays):
    flat = keras.tree.flatten(arrays)
    return [tuple(array.shape) for array in flat if hasattr(array, "shape")]
