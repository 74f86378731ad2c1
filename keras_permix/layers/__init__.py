"""Keras layers that mix tokens."""

from keras_permix.layers.attention.linear_attention import LinearAttention, PerformerAttention
from keras_permix.layers.attention.linformer_attention import LinformerAttention
from keras_permix.layers.attention.local_attention import LocalAttention
from keras_permix.layers.attention.simple_attention import SimpleAttention
from keras_permix.layers.attention.softmax_attention import SoftmaxAttention
from keras_permix.layers.blocks.mixer_block import MixerBlock
from keras_permix.layers.blocks.mlp_mixer_block import MLPMixerBlock
from keras_permix.layers.blocks.simple_attention_block import SimpleAttentionBlock
from keras_permix.layers.butterfly.block_dense import BlockDense
from keras_permix.layers.butterfly.butterfly_block import ButterflyAttention, ButterflyBlock
from keras_permix.layers.butterfly.butterfly_mlp import (
    ButterflyLinear,
    ButterflyLinearMLP,
    ButterflyMLP,
)
from keras_permix.layers.butterfly.patch_only_mixer import PatchOnlyMixer
from keras_permix.layers.embedding.images import ImagePreprocessor, PatchEmbedding
from keras_permix.layers.embedding.positions import PositionEmbedding
from keras_permix.layers.embedding.tokens import TokenEmbedding
from keras_permix.layers.graph.graph_embedding import GraphEmbedding, GraphormerBias
from keras_permix.layers.graph.graphormer_block import GraphormerBlock
from keras_permix.layers.mega.damped_ema import DampedEMA
from keras_permix.layers.mega.mega_block import MegaBlock
from keras_permix.layers.mixing.baselines import FourierMixer, RandomOrder
from keras_permix.layers.mixing.causal_csp import CausalCSP
from keras_permix.layers.mixing.csp import CSP, SinkhornCSP
from keras_permix.layers.mixing.slice_sort import SliceSort

__all__ = [
    "BlockDense",
    "ButterflyAttention",
    "ButterflyBlock",
    "ButterflyLinear",
    "ButterflyLinearMLP",
    "ButterflyMLP",
    "CSP",
    "CausalCSP",
    "DampedEMA",
    "FourierMixer",
    "GraphEmbedding",
    "GraphormerBias",
    "GraphormerBlock",
    "ImagePreprocessor",
    "LinearAttention",
    "LinformerAttention",
    "LocalAttention",
    "MLPMixerBlock",
    "MegaBlock",
    "MixerBlock",
    "PatchEmbedding",
    "PatchOnlyMixer",
    "PerformerAttention",
    "PositionEmbedding",
    "RandomOrder",
    "SimpleAttention",
    "SimpleAttentionBlock",
    "SinkhornCSP",
    "SliceSort",
    "SoftmaxAttention",
    "TokenEmbedding",
]
