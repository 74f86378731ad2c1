"""Blocks of the papers' encoders, put together from our layers, give the golden numbers."""

import keras
import numpy as np
import pytest

from keras_permix.layers import (
    MixerBlock,
    SimpleAttentionBlock,
    SliceSort,
    SoftmaxAttention,
)
from tests.harness import assert_close, load_golden, to_numpy

LRA = load_golden("lra_sliceformer_block"), load_golden("lra_transformer")
BERT = load_golden("bert_transfer")
HEADS = int(BERT["heads"])


def lra_block(mixer, golden, weights):
    """`x + mixer(norm(x))`, then `x + mlp(norm(x))`; the mixer's projections have no biases."""
    x = keras.ops.convert_to_tensor(golden["x"].astype("float32"))
    mixer.build(x.shape)
    mixer.set_weights([*weights, np.zeros(x.shape[-1])])
    tokens = x + mixer(_normalize(x, golden, "ln1"))
    hidden = _dense(_normalize(tokens, golden, "ln2"), golden, "fc1")
    hidden = keras.ops.gelu(hidden, approximate=True)
    return tokens + _dense(hidden, golden, "fc2")


def _dense(x, golden, name):
    dense = keras.layers.Dense(golden[f"{name}_bias"].shape[0])
    dense.build(x.shape)
    dense.set_weights([golden[f"{name}_kernel"], golden[f"{name}_bias"]])
    return dense(x)


def _normalize(x, golden, name):
    norm = keras.layers.LayerNormalization(epsilon=1e-6)
    norm.build(x.shape)
    norm.set_weights([golden[f"{name}_gamma"], golden[f"{name}_beta"]])
    return norm(x)


def test_block_that_sorts():
    golden, _ = LRA
    layer = SliceSort(inner_dim=golden["value_kernel"].shape[1])
    out = lra_block(layer, golden, [golden["value_kernel"], golden["out_kernel"]])
    assert_close(to_numpy(out), golden["out"])


def test_block_that_attends():
    _, golden = LRA
    heads = int(golden["heads"])
    kernels = [golden[f"{name}_kernel"] for name in ("q", "k", "value")]
    layer = SoftmaxAttention(heads, kernels[0].shape[1] // heads)
    out = lra_block(layer, golden, [np.concatenate(kernels, axis=1), golden["out_kernel"]])
    assert_close(to_numpy(out), golden["block_out"])


def bert_weights(layer):
    """The weights of a layer of BERT in the order of a `MixerBlock`; kernels are transposed."""

    def of(name):
        name = f"bert.encoder.layer.{layer}.{name}"
        return [BERT[f"{name}.weight"].T, BERT[f"{name}.bias"]]

    parts = zip(*(of(f"attention.self.{name}") for name in ("query", "key", "value")), strict=True)
    return {
        "qkv": [np.concatenate(part, axis=-1) for part in parts],
        "output": of("attention.output.dense"),
        "mixer_norm": of("attention.output.LayerNorm"),
        "mlp_in": of("intermediate.dense"),
        "mlp_out": of("output.dense"),
        "mlp_norm": of("output.LayerNorm"),
    }


def load(block, weights):
    block.mixer.qkv_dense.set_weights(weights["qkv"])
    block.mixer.output_dense.set_weights(weights["output"])
    for name in ("mixer_norm", "mlp_in", "mlp_out", "mlp_norm"):
        getattr(block, name).set_weights(weights[name])


def bert():
    mixer = SoftmaxAttention(HEADS, use_qkv_bias=True)
    return MixerBlock(mixer, mlp_dim=16, norm_first=False, epsilon=1e-12)


@pytest.mark.parametrize(
    ("make", "states"),
    [
        (bert, "bert_hidden_states"),
        (lambda: SimpleAttentionBlock(HEADS, mlp_dim=16), "simpletron_hidden_states"),
    ],
)
def test_blocks_with_the_weights_of_bert(make, states):
    for layer, (before, after) in enumerate(zip(BERT[states], BERT[states][1:], strict=False)):
        block = make()
        block.build(before.shape)
        load(block, bert_weights(layer))
        assert_close(to_numpy(block(before.astype("float32"))), after)


def test_masked_blocks_with_the_weights_of_bert():
    tokens = BERT["bert_hidden_states"][0].astype("float32")
    for layer in range(2):
        block = bert()
        block.build(tokens.shape)
        load(block, bert_weights(layer))
        tokens = block(tokens, mask=BERT["mask"])
    real = BERT["mask"]
    assert_close(to_numpy(tokens)[real], BERT["bert_masked_last"][real])
