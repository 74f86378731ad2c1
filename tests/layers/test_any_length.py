"""Test models for any sequence length against NumPy and the authors' values."""

from functools import partial

import numpy as np
import pytest

from keras_permix.layers import (
    DampedEMA,
    SimpleAttention,
    SimpleAttentionBlock,
    SliceSort,
    SoftmaxAttention,
)
from tests.harness import assert_close, functional
from tests.layers.attention import test_simple_attention, test_softmax_attention
from tests.layers.blocks import test_golden_blocks as golden_blocks
from tests.oracle import mega, permutations


def average(layer, x):
    weights = [weight.numpy().astype("float64") for weight in layer.weights]
    return mega.silu(mega.damped_ema(x, *weights, layer.truncation))


def attend(layer, x, head_dim):
    return test_softmax_attention.attend(layer, x, head_dim, np.ones(x.shape[:2], bool))


def attend_simply(layer, x, head_dim):
    return test_simple_attention.attend(layer, x, head_dim, None)


def sort(layer, x, sources):
    values = x @ layer.value_dense.kernel.numpy().astype("float64")
    values = permutations.values(values, sources(values))
    return values @ layer.output_dense.kernel.numpy() + layer.output_dense.bias.numpy()


# In the second layer, every second pair of channels descends (12 channels in heads of 4).
HAAR = partial(permutations.slice_sort, descending=np.array([False, False, True, True] * 3))
# name -> (layer, reference as a function of layer and inputs)
LAYERS = {
    "simple_attention": (partial(SimpleAttention, 2), partial(attend_simply, head_dim=4)),
    "simple_attention causal with dropout": (
        partial(SimpleAttention, 4, 3, dropout=0.3, scale="valid", causal=True),
        partial(attend_simply, head_dim=3),
    ),
    "damped_ema": (DampedEMA, average),
    "damped_ema bidirectional": (
        partial(DampedEMA, 4, bidirectional=True, truncation=5),
        average,
    ),
    "slice_sort": (SliceSort, partial(sort, sources=permutations.slice_sort)),
    "slice_sort selects maxima": (
        partial(SliceSort, "max_exchange"),
        partial(sort, sources=permutations.max_exchange),
    ),
    "slice_sort interleave_haar": (
        partial(
            SliceSort, "interleave_haar", inner_dim=12, head_dim=4, layer_index=1, num_layers=3
        ),
        partial(sort, sources=HAAR),
    ),
    "attention": (partial(SoftmaxAttention, 2), partial(attend, head_dim=4)),
    "attention plain with dropout": (
        partial(SoftmaxAttention, 4, fused=False, dropout=0.3),
        partial(attend, head_dim=2),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer_supports_any_length(name):
    """From the second length on, TensorFlow traces for any length."""
    make, expected = LAYERS[name]
    layer = make()
    model = functional(layer, (None, 8))
    for tokens in (16, 6, 9):
        inputs = np.random.default_rng(0).normal(size=(4, tokens, 8)).astype("float32")
        assert_close(model.predict(inputs, verbose=0), expected(layer, inputs))


@pytest.mark.parametrize(
    ("make", "states"),
    [
        (golden_blocks.bert, "bert_hidden_states"),
        (partial(SimpleAttentionBlock, golden_blocks.HEADS, 16), "simpletron_hidden_states"),
    ],
    ids=["post_norm_block", "simple_attention_block"],
)
def test_block_supports_any_length(make, states):
    before, after = golden_blocks.BERT[states][:2]
    block = make()
    block.build(before.shape)
    golden_blocks.load(block, golden_blocks.bert_weights(0))
    model = functional(block, (None, before.shape[-1]))
    for tokens in (1, before.shape[1]):
        outputs = model.predict(before[:, :tokens].astype("float32"), verbose=0)
    assert_close(outputs, after)
