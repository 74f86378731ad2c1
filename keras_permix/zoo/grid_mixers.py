"""Mixers of tokens on a grid, with shift steps or delays that were made for another grid."""

from typing import Any

from keras_permix.layers.embedding.grids import resize_delays, resize_steps
from keras_permix.layers.mixers import MIXERS, make_mixer, mixer_at
from keras_permix.layers.mixing.causal_csp import CausalCSP
from keras_permix.layers.mixing.csp import CSP


def mixer_on_grid(
    config: dict[str, Any],
    index: int,
    channels: int,
    before: tuple[int, int],
    after: tuple[int, int],
    extra: int = 0,
) -> Any:
    """The mixer of a block, its steps or delays carried over from one grid to another.

    Args:
        config: The model's, with `mixer` and `num_layers`.
        index: Number of the block.
        channels: Those that the mixer permutes, unless it says so itself.
        before, after: (rows, columns) of the grid that steps are made for, and of the tokens.
        extra: Tokens in front of the grid, such as a class token.

    Returns:
        What `make_mixer` takes; another mixer as it is.
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
    """The same for a model whose tokens are pixels in rows, or texts, which are no grid."""
    size = config["image_size"]
    before = config["steps_image_size"] or size
    return mixer_on_grid(config, index, channels, (before, before), (size, size), extra)


def keep_steps(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The image size that steps are made for, of a model that is loaded for another one."""
    size = config["image_size"]
    if changes.get("image_size", size) == size:
        return {}
    return {"steps_image_size": config.get("steps_image_size") or size}


def steps_side(config: dict[str, Any]) -> int:
    """Patches along a side of the image that steps are made for."""
    return (config["steps_image_size"] or config["image_size"]) // config["patch_size"]
