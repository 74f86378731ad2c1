"""Models, and presets of them."""

from keras_permix.zoo.presets import PresetInfo, list_presets, preset_info
from keras_permix.zoo.vit import CSPViT, SliceViT, ViT

MODELS = {model.__name__: model for model in (CSPViT, SliceViT, ViT)}

__all__ = ["MODELS", "CSPViT", "PresetInfo", "SliceViT", "ViT", "list_presets", "preset_info"]
