"""Models, and presets of them."""

from keras_permix.zoo.presets.names import PresetInfo, list_presets, preset_info
from keras_permix.zoo.registry import MODELS
from keras_permix.zoo.simpletron import SimpleTRON
from keras_permix.zoo.vit import CSPViT, SliceViT, ViT

__all__ = [
    "MODELS",
    "CSPViT",
    "PresetInfo",
    "SimpleTRON",
    "SliceViT",
    "ViT",
    "list_presets",
    "preset_info",
]
