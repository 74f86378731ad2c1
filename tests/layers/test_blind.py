"""Test queries without unmasked keys, which attend as if nothing were masked.

If masking adds a large negative number to the scores, the gradient of such a query is too large on
PyTorch. If all scores are -inf, it is NaN on every backend.
"""

from functools import partial

import keras
import numpy as np
import pytest

from keras_permix.layers import ButterflyBlock, MixerBlock, SimpleAttention, SoftmaxAttention
from tests.backends import value_and_gradient
from tests.data.graphs import graphs
from tests.harness import assert_close, to_numpy
from tests.layers.attention import test_rivals, test_simple_attention
from tests.layers.graph import test_graphormer
from tests.layers.mega import test_mega_block
from tests.oracle import butterfly
from tests.oracle.attention import change
from tests.oracle.blocks import PARTS, mixer_block

X = np.random.default_rng(0).normal(size=(3, 8, 8)).astype("float32")
# Masks that leave some queries without keys: padding mask, attention mask, both combined.
MASKS = {
    "mask": (np.arange(8) < [[8], [5], [0]], None),
    "attention": (None, np.tri(8, k=-1, dtype=bool) | (np.arange(3) == 0)[:, None, None]),
    "both": (np.arange(8) >= [[0], [3], [8]], np.tri(8, dtype=bool)[None].repeat(3, axis=0)),
}


def weights(layer):
    return [to_numpy(weight).astype("float64") for weight in layer.weights]


def projections(attention):
    """Return kernels and biases of query, key, value and output, for our attention or Keras'."""
    if isinstance(attention, SoftmaxAttention):
        parts = (np.split(part, 3, axis=-1) for part in weights(attention.qkv_dense))
        return [*zip(*parts, strict=True), weights(attention.output_dense)]
    kernels = weights(attention)
    inputs = [(kernels[i].reshape(8, 8), kernels[i + 1].reshape(8)) for i in (0, 2, 4)]
    return [*inputs, (kernels[6].reshape(8, 8), kernels[7])]


def attend(attention, x, allowed):
    """Attend in NumPy where `allowed`, of shape (batch, tokens, tokens), is True."""
    parts = projections(attention)
    return np.stack(
        [
            butterfly.attend(sample, *parts, np.stack([seen, seen]))
            for sample, seen in zip(x, allowed, strict=True)
        ]
    )


def allowed_by(mask, attention_mask):
    allowed = np.ones((3, 8, 8), bool) if attention_mask is None else attention_mask
    return allowed if mask is None else allowed & mask[:, None]


def given(mask, attention_mask):
    masks = {"mask": mask, "attention_mask": attention_mask}
    return {name: keras.ops.convert_to_tensor(m) for name, m in masks.items() if m is not None}


def randomize(layer, *shapes):
    layer.build(*shapes)
    rng = np.random.default_rng(2)
    for weight in layer.weights:
        weight.assign(weight + 0.3 * rng.normal(size=weight.shape))
    return layer


def softmax(kind, fused=True, causal=False):
    layer = randomize(SoftmaxAttention(2, use_qkv_bias=True, fused=fused), X.shape)
    masks = MASKS[kind]
    allowed = allowed_by(*masks)
    if causal:
        before = np.tri(8, dtype=bool)
        allowed = allowed & before
        allowed = np.where(allowed.any(axis=-1, keepdims=True), allowed, before)
    call = partial(layer, **given(*masks), use_causal_mask=causal)
    return X, call, lambda x: attend(layer, x, allowed)


def block(kind, inner):
    layer, masks = randomize(MixerBlock(inner(), 4), X.shape), MASKS[kind]

    def expected(x):
        mix = partial(attend, layer.mixer, allowed=allowed_by(*masks))
        return mixer_block(x, mix, {name: weights(getattr(layer, name)) for name in PARTS})

    return X, partial(layer, **given(*masks)), expected


def blocks(inner):
    """Return a case of two blocks of four tokens."""
    layer = randomize(ButterflyBlock(inner(), 4, stage=1), X.shape)
    mask, _ = MASKS["mask"]
    members = np.reshape(butterfly.order(8, 4, 1), (2, 4))
    allowed = [allowed_by(mask, None)[:, tokens[:, None], tokens] for tokens in members]

    def expected(x):
        out = np.empty_like(x)
        for tokens, seen in zip(members, allowed, strict=True):
            out[:, tokens] = attend(layer.block, x[:, tokens], seen)
        return out

    return X, partial(layer, **given(mask, None)), expected


