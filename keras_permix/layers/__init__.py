"""Keras layers that mix tokens."""

from keras_permix.layers.attention.linear_attention import LinearAttention as LinearAttention
from keras_permix.layers.attention.linear_attention import PerformerAttention as PerformerAttention
from keras_permix.layers.attention.linformer_attention import (
    LinformerAttention as LinformerAttention,
)
from keras_permix.layers.attention.local_attention import LocalAttention as LocalAttention
from keras_permix.layers.attention.simple_attention import SimpleAttention as SimpleAttention
from keras_permix.layers.attention.softmax_attention import SoftmaxAttention as SoftmaxAttention
from keras_permix.layers.blocks.mixer_block import MixerBlock as MixerBlock
from keras_permix.layers.blocks.mlp_mixer_block import MLPMixerBlock as MLPMixerBlock
from keras_permix.layers.blocks.simple_attention_block import (
    SimpleAttentionBlock as SimpleAttentionBlock,
)
from keras_permix.layers.butterfly.block_dense import BlockDense as BlockDense
from keras_permix.layers.butterfly.butterfly_block import ButterflyAttention as ButterflyAttention
from keras_permix.layers.butterfly.butterfly_block import ButterflyBlock as ButterflyBlock
from keras_permix.layers.butterfly.butterfly_mlp import ButterflyLinear as ButterflyLinear
from keras_permix.layers.butterfly.butterfly_mlp import ButterflyLinearMLP as ButterflyLinearMLP
from keras_permix.layers.butterfly.butterfly_mlp import ButterflyMLP as ButterflyMLP
from keras_permix.layers.butterfly.patch_only_mixer import PatchOnlyMixer as PatchOnlyMixer
from keras_permix.layers.embedding.images import ImagePreprocessor as ImagePreprocessor
from keras_permix.layers.embedding.images import PatchEmbedding as PatchEmbedding
from keras_permix.layers.embedding.positions import PositionEmbedding as PositionEmbedding
from keras_permix.layers.embedding.tokens import TokenEmbedding as TokenEmbedding
from keras_permix.layers.graph.graph_embedding import GraphEmbedding as GraphEmbedding
from keras_permix.layers.graph.graph_embedding import GraphormerBias as GraphormerBias
from keras_permix.layers.graph.graphormer_block import GraphormerBlock as GraphormerBlock
from keras_permix.layers.mega.damped_ema import DampedEMA as DampedEMA
from keras_permix.layers.mega.mega_block import MegaBlock as MegaBlock
from keras_permix.layers.mixing.baselines import FourierMixer as FourierMixer
from keras_permix.layers.mixing.baselines import RandomOrder as RandomOrder
from keras_permix.layers.mixing.causal_csp import CausalCSP as CausalCSP
from keras_permix.layers.mixing.csp import CSP as CSP
from keras_permix.layers.mixing.csp import SinkhornCSP as SinkhornCSP
from keras_permix.layers.mixing.slice_sort import SliceSort as SliceSort
