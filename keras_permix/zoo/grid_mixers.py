"""Mixers of tokens on a grid, with shift steps or delays that were made for another grid."""

from typing import Any

from keras_permix._typing import Layer
from keras_permix.layers.mixers import make_mixer, mixer_at
from keras_permix.layers.mixing.causal_csp import CausalCSP
from keras_permix.layers.mixing.csp import CSP
from keras_permix.layers.mixing.resize_steps import resize_delays, resize_steps


def make_grid_mixer(
    config: dict[str, Any],
    index: int,
    before: tuple[int, int],
    after: tuple[int, int],
    extra: int = 0,
    **arguments: Any,
) -> Layer:
    """The mixer of a block, its steps or delays carried over from one grid to another.

    Args:
        config: The model's, with `mixer`, `depth` and `width`.
        index: Number of the block.
        before, after: (rows, columns) of the grid that steps are made for, and of the tokens.
        extra: Tokens in front of the grid, such as a class token.
        **arguments: Of the layer.
    """
    spec, depth = mixer_at(config["mixer"], index), config["depth"]
    mixer = make_mixer(spec, index, depth, **arguments)
    if before == after or not isinstance(mixer, CSP | CausalCSP):
        return mixer
    if isinstance(mixer, CSP):
        steps = mixer.steps(before[0] * before[1] + extra, config["width"])
        resized = {"shift": resize_steps(steps, before, after, extra)}
    else:
        delays, least = mixer.steps(mixer.inner_dim or config["width"]), mixer.group_size - 1
        resized = {"delays": resize_delays(delays, before, after, least)}
    return make_mixer({**spec, **resized}, index, depth, **arguments)


def kept_steps(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The image size that steps are made for, of a model that is loaded for another one."""
    size = config["image_size"]
    if changes.get("image_size", size) == size:
        return {}
    return {"steps_image_size": config.get("steps_image_size") or size}


def steps_side(config: dict[str, Any]) -> int:
    """Patches along a side of the image that steps are made for."""
    return (config["steps_image_size"] or config["image_size"]) // config["patch_size"]
