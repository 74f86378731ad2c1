"""Check the arguments of models, and build their preprocessing, mixers on a grid and heads."""

import inspect
from collections.abc import Iterable
from numbers import Real
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_permix.layers.embedding.grids import resize_delays, resize_steps
from keras_permix.layers.embedding.images import ImagePreprocessor
from keras_permix.layers.mixers import MIXERS, arguments_of, is_causal, make_mixer, mixer_at
from keras_permix.layers.mixing.causal_csp import CausalCSP
from keras_permix.layers.mixing.csp import CSP
from keras_permix.layers.parts.masks import visible_keys
from keras_permix.layers.parts.wrappers import FirstToken
from keras_permix.utils.checks import (
    check_flags,
    check_floats,
    check_names,
    check_number,
    plain,
)

SEEDS = ("random_order",)  # integers of at least 0, checked by layers


def arguments(cls: type[Any]) -> list[str]:
    """Return the names of the arguments that a model takes."""
    names = inspect.signature(cls.__init__).parameters
    own = (name for name in names if name not in ("self", "kwargs"))
    return [*own, *cls.head_arguments, "labels", "name", "trainable"]


def check_arguments(cls: type[Any], given: Iterable[str]) -> None:
    """Raise ValueError for unknown arguments of a model, with hints about those of mixers."""
    known, given = arguments(cls), list(given)
    try:
        check_names(cls.__name__, given, known)
    except ValueError as error:
        unknown = sorted(set(given) - set(known)) if "mixer" in known else []
        takers = {name: [m for m in MIXERS if name in arguments_of(m)] for name in unknown}
        hints = [
            f" `{name}` is an argument of these mixers: {', '.join(mixers)}."
            for name, mixers in takers.items()
            if mixers
        ]
        raise ValueError("".join((str(error), *hints))) from None


def collect_arguments(variables: dict[str, Any]) -> dict[str, Any]:
    """Collect and check the arguments of the constructor of a model.

    Integers, floats and booleans are checked by their annotations: an `int` is positive, a `float`
    is positive or, if its name ends in "dropout", a rate.

    Args:
        variables: The `locals()` of the constructor's first line.

    Returns:
        A dict of the model's configuration, without `self`, `dtype` and `kwargs`. `num_classes`
        defaults to the number of `labels`, or the default of the class.

    Raises:
        ValueError: for `kwargs` that the model does not take, or a number out of range.
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
    return {
        name: value if name in SEEDS else check_number(name, value, parameters[name].annotation)
        for name, value in config.items()
    }


def check_images(config: dict[str, Any]) -> dict[str, list[float]]:
    """Check the arguments about images: each patch size must divide each size of images.

    Args:
        config: Dict with "channels", "mean", "std" and, for patches, "patch_size" and "image_size".

    Returns:
        A dict of "mean" and "std", one float per channel.
    """
    channels = config["channels"]
    mean, std = (check_floats(key, config[key], channels, "channel") for key in ("mean", "std"))
    if min(std) <= 0:
        raise ValueError(f"`std` must contain positive numbers. Received: std={std!r}")
    for key in ("image_size", "steps_image_size"):
        size, patch = config.get(key), config.get("patch_size", 1)
        if size is not None and size % patch:
            raise ValueError(
                f"`patch_size` must divide `{key}`. Received: {key}={size}, patch_size={patch}"
            )
    return {"mean": mean, "std": std}


def preprocess(images: Any, config: dict, dtype: Any, align_corners: bool = False) -> Any:
    """Resize and normalize the images of a model's input."""
    size, mean, std = (config[key] for key in ("image_size", "mean", "std"))
    layer = ImagePreprocessor(size, mean, std, align_corners, dtype=dtype, name="preprocessor")
    return layer(images)


