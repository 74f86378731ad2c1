"""Show in one call how a zoo model mixes tokens."""

from typing import Any, NamedTuple

import keras
import numpy as np

from keras_permix._typing import Model, StrPath
from keras_permix.analysis.influence_maps import plot_influence_map
from keras_permix.analysis.mixing_maps import MixingMap, mixing_maps
from keras_permix.analysis.residuals import rank_residual, singular_spectrum, token_norm
from keras_permix.utils.checks import import_extra
from keras_permix.zoo.mega import MEGA
from keras_permix.zoo.model import ZooModel

SHOWN = 8  # maps in a picture


class Inside(NamedTuple):
    """Hold the results of `look_inside`.

    Args:
        maps: A `MixingMap` for each mixer: its name, kind and array `(tokens, tokens)`.
        rollout: Float array `(tokens, tokens)`: how the last tokens depend on the first, through
            all mixers and skip connections. `None` without maps.
        spectra: Float array `(blocks, values)`: singular values of the tokens after each block,
            relative to the largest, averaged over the samples.
        residuals: Float array `(blocks,)`: distance of the tokens after each block from being
            equal, relative to their norm; see `rank_residual`.
        missing: List of sentences about parts of the model that the maps do not show.

    Example:
        >>> from keras_permix.analysis import look_inside
        >>> from keras_permix.zoo import CSPViT
        >>> inside = look_inside(CSPViT.from_preset("test"))
        >>> [one.kind for one in inside.maps], inside.missing
        (['permutation', 'permutation'], [])
    """

    maps: list[MixingMap]
    rollout: np.ndarray | None
    spectra: np.ndarray
    residuals: np.ndarray
    missing: list[str]


def look_inside(model: Model, inputs: Any = None, picture: StrPath | None = None) -> Inside:
    """Measure how a zoo model mixes tokens, layer by layer.

    Padding is not counted. `rollout` ignores channel mixers.

    Args:
        model: A model of the zoo.
        inputs: Inputs of the model, a batch of a few samples. `None`: two random samples.
        picture: Path of an image file to write, such as "inside.png", which shows the result.
            Requires Matplotlib (extra `train`).

    Raises:
        ImportError: for a `picture` if Matplotlib is not installed.
        TypeError: for a model outside the zoo; use `mixing_maps`.
        ValueError: for a sample that is all padding, or if a map of a 16-bit model is measured; see
            `mixing_maps`.

    Example:
        >>> from keras_permix.analysis import look_inside
        >>> from keras_permix.zoo import ViT
        >>> inside = look_inside(ViT.from_preset("test"))
        >>> len(inside.maps), inside.rollout.shape, inside.spectra.shape, inside.residuals.shape
        (2, (16, 16), (2, 8), (2,))

    Reference: Rollout: Abnar & Zuidema, "Quantifying Attention Flow in Transformers", 2020;
    spectra and residuals: Yuan & Xu, "Channel-wise Sample Permutation", 2024.
    """
    if not isinstance(model, ZooModel):
        raise TypeError(f"`model` must be a model of the zoo. Received: {type(model).__name__}")
    if picture is not None:
        figures = import_extra("matplotlib.figure", "train", f"picture={picture!r}")
    inputs = model.make_inputs(seed=0, batch=2) if inputs is None else inputs
    maps = mixing_maps(model, inputs)
    mask = next((one.mask for one in maps if one.mask is not None), None)
    if mask is not None and not mask.any(axis=1).all():
        raise ValueError("`inputs` must contain a real token per sample. Received: only padding")
    features = [_real_tokens(tokens, mask) for tokens in model.features(inputs)]
    inside = Inside(
        maps,
        rollout(maps) if maps else None,
        np.stack([_spectrum(samples) for samples in features]),
        np.array([_residual(samples) for samples in features]),
        _missing(model, maps),
    )
    if picture is not None:
        figure = figures.Figure(figsize=(12, 5), layout="constrained")
        _draw(figure, inside)
        figure.savefig(picture, dpi=80)
    return inside


