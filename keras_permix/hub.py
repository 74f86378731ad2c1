"""Load zoo presets with KerasHub, once this module is imported.

KerasHub selects a loader by the `config.json` of a preset and has no registry for others, so its
`get_preset_loader` is wrapped here. Presets that KerasHub saves contain the two classes below,
which are registered with Keras on import.
"""

from typing import Any

import keras

try:
    from keras_hub.models import Backbone, ImageClassifier
    from keras_hub.src.models import backbone as hub_backbone
    from keras_hub.src.models import task as hub_task
    from keras_hub.src.utils import preset_utils
    from keras_hub.src.utils.preset_utils import (
        CONFIG_FILE,
        PresetLoader,
        check_file_exists,
        load_json,
    )

    HOOKED = (preset_utils, hub_backbone, hub_task)
    _loader_of_hub, *_ = [module.get_preset_loader for module in HOOKED]  # fails if one is missing
except (ImportError, AttributeError) as error:  # no KerasHub, or another version
    rule = "`keras_permix.hub` requires KerasHub: pip install keras-hub==0.32.0"
    raise ImportError(f"{rule}. Received: {error}") from error

from keras_permix._typing import DType, Model
from keras_permix.recipes.find import known_presets
from keras_permix.utils.checks import check_names
from keras_permix.zoo.classifier import Classifier
from keras_permix.zoo.model import ZooModel
from keras_permix.zoo.registry import MODELS

__all__ = ["PermixBackbone", "PermixImageClassifier"]

PACKAGE = "keras_permix>"
# Names of the dense layers of mixers and MLPs.
PROJECTIONS = ("value", "qkv", "query", "key", "output")
OF_MLPS = ("mlp_in", "mlp_out", "token_in", "token_out", "channel_in", "channel_out")


@keras.saving.register_keras_serializable("keras_permix")
class PermixBackbone(Backbone):
    """Wrap a zoo model, up to the tokens after the last block, as a KerasHub backbone.

    `keras_hub.models.Backbone.from_preset` returns it for any zoo preset.

    Args:
        model: A zoo model, which shares its layers with the backbone, or its serialized config.
        dtype: Dtype or dtype policy of every layer; ignored for a model. Defaults to the config's.

    Example:
        >>> import keras_hub
        >>> import keras_permix.hub
        >>> backbone = keras_hub.models.Backbone.from_preset("cspvit/test")
        >>> backbone.predict(np.zeros((2, 8, 8, 3), "uint8"), verbose=0).shape[0]
        2
    """

    def __init__(self, model: Model | dict[str, Any], dtype: DType = None, **kwargs: Any) -> None:
        if isinstance(model, dict):
            changes = {} if dtype is None else {"dtype": dtype}
            model = {**model, "config": {**model["config"], **changes}}
            model = keras.saving.deserialize_keras_object(model)
        super().__init__(model.input, model.backbone.output, dtype=model.dtype_policy, **kwargs)
        self._whole = lambda: model  # Keras would track the model itself as a layer

    @property
    def zoo_model(self) -> Model:
        """Return the zoo model including its head. It shares its layers with the backbone."""
        return self._whole()

    def default_lora_layer_names(self) -> list[str]:
        """Return the names of the layers for `enable_lora`.

        These are the projections of the mixers or, without any, the layers of the MLPs.

        Raises:
            ValueError: if no layer supports LoRA, as in `ButterflyMixer`.
        """
        names = {x.name for x in self._flatten_layers() if hasattr(x, "enable_lora")}
        mlps = sorted(name for name in names if name.startswith(OF_MLPS))
        found = [name for name in PROJECTIONS if name in names] or mlps
        if not found:
            kind = type(self.zoo_model).__name__
            raise ValueError(f"A model must have layers that support LoRA. Received: {kind}")
        return found

    def get_config(self) -> dict[str, Any]:
        model = keras.saving.serialize_keras_object(self.zoo_model)
        kept = ("module", "class_name", "config", "registered_name")
        # As in KerasHub, frozen layers are not recorded.
        config = {key: value for key, value in model["config"].items() if key != "frozen"}
        return {
            "model": {**{key: model[key] for key in kept}, "config": config},
            "name": self.name,
            "trainable": self.trainable,
        }