def grid_sides(model: Any, source: Any) -> tuple[int, int]:
    """Return the sides of the grids of patches or pixels of `source` and `model`."""
    configs = [one.get_config() for one in (source, model)]
    old, new = (config["image_size"] // config.get("patch_size", 1) for config in configs)
    return old, new


def mixer_on_grid(
    config: dict[str, Any],
    index: int,
    channels: int,
    before: tuple[int, int],
    after: tuple[int, int],
    extra: int = 0,
) -> Any:
    """Return the mixer of a block, with its steps or delays scaled from one grid to another.

    Args:
        config: Configuration of the model, with `mixer` and `num_layers`.
        index: Index of the block.
        channels: Default number of channels that the mixer permutes.
        before, after: (rows, columns) of the grid that the steps are made for, and of the tokens.
        extra: Number of tokens before the grid, such as a class token.

    Returns:
        An argument for `make_mixer`. Mixers without steps or delays are returned unchanged.
    """
    spec = mixer_at(config["mixer"], index)
    known = isinstance(spec, dict) and spec["name"] in MIXERS
    layer = MIXERS[spec["name"]].layer if known else None
    if before == after or layer is None or not issubclass(layer, CSP | CausalCSP):
        return spec
    mixer = make_mixer(spec, index, config["num_layers"])
    if isinstance(mixer, CSP):
        steps = mixer.steps(before[0] * before[1] + extra, channels)
        return {**spec, "shift": resize_steps(steps, before, after, extra)}
    delays, least = mixer.steps(mixer.inner_dim or channels), mixer.group_size - 1
    return {**spec, "delays": resize_delays(delays, before, after, least)}


def mixer_on_pixels(config: dict[str, Any], index: int, channels: int, extra: int = 0) -> Any:
    """Return the mixer of a block on pixels in row order; see `mixer_on_grid`."""
    size = config["image_size"]
    before = config["steps_image_size"] or size
    return mixer_on_grid(config, index, channels, (before, before), (size, size), extra)


def keep_steps(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return the `steps_image_size` of a model that is loaded for another image size."""
    size = config["image_size"]
    if changes.get("image_size", size) == size:
        return {}
    return {"steps_image_size": config.get("steps_image_size") or size}


def steps_side(config: dict[str, Any]) -> int:
    """Return the patches along a side of the image that the steps are made for."""
    return (config["steps_image_size"] or config["image_size"]) // config["patch_size"]


def check_scale(scale: dict[str, Any], targets: int) -> dict[str, Any]:
    """Check the mean and the standard deviation of targets.

    Args:
        scale: Dict of both arguments, in this order. Each is one number, or one per target.
        targets: Number of targets.

    Returns:
        The dict with floats, or lists of them.

    Raises:
        ValueError: for a wrong number of values, or a standard deviation that is not positive.
    """
    for name, value in scale.items():
        one = isinstance(value, Real)
        floats = check_floats(name, [value] if one else value, 1 if one else targets, "target")
        scale = {**scale, name: floats[0] if one else floats}
    if np.min(scale[name]) <= 0:
        raise ValueError(f"`{name}` must be positive. Received: {name}={scale[name]}")
    return scale


def pool_tokens(tokens: Any, pooling: str, mask: Any = None) -> Any:
    """Reduce the tokens of each sample to one vector.

    Args:
        tokens: Tensor `(batch, tokens, channels)`.
        pooling: "cls" for the first token; "mean" or "max" over the real tokens.
        mask: Booleans `(batch, tokens)`, True at real tokens, or `None`. In a sample without real
            tokens, all tokens count.

    Returns:
        A tensor `(batch, channels)`.
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


def check_class_token(pooling: str, mixers: Any) -> None:
    """Check that a class token, which is first, depends on the tokens after it.

    Args:
        pooling: See `pool_tokens`.
        mixers: The result of `check_mixers`.

    Raises:
        ValueError: for "cls" if all mixers are causal.
    """
    specs = mixers if isinstance(mixers, list) else [mixers]
    if pooling == "cls" and all(map(is_causal, specs)):
        raise ValueError(
            '`pooling="cls"` does not support causal mixers, because the class token comes first. '
            f'Choose another `pooling`. Received: pooling="cls", mixer={mixers}'
        )


def logits_of(x: Any, num_classes: int, dtype: Any) -> Any:
    """Return logits in float32, from a dense layer named "head"."""
    logits = keras.layers.Dense(num_classes, dtype=dtype, name="head")(x)
    return keras.layers.Activation("linear", dtype="float32", name="logits")(logits)