def rival(name):
    layer, x, mask = test_rivals.make_layer(name), test_rivals.X, test_rivals.MASK
    return (
        x,
        partial(layer, **given(mask, None)),
        lambda x: test_rivals.expected(layer, name, x, mask),
    )


def simple(**arguments):
    """Return a case of SimpleAttention, where the sum over no keys is zero."""
    layer = randomize(SimpleAttention(2, **arguments), X.shape)
    mask = MASKS["both"][0]
    wanted = partial(test_simple_attention.attend, layer, head_dim=4, mask=mask)
    return X, partial(layer, **given(mask, None)), wanted


def mega(mixer, causal=False, chunk_size=None):
    """Return a case of MegaBlock.

    Queries without keys never attend to the filling of the last chunk, or to later tokens if
    `causal`.
    """
    attention = {} if chunk_size is None else dict(chunk_size=chunk_size, ragged=True)
    block = test_mega_block.make(mixer, attention=attention, causal=causal)
    mask = np.zeros((3, 12), bool)
    mask[1, 7:] = mask[2, 2] = True
    mix = test_mega_block.attending(block, mask, chunk_size)
    wanted = partial(test_mega_block.expected, block, mix=mix, mask=mask)
    return test_mega_block.X, partial(block, **given(mask, None)), wanted


def graph(mixer, unseen):
    """Return a case of GraphormerBlock.

    Sample 1 is all padding, with a bias of -inf throughout if `unseen`. In the other samples, only
    token 3 has no keys.
    """
    layer, biases = test_graphormer.make_block(mixer), test_graphormer.BIASES.copy()
    mask = graphs.MASK & [[True], [False], [True]]
    biases[1, :, :, 1:] = -np.inf
    biases[1, :, :, 0] = -np.inf if unseen else 0.5
    biases[0, :, 3, mask[0]] = biases[2, :, 3] = -np.inf

    def expected(x):
        samples = zip(x, mask, biases, strict=True)
        return np.stack([test_graphormer.numpy_block(layer, mixer, *one) for one in samples])

    return graphs.TOKENS, lambda x: layer(x, biases, tokens_mask=mask), expected


OURS = partial(SoftmaxAttention, 2, use_qkv_bias=True)
KERAS = partial(keras.layers.MultiHeadAttention, 2, 4)
# name -> function that returns inputs, the layer as a function of them, and its reference
CASES = {
    **{f"softmax by {kind}": partial(softmax, kind) for kind in MASKS},
    "softmax causal by both": partial(softmax, "both", causal=True),
    "softmax plain causal by mask": partial(softmax, "mask", fused=False, causal=True),
    "softmax plain by mask": partial(softmax, "mask", fused=False),
    "softmax plain by both": partial(softmax, "both", fused=False),
    "mixer_block by both": partial(block, "both", OURS),
    **{f"mixer_block around Keras by {kind}": partial(block, kind, KERAS) for kind in MASKS},
    "butterfly_block": partial(blocks, OURS),
    "butterfly_block around Keras": partial(blocks, KERAS),
    **{name: partial(rival, name) for name in test_rivals.LAYERS},
    "simple by real tokens": partial(simple, scale="valid"),
    "simple causal": partial(simple, causal=True),
    "mega softmax": partial(mega, "softmax"),
    "mega softmax causal": partial(mega, "softmax", True),
    "mega softmax in chunks": partial(mega, "softmax", False, 5),
    "mega softmax causal in chunks": partial(mega, "softmax", True, 5),
    "mega laplace": partial(mega, "laplace"),
    "mega laplace causal in chunks": partial(mega, "laplace", True, 5),
    "mega relu2 causal": partial(mega, "relu2", True),
    "mega relu2 in chunks": partial(mega, "relu2", False, 5),
    **{
        f"graphormer_block {mixer}{' by bias' if unseen else ''}": partial(graph, mixer, unseen)
        for mixer in ("attention", "paper", "release")
        for unseen in (False, True)
    },
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_match_numpy(name):
    x, layer, expected = CASES[name]()
    cotangent, direction = np.random.default_rng(1).normal(size=(2, *x.shape))
    value, gradient = value_and_gradient(layer, x, cotangent.astype("float32"))
    assert_close(to_numpy(value), expected(x.astype("float64")))
    assert np.isfinite(to_numpy(gradient)).all()
    changes = change(expected, x, direction, cotangent, axis=(1, 2))  # per sample
    assert_close((to_numpy(gradient) * direction).sum(axis=(1, 2)), changes)