@keras.saving.register_keras_serializable("keras_permix")
class PermixImageClassifier(ImageClassifier):
    """Wrap a zoo image classifier as a KerasHub classifier, which returns logits.

    `keras_hub.models.ImageClassifier.from_preset` returns it for a preset. The head is the
    preset's, or zeros if `num_classes` differs. Preprocessing is part of the model. Other
    arguments, such as `image_size`, are those of `ZooModel.from_preset`.

    Args:
        backbone: A `PermixBackbone` of a model that classifies images.
        num_classes: Number of logits. Another number than that of the backbone's model gives a
            head of zeros on a copy of the backbone. Defaults to `None`, the same number.
        preprocessor: KerasHub preprocessor, applied before the model's own preprocessing. Defaults
            to `None`.

    Raises:
        ValueError: for any other backbone or argument.

    Example:
        >>> import keras_hub
        >>> import keras_permix.hub
        >>> model = keras_hub.models.ImageClassifier.from_preset("cspvit/test", num_classes=5)
        >>> model.predict(np.zeros((2, 8, 8, 3), "uint8"), verbose=0).shape
        (2, 5)
    """

    backbone_cls = PermixBackbone

    def __init__(
        self,
        backbone: Model,
        num_classes: int | None = None,
        preprocessor: Any = None,
        **kwargs: Any,
    ) -> None:
        model = getattr(backbone, "zoo_model", None)
        if not isinstance(model, Classifier) or model.task != "image_classification":
            raise ValueError(f"`backbone` must be of an image classifier. Received: {backbone!r}")
        check_names(type(self).__name__, kwargs, {"name", "trainable", "dtype"})
        if num_classes not in (None, model.output_shape[-1]):
            model = model.reset_classifier(num_classes)
            backbone = PermixBackbone(model)
        self.num_classes = model.output_shape[-1]
        self.backbone, self.preprocessor, self.activation = backbone, preprocessor, None
        head = keras.Model(model.backbone.output, model.output, name="head")
        # Skip `ImageClassifier.__init__`, which would add a second pooling layer and head.
        super(ImageClassifier, self).__init__(
            inputs=backbone.input, outputs=head(backbone(backbone.input)), **kwargs
        )

    def get_config(self) -> dict[str, Any]:
        return {**super(ImageClassifier, self).get_config(), "num_classes": self.num_classes}


class _Loader(PresetLoader):
    """Read zoo presets by name, folder or handle."""

    def check_backbone_class(self):
        return PermixBackbone

    def load_backbone(self, cls, load_weights, **kwargs):
        return cls(ZooModel.from_preset(self.preset, load_weights=load_weights, **kwargs))

    def load_task(self, cls, load_weights, load_task_weights, **kwargs):
        own = {key: kwargs.pop(key) for key in ("name", "preprocessor") if key in kwargs}
        backbone = kwargs.pop("backbone", None)
        if backbone is None:
            backbone, kwargs = self.load_backbone(PermixBackbone, load_weights, **kwargs), {}
        return cls(backbone, **kwargs, **own)


def _loader_of(preset):
    """Return a loader for zoo presets, and KerasHub's loader for others."""
    if str(preset) in known_presets():
        return _Loader(preset, {})
    if check_file_exists(preset, CONFIG_FILE):
        config = load_json(preset, CONFIG_FILE)
        if str(config.get("registered_name")).removeprefix(PACKAGE) in MODELS:
            return _Loader(preset, config)
    return _loader_of_hub(preset)


for _module in HOOKED:
    _module.get_preset_loader = _loader_of