def rollout(maps: list[MixingMap]) -> np.ndarray:
    """Compute how the last tokens depend on the first, through mixers and skip connections.

    The result is the product of all `(map + identity) / 2` with rows of maps normalized to 1. The
    identity is the skip connection. Maps of the kind "block" already include it.

    Args:
        maps: Maps from `mixing_maps`, in the order of the mixers, at least one.

    Returns:
        A float64 array `(tokens, tokens)` with rows that sum to 1.

    Example:
        >>> from keras_permix.analysis import mixing_maps, rollout
        >>> from keras_permix.zoo import ViT
        >>> model = ViT.from_preset("test")
        >>> rollout(mixing_maps(model, model.make_inputs(0, 2))).shape
        (16, 16)

    Reference: Abnar & Zuidema, "Quantifying Attention Flow in Transformers", 2020.
    """
    skip = product = np.eye(len(maps[0].map))
    for one in maps:
        matrix = abs(one.map).astype("float64")
        sums = matrix.sum(axis=1, keepdims=True)
        weights = np.where(sums > 0, matrix / np.where(sums > 0, sums, 1), skip)
        product = (weights if one.kind == "block" else (weights + skip) / 2) @ product
    return product


def _real_tokens(tokens, mask):
    """Return the real tokens (or pixels) of every sample, `(1, tokens, channels)` each."""
    tokens = keras.ops.convert_to_numpy(keras.ops.cast(tokens, "float32"))
    tokens = tokens.reshape(len(tokens), -1, tokens.shape[-1])
    real = np.ones(tokens.shape[:2], bool) if mask is None else mask
    return [sample[positions][None] for sample, positions in zip(tokens, real, strict=True)]


def _spectrum(samples):
    spectra = [singular_spectrum(tokens)[0] for tokens in samples]
    size = max(map(len, spectra))
    return np.mean([np.pad(s / (s[0] or 1), (0, size - len(s))) for s in spectra], axis=0)


def _residual(samples):
    norms = [(token_norm(rank_residual(x)), token_norm(x)) for x in samples]
    return np.mean([residual / (norm or 1) for (residual,), (norm,) in norms])


def _missing(model, maps):
    notes = []
    if not maps:
        notes.append(f"{type(model).__name__} has no maps, since it mixes pixels, not tokens.")
    if isinstance(model, MEGA):
        notes.append("The maps show attention or permutations, without the moving averages.")
    if any(one.kind == "block" for one in maps):
        notes.append("Maps of the kind 'block' are measured on whole blocks, with skips and MLPs.")
    return notes


def _draw(figure, inside):
    """Draw maps of at most `SHOWN` mixers and the rollout above, spectra and residuals below."""
    above, below = figure.subfigures(2, 1, height_ratios=(2, 3))
    count = len(inside.maps)
    shown = np.linspace(0, count - 1, min(count, SHOWN)).astype(int)
    panels = [(inside.maps[index].name, inside.maps[index].map) for index in shown]
    if inside.rollout is not None:
        panels.append(("rollout", inside.rollout))
    if panels:
        axes = above.subplots(1, len(panels), squeeze=False)[0]
        for ax, (name, matrix) in zip(axes, panels, strict=True):
            plot_influence_map(ax, abs(matrix))
            ax.set(xlabel="", ylabel="")
            ax.set_title(name, fontsize=8)
    if inside.missing:
        above.supxlabel(" ".join(inside.missing), fontsize=8)
    spectra, residuals = below.subplots(1, 2)
    for index, values in enumerate(inside.spectra):
        spectra.plot(range(1, len(values) + 1), values, label=f"after block {index}")
    spectra.set(xlabel="index", ylabel="singular value / largest", yscale="log")
    spectra.legend(fontsize=7)
    depth = range(1, len(inside.residuals) + 1)
    residuals.plot(depth, inside.residuals, marker="o", markersize=3)
    residuals.set(xlabel="blocks", ylabel="residual / tokens", xticks=depth)
    residuals.set_ylim(bottom=0)
