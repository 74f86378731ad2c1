"""Define models and load their presets."""

from keras_permix.zoo.butterfly_vit import ButterflyViT
from keras_permix.zoo.graphormer import Graphormer, SliceGraphormer
from keras_permix.zoo.lra_transformer import LRATransformer
from keras_permix.zoo.mega import CSPMEGA, MEGA
from keras_permix.zoo.mlp_mixer import ButterflyMixer, MLPMixer, PatchOnlyMLPMixer
from keras_permix.zoo.model import ZooModel
from keras_permix.zoo.presets.names import PresetInfo, list_presets, preset_info
from keras_permix.zoo.registry import MODELS
from keras_permix.zoo.simpletron import SimpleTRON
from keras_permix.zoo.vit import CSPViT, SliceViT, ViT

__all__ = [
    "ButterflyMixer",
    "ButterflyViT",
    "CSPMEGA",
    "CSPViT",
    "Graphormer",
    "LRATransformer",
    "MEGA",
    "MLPMixer",
    "MODELS",
    "PatchOnlyMLPMixer",
    "PresetInfo",
    "SimpleTRON",
    "SliceGraphormer",
    "SliceViT",
    "ViT",
    "ZooModel",
    "list_presets",
    "preset_info",
]
