"""Test blocks with the weights of BERT against golden values."""

import numpy as np
import pytest

from keras_permix.layers import MixerBlock, SimpleAttentionBlock, SoftmaxAttention
from tests.harness import assert_close, load_golden, to_numpy

BERT = load_golden("bert_transfer")
HEADS = int(BERT["heads"])


def bert_weights(layer):
    """Return the weights of a BERT layer by part of a `MixerBlock`, with transposed kernels."""

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
def test_blocks_with_bert_weights(make, states):
    for layer, (before, after) in enumerate(zip(BERT[states], BERT[states][1:], strict=False)):
        block = make()
        block.build(before.shape)
        load(block, bert_weights(layer))
        assert_close(to_numpy(block(before.astype("float32"))), after)


def test_masked_blocks_with_bert_weights():
    tokens = BERT["bert_hidden_states"][0].astype("float32")
    for layer in range(2):
        block = bert()
        block.build(tokens.shape)
        load(block, bert_weights(layer))
        tokens = block(tokens, mask=BERT["mask"])
    assert_close(to_numpy(tokens), BERT["bert_masked_last"])
