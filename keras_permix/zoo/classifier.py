"""Define the base classes of classifiers, with shared arguments, inputs and heads."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from keras_permix._typing import DType, Tensor
from keras_permix.layers.embedding.grids import resize_delays, resize_head, resize_steps
from keras_permix.layers.embedding.images import RANGE, ImagePreprocessor, resize_patches
from keras_permix.layers.mixers import (
    MIXERS,
    check_mixer,
    check_mixers,
    is_causal,
    make_mixer,
    mixer_at,
)
from keras_permix.layers.mixing.causal_csp import CausalCSP
from keras_permix.layers.mixing.csp import CSP
from keras_permix.layers.parts.masks import visible_keys
from keras_permix.layers.parts.wrappers import FirstToken
from keras_permix.utils.checks import (
    check_choice,
    check_flags,
    check_floats,
    check_number,
    plain,
)
from keras_permix.zoo.model import ZooModel
from keras_permix.zoo.outputs import UNSCALED, NamedOutputs, check_scale
from keras_permix.zoo.presets.names import check_arguments

SEEDS = ("random_order",)  # integers of at least 0, checked by layers
# kind of outputs -> name of the task, for images, texts or pairs
TASK_NAMES = {
    "class": "{}_classification",
    "labels": "multilabel_{}_classification",
    "values": "{}_regression",
}


class Classifier(NamedOutputs, ZooModel):
    """Build a `ZooModel` with one logit per class or label, or one number per target.

    A subclass takes `num_classes`, and names its last layer with weights "head". By default, its
    inputs are images, which the layer "preprocessor" resizes.

    Args:
        inputs, outputs, feature_maps, config, dtype, kwargs: As in `ZooModel`.
        predicts: "class" (one of several, a softmax over logits), "labels" (any number, a sigmoid
            per logit) or "values" (numbers).
        target_mean, target_std: With "values", mean and standard deviation of the training
            targets: one number, or one per target. The model predicts
            `target_mean + target_std * output`, in the units of the targets.

    Raises:
        ValueError: for an unknown `predicts`, a `target_std` that is not positive, or a
            `target_mean` without "values".
    """

    default_classes = 2
    head_arguments = ("predicts", "target_mean", "target_std")

    def __init__(
        self,
        inputs: Any,
        outputs: Any,
        feature_maps: list[Tensor],
        config: dict[str, Any],
        dtype: DType = None,
        *,
        predicts: str = "class",
        target_mean: float | Sequence[float] = 0.0,
        target_std: float | Sequence[float] = 1.0,
        **kwargs: Any,
    ) -> None:
        check_choice("predicts", predicts, TASK_NAMES)
        scale = {"target_mean": target_mean, "target_std": target_std}
        if predicts == "values":
            scale = check_scale(scale, outputs.shape[-1])
            outputs = keras.layers.Rescaling(
                scale["target_std"], scale["target_mean"], dtype="float32", name="values"
            )(outputs)
        elif scale != UNSCALED:
            rule = "`target_mean` and `target_std` require predicts='values'"
            raise ValueError(f"{rule}. Received: {predicts=}")
        if predicts != "class":
            config = {**config, "predicts": predicts, **(scale if predicts == "values" else {})}
        super().__init__(inputs, outputs, feature_maps, config, dtype, **kwargs)

    @classmethod
    def input_kind(cls, config: dict[str, Any]) -> str:
        """Return the kind of inputs of a configuration: "image", "text" or "pair"."""
        return "image"

    @classmethod
    def task_for(cls, config: dict[str, Any]) -> str:
        return TASK_NAMES[config.get("predicts", "class")].format(cls.input_kind(config))

    @classmethod
    def keep_arguments(
        cls, config: dict[str, Any], changes: dict[str, Any], new_head: bool
    ) -> dict[str, Any]:
        """Keep the shift steps of the old grid, and reset the scale of changed targets."""
        changed = {name for name, value in changes.items() if value != config.get(name)}
        kept = dict(UNSCALED) if new_head or "num_classes" in changed else {}
        sizes = changed & {"image_size", "patch_size"}
        if sizes and config.get("image_size") and "steps_image_size" in config:
            patch = config.get("patch_size", 1)
            side = (config["steps_image_size"] or config["image_size"]) // patch
            kept["steps_image_size"] = side * changes.get("patch_size", patch)
        return kept

    @property
    def predicts(self) -> str:
        """Return the kind of outputs: "class", "labels" or "values"."""
        return self._zoo_config.get("predicts", "class")

    def make_inputs(self, seed: int, batch: int) -> Any:
        layer: Any = self.preprocessor
        shape = (batch, layer.image_size, layer.image_size, self.input_shape[-1])
        return np.random.default_rng(seed).integers(0, 256, shape, dtype="uint8")

    def describe_input(self) -> dict[str, Any]:
        layer: Any = self.preprocessor
        scale = {"mean": layer.mean, "std": layer.std, "range": list(RANGE)}
        return {"size": layer.image_size, **scale}

    def describe_output(self) -> dict[str, Any]:
        if self.predicts == "values":
            return {"outputs": "values", "targets": self.output_shape[-1]}
        return super().describe_output()


class ImageClassifier(Classifier):
    """Classify images, which the layer "preprocessor" resizes to squares and normalizes.

    The constructor takes `image_size`, `channels`, `mean` and `std`.
    """

    default_classes = 10

    @classmethod
    def _check_config(cls, config: dict[str, Any]) -> dict[str, Any]:
        return config | check_images(config)

    def transfer_weight(self, weight: Tensor, value: Tensor, source: Self) -> Tensor:
        """Resize the embedding to another patch size, and a head on all tokens to another grid."""
        if weight.path == "patch_embedding/projection/kernel":
            sizes = (model.get_config()["patch_size"] for model in (source, self))
            return resize_patches(value, *sizes)
        if weight.path != "head/kernel" or tuple(weight.shape) == tuple(value.shape):
            return value
        return resize_head(value, *grid_sides(self, source))


def collect_arguments(
    variables: dict[str, Any], check: Callable[[Any], Any] = check_mixer, **choices: Iterable[Any]
) -> dict[str, Any]:
    """Collect and check the arguments of the constructor of a model, whose `locals()` are given.

    Integers, floats and booleans are checked by their annotations: an `int` is positive, a `float`
    is positive or, if its name ends in "dropout", a rate. `num_classes` defaults to the number of
    `labels`, or the default of the class. `check` checks one mixer, and `choices` are the values
    that other arguments accept. The configuration has no `self`, `dtype` and `kwargs`.
    """
    cls, given = type(variables["self"]), variables["kwargs"]
    check_arguments(cls, given)
    parameters = inspect.signature(variables["__class__"].__init__).parameters
    others = ("self", "dtype", "kwargs", "__class__")
    config = {name: value for name, value in variables.items() if name not in others}
    check_flags(config, parameters)
    if config.get("num_classes", 0) is None:
        default = 1 if given.get("predicts") == "values" else cls.default_classes
        labels = plain(given.get("labels"))
        config["num_classes"] = len(labels) if isinstance(labels, list | tuple) else default
    for name, value in config.items():
        if value is None and name in ("mixer", "mlp"):
            value = getattr(cls, f"default_{name}", None)
        if name not in SEEDS:
            value = check_number(name, value, parameters[name].annotation)
        config[name] = value
    for name, values in choices.items():
        check_choice(name, config[name], values)
    if "mixer" in config:
        mixers = config["mixer"] = check_mixers(config["mixer"], config["num_layers"], check)
        specs = mixers if isinstance(mixers, list) else [mixers]
        reads_first = config.get("pooling") == "cls" or "pooler" in config
        if reads_first and all(spec is not None and is_causal(spec) for spec in specs):
            rule = "`mixer` must not be causal in all blocks if the head reads the first token"
            raise ValueError(f"{rule}. Received: mixer={mixers}")
    return cls._check_config(config)


def check_images(config: dict[str, Any]) -> dict[str, list[float]]:
    """Check the sizes of images and patches, and return "mean" and "std" as floats per channel."""
    channels = config["channels"]
    mean, std = (check_floats(key, config[key], channels, "channel") for key in ("mean", "std"))
    key = "patch_sizes" if "patch_sizes" in config else "patch_size"
    patch = config.get(key, 1)
    for name in ("image_size", "steps_image_size"):
        size = config.get(name)
        if size is not None and np.any(np.mod(size, patch)):
            rule = f"`{key}` must divide `{name}`"
            raise ValueError(f"{rule}. Received: {key}={patch}, {name}={size}")
    return {"mean": mean, "std": std}


def image_input(config: dict[str, Any], dtype: Any, align_corners: bool = False) -> tuple[Any, Any]:
    """Return the input of a model of images, and the images resized and normalized."""
    images = keras.Input((None, None, config["channels"]), name="images")
    size, mean, std = (config[key] for key in ("image_size", "mean", "std"))
    layer = ImagePreprocessor(size, mean, std, align_corners, dtype=dtype, name="preprocessor")
    return images, layer(images)


def grid_sides(model: Any, source: Any) -> tuple[int, int]:
    """Return the sides of the grids of patches or pixels of `source` and `model`."""
    configs = [one.get_config() for one in (source, model)]
    old, new = (config["image_size"] // config.get("patch_size", 1) for config in configs)
    return old, new


def mixer_on_grid(
    config: dict[str, Any], index: int, channels: int, extra: int = 0, rows: int | None = None
) -> Any:
    """Return the mixer of block `index`, with its steps or delays scaled from `steps_image_size`.

    The mixer permutes `channels` unless it sets their number. There are `extra` tokens, such as a
    class token, before the grid of tokens, which has `rows` rows, or as many as columns.
    """
    spec, size = mixer_at(config["mixer"], index), config["image_size"]
    old = config["steps_image_size"] or size
    if old == size or not shifts(spec):
        return spec
    before, after = (side // config.get("patch_size", 1) for side in (old, size))
    grids = (rows or before, before), (rows or after, after)
    mixer = make_mixer(spec, index, config["num_layers"])
    if isinstance(mixer, CSP):
        steps = mixer.steps((rows or before) * before + extra, channels)
        return {**spec, "shift": resize_steps(steps, *grids, extra)}
    delays, least = mixer.steps(mixer.inner_dim or channels), mixer.group_size - 1
    return {**spec, "delays": resize_delays(delays, *grids, least)}


def shifts(spec: Any) -> bool:
    """Return whether a mixer shifts channels by steps or delays."""
    known = isinstance(spec, dict) and spec["name"] in MIXERS
    return known and issubclass(MIXERS[spec["name"]].layer, CSP | CausalCSP)


def pool_tokens(tokens: Any, pooling: str, mask: Any = None) -> Any:
    """Reduce the tokens `(batch, tokens, channels)` of each sample to one vector.

    "cls" takes the first token; "mean" and "max" are over the real tokens, at which the mask
    `(batch, tokens)` is True. In a sample without real tokens, all tokens count.
    """
    if pooling == "cls":
        return FirstToken(dtype=tokens.dtype, name="first_token")(tokens)
    if mask is None:
        return ops.mean(tokens, axis=1) if pooling == "mean" else ops.max(tokens, axis=1)
    real = ops.expand_dims(visible_keys(mask), axis=-1)
    if pooling == "max":
        return ops.max(ops.where(real, tokens, ops.cast(-float("inf"), tokens.dtype)), axis=1)
    count = ops.sum(ops.cast(real, "float32"), axis=1, keepdims=True)
    return ops.sum(tokens * ops.cast(ops.cast(real, "float32") / count, tokens.dtype), axis=1)


def logits_of(x: Any, num_classes: int, dtype: Any, use_bias: bool = True) -> Any:
    """Return logits in float32, from a dense layer named "head"."""
    logits = keras.layers.Dense(num_classes, use_bias=use_bias, dtype=dtype, name="head")(x)
    return keras.layers.Activation("linear", dtype="float32", name="logits")(logits)
