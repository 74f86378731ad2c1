"""Models, and presets of them."""

from keras_permix.zoo.butterfly_vit import ButterflyViT
from keras_permix.zoo.mlp_mixer import ButterflyMixer, MLPMixer, PatchOnlyMLPMixer
from keras_permix.zoo.presets.names import PresetInfo, list_presets, preset_info
from keras_permix.zoo.registry import MODELS
from keras_permix.zoo.vit import CSPViT, SliceViT, ViT

__all__ = [
    "MODELS",
    "ButterflyMixer",
    "ButterflyViT",
    "CSPViT",
    "MLPMixer",
    "PatchOnlyMLPMixer",
    "PresetInfo",
    "SliceViT",
    "ViT",
    "list_presets",
    "preset_info",
]
