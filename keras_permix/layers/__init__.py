"""Keras layers that mix tokens."""

from keras_permix.layers.block_dense import BlockDense
from keras_permix.layers.butterfly_block import ButterflyBlock
from keras_permix.layers.butterfly_linear_mlp import ButterflyLinearMLP
from keras_permix.layers.butterfly_mlp import ButterflyLinear, ButterflyMLP
from keras_permix.layers.csp import CSP
from keras_permix.layers.damped_ema import DampedEMA
from keras_permix.layers.graphormer_bias import GraphormerBias
from keras_permix.layers.graphormer_block import GraphormerBlock
from keras_permix.layers.mega_block import MegaBlock
from keras_permix.layers.patch_only_mixer import PatchOnlyMixer
from keras_permix.layers.post_norm_block import PostNormBlock
from keras_permix.layers.random_order import RandomOrder
from keras_permix.layers.simple_attention import SimpleAttention
from keras_permix.layers.simple_attention_block import SimpleAttentionBlock
from keras_permix.layers.sinkhorn_csp import SinkhornCSP
from keras_permix.layers.slice_sort import SliceSort
from keras_permix.layers.softmax_attention import SoftmaxAttention

__all__ = [
    "BlockDense",
    "ButterflyBlock",
    "ButterflyLinear",
    "ButterflyLinearMLP",
    "ButterflyMLP",
    "CSP",
    "DampedEMA",
    "GraphormerBias",
    "GraphormerBlock",
    "MegaBlock",
    "PatchOnlyMixer",
    "PostNormBlock",
    "RandomOrder",
    "SimpleAttention",
    "SimpleAttentionBlock",
    "SinkhornCSP",
    "SliceSort",
    "SoftmaxAttention",
]
