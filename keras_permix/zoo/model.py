"""Define the base class of models: a Keras model with its configuration and feature maps."""

from collections.abc import Iterable
from typing import Any, Self

import keras

from keras_permix._typing import DType, Labels, Layer, Model, StrPath, Tensor
from keras_permix.layers.parts.wrappers import check_policy, policy_at, policy_of
from keras_permix.utils.checks import check_labels, is_index, plain
from keras_permix.zoo.export import Exported
from keras_permix.zoo.inputs import CheckedInputs
from keras_permix.zoo.presets.handles import upload_preset
from keras_permix.zoo.presets.load import load_preset
from keras_permix.zoo.presets.names import PresetInfo, list_presets
from keras_permix.zoo.presets.writer import save_preset


class _Presets:
    """Compute `presets` for the class that it is accessed on."""

    def __get__(self, model: Any, cls: type[Any]) -> dict[str, PresetInfo]:
        pairs = ((name.split("/"), info) for name, info in list_presets().items())
        return {name: info for (family, name), info in pairs if family == cls.__name__.lower()}


class ZooModel(CheckedInputs, Exported, keras.Model):
    """Build a functional Keras model that can be rebuilt from its constructor's arguments.

    To add a class, set `task` to a name of `keras_permix.tasks` (or override `task_for`), and
    implement `make_inputs`. A layer named "preprocessor" is described in presets and checks inputs
    by `check`, as `ImagePreprocessor` does. `asset_files` maps arguments that hold texts to the
    files that store them in a preset.

    Args:
        inputs: Symbolic inputs, as for `keras.Model`.
        outputs: Symbolic output `(batch, classes or targets)`.
        feature_maps: Symbolic tokens after each block.
        config: The constructor's arguments.
        dtype: Dtype or dtype policy of every layer.
        labels: Names of the classes or outputs, or `None`.

    Example:
        >>> from keras_permix.zoo import ZooModel
        >>> type(ZooModel.from_preset("cspvit/test")).__name__
        'CSPViT'
    """

    task: str | None = None
    asset_files: dict[str, str] = {}
    head_arguments: tuple[str, ...] = ()  # further arguments, of base classes
    presets = _Presets()
    """Presets of this class: a dict from names for `from_preset` to `PresetInfo`."""

    def __init__(
        self,
        inputs: Any,
        outputs: Any,
        feature_maps: list[Tensor],
        config: dict[str, Any],
        dtype: DType = None,
        labels: Labels | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        self.task = type(self).task_for(config)
        self._zoo_config = config
        self._feature_maps = feature_maps
        # Hidden from Keras, which tracks no more layers after `quantize`.
        feature_models: dict[tuple[int, ...], Model] = {}
        object.__setattr__(self, "_feature_models", feature_models)
        if dtype is not None:
            self.dtype_policy = check_policy(dtype)
        for layer in self._flatten_layers(include_self=False):
            layer._dtype_policy = policy_at(layer._dtype_policy, layer.path)
        self.labels = labels

    @classmethod
    def task_for(cls, config: dict[str, Any]) -> str | None:
        """Return the task of a model of this class and configuration."""
        return cls.task

    @classmethod
    def _check_config(cls, config: dict[str, Any]) -> dict[str, Any]:
        """Check arguments that depend on each other, and return all in plain values."""
        return config

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Return the names of the classes or outputs, a tuple of str, or `None`."""
        return self._labels

    @labels.setter
    def labels(self, labels: Labels | None) -> None:
        self._labels = check_labels(labels, self.output_shape[-1])

    @property
    def preprocessor(self) -> Layer | None:
        """Return the layer that prepares the inputs, or `None`."""
        return next((layer for layer in self.layers if layer.name == "preprocessor"), None)

    def __dir__(self) -> list[str]:
        """List all names except those of models inside this one, which Keras would save."""
        parts = ("_feature_models", "backbone", "presets")
        return [name for name in super().__dir__() if name not in parts]

    @property
    def backbone(self) -> Model:
        """Return the model from the inputs to the tokens after the last block.

        It shares its layers with this model. To train only the head, set
        `backbone.trainable = False`.
        """
        return self._feature_model((len(self._feature_maps) - 1,))

    def make_inputs(self, seed: int, batch: int) -> Any:
        """Make random inputs for the model, the same for the same seed.

        Args:
            seed: An integer of at least 0.
            batch: Number of samples.

        Returns:
            A NumPy array or a dict of arrays, with `batch` samples.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `make_inputs`.")

    def describe_input(self) -> dict[str, Any]:
        """Describe the input of the model for a preset, in plain values."""
        return {}

    def describe_output(self) -> dict[str, Any]:
        """Describe the output of the model for a preset, in plain values."""
        return {"outputs": "logits", "num_classes": self.output_shape[-1]}

    def assets(self) -> dict[str, bytes]:
        """Return other files of presets, such as a tokenizer, as bytes by relative path."""
        texts = {file: self._zoo_config.get(name) for name, file in self.asset_files.items()}
        return {file: text.encode() for file, text in texts.items() if text is not None}

    def transfer_weight(self, weight: Tensor, value: Tensor, source: Self) -> Tensor:
        """Resize `value`, a weight of the model `source`, for `weight` of this model.

        By default, the value is returned unchanged.
        """
        return value

    @classmethod
    def keep_arguments(
        cls, config: dict[str, Any], changes: dict[str, Any], new_head: bool
    ) -> dict[str, Any]:
        """Return arguments to add to `changes` when a preset with `config` is loaded.

        They keep settings that the weights of a resized model were trained with, and reset those
        that a new head makes invalid.
        """
        return {}

    def features(self, inputs: Any, layers: int | Iterable[int] | None = None) -> list[Tensor]:
        """Return the tokens after chosen blocks.

        Args:
            inputs: Inputs of the model.
            layers: Index or indices of blocks, from 0, or negative from the end. `None`: all.

        Returns:
            A list of tensors `(batch, tokens, channels)`, in the order of `layers`.

        Raises:
            ValueError: for other `layers`.
        """
        inputs = self.checked_inputs(inputs)
        layers = range(len(self._feature_maps)) if layers is None else plain(layers)
        several = isinstance(layers, Iterable) and not isinstance(layers, str)
        chosen, count = tuple(layers) if several else (layers,), len(self._feature_maps)
        if not chosen or not all(is_index(layer, count) for layer in chosen):
            raise ValueError(f"`layers` must be indices of {count} blocks. Received: {layers=}")
        maps = self._feature_model(chosen)(inputs)
        return [maps] if len(chosen) == 1 else maps

    def _feature_model(self, layers):
        if layers not in self._feature_models:
            maps = [self._feature_maps[index] for index in layers]
            self._feature_models[layers] = keras.Model(self.input, maps if maps[1:] else maps[0])
        return self._feature_models[layers]

    def get_config(self) -> dict[str, Any]:
        config = {"name": self.name, "trainable": self.trainable, **plain(self._zoo_config)}
        if self.labels is not None:
            config["labels"] = list(self.labels)
        layers = self._flatten_layers(include_self=False)
        frozen = [layer.path for layer in layers if layer.path and not layer.trainable]
        if frozen or not self.trainable:  # Children of a frozen model may be trainable.
            config["frozen"] = frozen
        return {**config, "dtype": keras.dtype_policies.serialize(policy_of(self))}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        model = cls(**{name: value for name, value in config.items() if name != "frozen"})
        for layer in model._flatten_layers(include_self=False) if "frozen" in config else ():
            layer.trainable = layer.path not in config["frozen"]  # parents first
        return model

    @classmethod
    def from_preset(
        cls,
        preset: StrPath,
        num_classes: int | None = None,
        dtype: DType = None,
        load_weights: bool = True,
        labels: Labels | None = None,
        **overrides: Any,
    ) -> Self:
        """Build the model of a preset and load its weights.

        Args:
            preset: A name (`"cifar10_small"`; see `keras_permix.zoo.list_presets`), the folder of
                a preset, `hf://USER/MODEL`, or `kaggle://USER/MODEL/keras/VARIATION`.
            num_classes: Number of classes. A number other than the preset's gives a new head of
                zeros; the same number keeps the head and the labels of the preset.
            dtype: Dtype or dtype policy of every layer. `None`: that of the preset, which overrides
                `keras.config.set_dtype_policy`.
            load_weights: Whether to load the weights. If False, they are initialized randomly.
            labels: Names of the classes or outputs, which imply their number. Names other than the
                preset's give a new head; to rename outputs, set `model.labels`. `None`: those of
                the preset, if the number of outputs is the same.
            **overrides: Other arguments of the model to change; `None` keeps the preset's value.
                With another `image_size` or `patch_size`, positions, shift steps, the patch
                embedding and weights per patch are resized.
                Another `predicts` replaces the head: "labels" for several labels per sample,
                "values" for numbers. A `mixer` with the same name, or a dict without one, keeps
                the preset's other mixer arguments. The model gets a new `name` by default.

        Returns:
            A model of this class. `ZooModel.from_preset` loads any class, by `class/preset`.

        Raises:
            ValueError: for an unknown name, a preset of another class, a damaged file or an
                unsupported argument.
            FileNotFoundError: for a missing file.
            ConnectionError: if a file cannot be fetched.

        Example:
            >>> from keras_permix.zoo import CSPViT
            >>> CSPViT.from_preset("test", num_classes=5).output_shape
            (None, 5)
        """
        overrides = {"num_classes": num_classes, "dtype": dtype, "labels": labels, **overrides}
        overrides = {key: value for key, value in overrides.items() if value is not None}
        expected = None if cls is ZooModel else cls
        return load_preset(expected, preset, load_weights=load_weights, **overrides)

    def save_to_preset(
        self, folder: StrPath, *, weights_dtype: str | None = None, **metadata: Any
    ) -> None:
        """Write the model as a preset that `from_preset` reads on every backend.

        The folder is written atomically. Its probe, the outputs for random inputs, is
        computed with the stored weights. As in KerasHub, frozen layers are not recorded: all layers
        of the model that `from_preset` returns are trainable.

        Args:
            folder: A new or empty folder, or one that holds a preset, which is replaced.
            weights_dtype: "float16" or "float32", the dtype of stored weights. `None`: no cast.
            **metadata: `labels` (default: the model's), `scores` (measured on the stored weights),
                `data` (the name of the data set) and `data_options` (a dict of arguments to load
                it). Also `recipe`, `command` (of the training), `commit` and `license`.

        Raises:
            ValueError: for other metadata, or a folder with other files.
            OSError: if the folder cannot be written.

        Example:
            >>> from keras_permix.zoo import CSPViT
            >>> CSPViT.from_preset("test").save_to_preset("preset", labels=["a", "b", "c"])
            >>> CSPViT.from_preset("preset").labels
            ('a', 'b', 'c')
        """
        save_preset(self, folder, weights_dtype=weights_dtype, **metadata)

    def upload_preset(self, handle: str, **metadata: Any) -> None:
        """Write the model as a preset and upload it to a hub, from which `from_preset` reads it.

        Log in with the hub's package first: `hf auth login`, or `kagglehub.login()`.

        Args:
            handle: `hf://USER/MODEL`, whose repository is created if it is missing, or
                `kaggle://USER/MODEL/keras/VARIATION`.
            **metadata: See `save_to_preset`.

        Raises:
            ValueError: for an invalid handle or other metadata.
            ImportError: if the hub's package is not installed.
            ConnectionError: if the hub cannot be reached or rejects the upload.
        """
        upload_preset(self, handle, **metadata)
