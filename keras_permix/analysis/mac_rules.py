"""Count the multiply-adds of layers by the shapes of their first input and output.

The convention is that of the Dimension Mixer paper; see `count_macs`. Layers inside a layer are
counted separately.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import keras

from keras_permix import layers as ours
from keras_permix.layers.embedding.tokens import SplitPairs
from keras_permix.layers.graph.graphormer_block import GraphAttention, GraphSliceSort
from keras_permix.layers.mega.mega_attention import MegaAttention
from keras_permix.layers.mega.mega_feed_forward import MegaFeedForward, ScaleNorm
from keras_permix.layers.parts.wrappers import Dense, Embedding, FirstToken


def _dense(layer, x, y):
    return math.prod(y) * x[-1] + _activation(layer, x, y)


def _einsum_dense(layer, x, y):
    inputs, output = layer.equation.replace(" ", "").split("->")
    sizes = zip(inputs.split(",")[1], layer.kernel.shape, strict=True)
    summed = math.prod(size for label, size in sizes if label not in output)
    return math.prod(y) * summed + _activation(layer, x, y)


def _convolution(layer, x, y):
    return math.prod(y) * math.prod(layer.kernel.shape[:-1]) + _activation(layer, x, y)


def _depthwise_convolution(layer, x, y):
    return math.prod(y) * math.prod(layer.kernel_size) + _activation(layer, x, y)


def _block_dense(layer, x, y):
    per_output = x[layer.axis] // layer.blocks + layer.use_bias
    return math.prod(y) * per_output + _activation(layer, x, y)


def _activation(layer, x, y):
    return 0 if layer.activation is keras.activations.linear else math.prod(y)


def _one_per_output(layer, x, y):
    return math.prod(y)


def _keras_attention(layer, query, value):
    """Count scores, their softmax and the means of the values, along the attention axes."""
    config = layer.get_config()
    axes = config["attention_axes"] or range(1, len(query) - 1)
    axes = (axes,) if isinstance(axes, int) else axes
    entries = layer.num_heads * math.prod(query[:-1]) * math.prod(value[axis] for axis in axes)
    return entries * (layer.key_dim + (config["value_dim"] or layer.key_dim) + 1)


def _grouped_attention(layer, query, value):
    """Count scores, their softmax and the means of the values."""
    entries = layer.num_query_heads * math.prod(query[:-1]) * value[1]
    return entries * (2 * layer.head_dim + 1)


def _head_dim(layer, x):
    return layer.head_dim or x[-1] // layer.num_heads


# Multiply-adds per query and head, from the layer, its tokens `n` and its `head_dim` `d`.
PER_QUERY: dict[type, Callable[[Any, int, int], int]] = {
    # features of queries and keys, products as in `SimpleAttention`, and divisors
    ours.LinearAttention: lambda layer, n, d: 2 * d + 2 * d**2 + d,
    # mixtures of keys and values, scores, their softmax, and the means
    ours.LinformerAttention: lambda layer, n, d: layer.mixtures * (2 * d + 2 * d + 1),
    # features of queries and keys with exponentials, then as in `LinearAttention`
    ours.PerformerAttention: lambda layer, n, d: layer.features * (2 * (d + 1) + 2 * d + 1),
    # the product of keys and values, and its product with the queries
    ours.SimpleAttention: lambda layer, n, d: 2 * d**2,
    # scores, their softmax and the means of the values
    ours.SoftmaxAttention: lambda layer, n, d: n * (2 * d + 1),
}


def _attention(per_query, layer, x, y):
    queries = layer.num_heads * math.prod(x[:-1])
    return queries * per_query(layer, math.prod(x[1:-1]), _head_dim(layer, x))


def _local_attention(layer, x, y):
    """Count softmax attention within blocks, the last of which is padded."""
    tokens = math.prod(x[1:-1])
    size = layer.tokens_per_block(tokens)
    blocks = x[0] * -(-tokens // size)
    return blocks * layer.num_heads * size**2 * (2 * _head_dim(layer, x) + 1)


def _sinkhorn_csp(layer, x, y):
    """Count scores, two softmaxes per iteration, and means, in groups; the last is padded."""
    tokens, channels = math.prod(x[1:-1]), layer.inner_dim or x[-1]
    size = min(layer.group_size or tokens, tokens)
    entries = x[0] * (channels - 1) * -(-tokens // size) * size**2  # channel 0 is not mixed
    return entries * (1 + 2 * layer.iterations + 1)


def _fourier(layer, x, y):
    """Count two per value for each halving of an axis, as in a complex fast Fourier transform."""
    tokens, channels = math.prod(x[1:-1]), x[-1]
    return round(2 * math.prod(x) * math.log2(tokens * channels))


def _damped_ema(layer, x, y):
    """Count the recurrence, `omega` and the activation.

    Each decay has a product with the state and one with the output weight, and with `truncation`
    one with the token that leaves the window.
    """
    directions = 1 + layer.bidirectional
    per_decay = 2 + (layer.truncation is not None)
    return math.prod(x) * (directions * layer.ema_dim * per_decay + 2)


def _mega_attention(layer, x, y):
    """Count scores, their function and the means of the values, within chunks."""
    tokens = x[1]
    size = min(layer.chunk_size or tokens, tokens)
    return x[0] * -(-tokens // size) * size**2 * (x[2] + 1 + y[2])


def _mega_block(layer, x, y):
    """Count the activations of two gates, the shared representation and the hidden values."""
    width, shared, inner, _ = layer.parts
    return x[0] * x[1] * (width + shared + inner + width)


def _graph_attention(layer, x, y):
    """Count scores, their softmax and the means of the values."""
    return x[0] * x[1] ** 2 * (2 * x[2] + layer.num_heads)


def _graph_slice_sort(layer, x, y):
    """Count the softmax of the bias, and the means of the values."""
    return x[0] * x[1] ** 2 * (x[2] + layer.num_heads)


def _of_keras(*names):
    return [getattr(keras.layers, name) for name in names]


ONE_PER_OUTPUT = (
    "BatchNormalization", "ELU", "GroupNormalization", "LayerNormalization", "LeakyReLU",
    "Normalization", "PReLU", "ReLU", "RMSNormalization", "Softmax", "UnitNormalization",
)  # fmt: skip
Rule = Callable[[Any, tuple[int, ...], tuple[int, ...]], int]
RULES: dict[type, Rule] = {
    keras.layers.Activation: _activation,
    **dict.fromkeys(_of_keras("Conv1D", "Conv2D", "Conv3D"), _convolution),
    keras.layers.Dense: _dense,
    **dict.fromkeys(_of_keras("DepthwiseConv1D", "DepthwiseConv2D"), _depthwise_convolution),
    keras.layers.EinsumDense: _einsum_dense,
    **dict.fromkeys(_of_keras(*ONE_PER_OUTPUT), _one_per_output),
    ours.BlockDense: _block_dense,
    ours.ButterflyAttention: _local_attention,
    ours.DampedEMA: _damped_ema,
    Dense: _dense,
    ours.FourierMixer: _fourier,
    GraphAttention: _graph_attention,
    GraphSliceSort: _graph_slice_sort,
    ours.ImagePreprocessor: _one_per_output,
    ours.LocalAttention: _local_attention,
    MegaAttention: _mega_attention,
    ours.MegaBlock: _mega_block,
    ScaleNorm: _one_per_output,
    ours.SinkhornCSP: _sinkhorn_csp,
    **{kind: partial(_attention, per_query) for kind, per_query in PER_QUERY.items()},
}
# Rules that take the shapes of queries and values.
RULES_OF_TWO: dict[type, Rule] = {
    keras.layers.GroupQueryAttention: _grouped_attention,
    keras.layers.MultiHeadAttention: _keras_attention,
}
BY_AXES = (
    "AveragePooling", "Cropping", "GlobalAveragePooling", "GlobalMaxPooling", "MaxPooling",
    "SpatialDropout", "UpSampling", "ZeroPadding",
)  # fmt: skip
# Layers that move, select, pool, add or scale, or only contain other layers. The bias of Graphormer
# multiplies only weights, once for all graphs.
KERAS_FREE = (
    "Add", "Average", "Concatenate", "Dropout", "Embedding", "Flatten", "GaussianDropout",
    "GaussianNoise", "Identity", "InputLayer", "Masking", "Maximum", "Minimum", "Multiply",
    "Permute", "RepeatVector", "Rescaling", "Reshape", "Resizing", "Subtract",
    *(f"{name}{axes}D" for name in BY_AXES for axes in (1, 2, 3)),
)  # fmt: skip
OWN_FREE = (
    "ButterflyBlock", "ButterflyLinear", "ButterflyLinearMLP", "ButterflyMLP", "CausalCSP", "CSP",
    "GraphEmbedding", "GraphormerBias", "GraphormerBlock", "MixerBlock", "MLPMixerBlock",
    "PatchEmbedding", "PatchOnlyMixer", "PositionEmbedding", "RandomOrder", "SimpleAttentionBlock",
    "SliceSort", "TokenEmbedding",
)  # fmt: skip
FREE = (
    *_of_keras(*KERAS_FREE),
    *(getattr(ours, name) for name in OWN_FREE),
    *(Embedding, FirstToken, MegaFeedForward, SplitPairs),
)
# The same for layers of Keras and KerasHub models, by package and class.
FREE_BY_NAME = (
    "keras.LayerScale", "keras.StochasticDepth", "keras_hub.MLP", "keras_hub.ViTEncoder",
    "keras_hub.ViTEncoderBlock", "keras_hub.ViTPatchingAndEmbedding",
)  # fmt: skip
# The same for operations of functional models, by class.
FREE_OPERATIONS = (
    "Absolute", "Add", "Any", "Cast", "Clip", "Concatenate", "Divide", "Equal", "ExpandDims",
    "GetItem", "LogicalAnd", "LogicalNot", "LogicalOr", "Max", "Maximum", "Mean", "Multiply",
    "NotEqual", "OnesLike", "Reshape", "Round", "Split", "Squeeze", "Subtract", "Sum", "Transpose",
    "TrueDivide", "Unstack", "Where", "ZerosLike",
)  # fmt: skip
