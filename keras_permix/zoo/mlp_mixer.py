"""The MLP-Mixers of the Dimension Mixer paper: dense, of butterflies, and of patches alone."""

from collections.abc import Sequence
from typing import Any, Self

import keras

from keras_permix._typing import StrPath, Tensor
from keras_permix.layers.blocks.mlp_mixer_block import MLPS, MLPMixerBlock
from keras_permix.layers.butterfly.patch_only_mixer import PatchOnlyMixer
from keras_permix.layers.embedding.grids import resize_dense, resize_head
from keras_permix.layers.embedding.images import PatchEmbedding
from keras_permix.layers.parts.projections import Dense
from keras_permix.utils.checks import (
    check_choice,
    check_floats,
    check_integer,
    check_positive,
    check_positive_or_none,
)
from keras_permix.zoo.heads import logits_of, pool_tokens
from keras_permix.zoo.image_classifier import (
    ImageClassifier,
    check_patches,
    check_std,
    grid_sides,
    preprocess,
)
from keras_permix.zoo.presets.config import check_arguments
from keras_permix.zoo.registry import zoo_model

HALVES = (0.5, 0.5, 0.5)
POOLINGS = ("flatten", "mean")


@zoo_model
class MLPMixer(ImageClassifier):
    """An MLP-Mixer, whose MLPs across tokens and channels are dense or butterflies.

    Images `(batch, height, width, channels)`, integers or floats of 0–255, become logits
    `(batch, num_classes)`, which the head reads off all features of all tokens, as in the paper of
    the Dimension Mixer, or off their mean, as in that of the MLP-Mixer. Normalization is part of
    the model, and images of another size are resized to `image_size` first, bilinear with aligned
    corners.

    Weights mix as many tokens as an image has patches, and fit one `image_size`. `from_preset` with
    a larger one grows them: every new patch has the weights of the old one nearest to it, and
    hidden units are repeated as well; what is summed over is divided by the number of its copies.
    Of patches that are repeated like this a grown model makes what it made of them before. With a
    smaller one patches and hidden units are merged: they have the mean of the old ones' weights,
    or their sum.

    Args:
        image_size: Side of the square image in pixels that the patches are cut from.
        patch_size: Side of a patch in pixels; it divides `image_size`.
        num_classes: Number of logits.
        channels: Channels of an image.
        hidden_dim: Channels per token.
        num_layers: Number of blocks.
        expansion: Hidden units of an MLP for each token, or channel, that it mixes.
        tokens_mlp_dim, channels_mlp_dim: Hidden units of dense MLPs across tokens and across
            channels. `None`: as `expansion` has it.
        pooling: What the head reads: "flatten", or "mean" over the tokens after a normalization.
        layer_norm_epsilon: Epsilon of the layer normalizations.
        mlp: "dense", "butterfly" or "butterfly_linear", see `keras_permix.layers.MLPMixerBlock`.
            `None`: the class's own.
        mean, std: Normalization per channel on the scale 0–1.
        dtype: Dtype or dtype policy of every layer, e.g. "mixed_bfloat16".

    Raises:
        ValueError: for an unknown argument, one out of range, or a size that `patch_size` does not
            divide or the MLPs do not take.

    Example:

    >>> import numpy as np
    >>> from keras_permix.zoo import MLPMixer
    >>> model = MLPMixer(image_size=32, patch_size=4, num_classes=10, hidden_dim=121, expansion=1)
    >>> tuple(model(np.zeros((1, 32, 32, 3), "uint8")).shape), model.count_params()
    ((1, 10), 351675)

    Source: Tolstikhin et al., "MLP-Mixer", 2021; Sapkota & Bhattarai, "Dimension Mixer", 2023,
    Tables II and V and the released code.
    """

    default_mlp = "dense"

    def __init__(
        self,
        image_size: int = 32,
        patch_size: int = 4,
        num_classes: int = 10,
        channels: int = 3,
        hidden_dim: int = 121,
        num_layers: int = 7,
        expansion: int = 2,
        mlp: str | None = None,
        tokens_mlp_dim: int | None = None,
        channels_mlp_dim: int | None = None,
        pooling: str = "flatten",
        layer_norm_epsilon: float = 1e-5,
        mean: Sequence[float] = HALVES,
        std: Sequence[float] = HALVES,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        check_arguments(type(self), kwargs)
        config = {
            "image_size": image_size,
            "patch_size": check_integer("patch_size", patch_size),
            "num_classes": check_integer("num_classes", num_classes),
            "channels": check_integer("channels", channels),
            "hidden_dim": check_integer("hidden_dim", hidden_dim),
            "num_layers": check_integer("num_layers", num_layers),
            "expansion": check_integer("expansion", expansion),
            "mlp": check_choice("mlp", self.default_mlp if mlp is None else mlp, MLPS),
            "tokens_mlp_dim": check_positive_or_none("tokens_mlp_dim", tokens_mlp_dim),
            "channels_mlp_dim": check_positive_or_none("channels_mlp_dim", channels_mlp_dim),
            "pooling": check_choice("pooling", pooling, POOLINGS),
            "layer_norm_epsilon": check_positive("layer_norm_epsilon", layer_norm_epsilon),
            "mean": check_floats("mean", mean, channels, "channel"),
            "std": check_std(std, channels),
        }
        check_patches(config, "image_size")
        images = keras.Input((None, None, channels), name="images")
        x = preprocess(images, config, dtype, align_corners=True)
        x = PatchEmbedding(patch_size, hidden_dim, dtype=dtype, name="patch_embedding")(x)
        feature_maps = []
        for index in range(num_layers):
            x = MLPMixerBlock(
                config["mlp"], expansion, tokens_mlp_dim, channels_mlp_dim, layer_norm_epsilon,
                dtype=dtype,
                name=f"block_{index}",
            )(x)  # fmt: skip
            feature_maps.append(x)
        if pooling == "flatten":
            x = _flatten(x, dtype)
        else:
            norm = keras.layers.LayerNormalization(
                epsilon=layer_norm_epsilon, dtype=dtype, name="head_norm"
            )
            x = pool_tokens(norm(x), pooling)
        logits = logits_of(x, config["num_classes"], dtype)
        super().__init__(images, logits, feature_maps, config, dtype=dtype, **kwargs)

    @classmethod
    def from_timm(cls, path: StrPath, num_classes: int | None = None, **arguments: Any) -> Self:
        """A model with the weights of an MLP-Mixer of timm.

        Args:
            path: `model.safetensors` with timm's names, or a folder that holds it; the mean and
                the deviation of the images are read from a `config.json` beside it, else they are
                0.5.
            num_classes: Number of logits. `None`: the file's; with another the head is of zeros.
            **arguments: Others of the class, but for the sizes.

        Returns:
            A model of this class.

        Raises:
            ImportError: if the package `safetensors` is absent.
            FileNotFoundError: for a missing file.
            ValueError: for a damaged file, or tensors that are not those of such a model.

        Source: Wightman, PyTorch Image Models, `timm/models/mlp_mixer.py`.
        """
        from keras_permix.zoo.convert.timm import make_model, read_mixer

        if cls is not MLPMixer:
            raise ValueError(
                "timm's MLP-Mixers are dense: make an `MLPMixer`. "
                f"Received: {cls.__name__}.from_timm"
            )
        return make_model(cls, read_mixer(path), num_classes, arguments)

    def transferred(self, weight: Tensor, value: Tensor, source: Self) -> Tensor:
        """Of the MLPs along the tokens, and of the head, for another number of patches."""
        mixes = "/token_" in weight.path
        if tuple(weight.shape) == tuple(value.shape) or not (mixes or weight.path == "head/kernel"):
            return value
        sides = grid_sides(self, source)
        return resize_dense(value, weight.shape, *sides) if mixes else resize_head(value, *sides)


@zoo_model
class ButterflyMixer(MLPMixer):
    """`MLPMixer` whose MLPs are butterflies; its other `mlp` is "butterfly_linear".

    Example:

    >>> from keras_permix.zoo import ButterflyMixer, MLPMixer
    >>> [kind(hidden_dim=64, num_layers=1).count_params() for kind in (ButterflyMixer, MLPMixer)]
    [53322, 77514]
    """

    default_mlp = "butterfly"


@zoo_model
class PatchOnlyMLPMixer(ImageClassifier):
    """A mixer without tokens: MLPs of patches of several sizes, which overlap.

    Images `(batch, height, width, channels)`, integers or floats of 0–255, become logits
    `(batch, num_classes)`, which the head reads off all pixels. A block mixes the pixels and
    channels of each patch, for one patch size after another; its feature map is an image again.
    Normalization is part of the model, and images of another size are resized to `image_size`
    first, bilinear with aligned corners. The blocks fit any `image_size`, the head fits one:
    `from_preset` with a larger `image_size` lets every new pixel have the weights of the old one
    nearest to it, divided by the number of these, and with a smaller one their sum.

    Args:
        image_size: Side of the square image in pixels; every patch size divides it.
        patch_sizes: Sides of the patches in pixels, in their order, co-prime in pairs.
        num_classes: Number of logits.
        channels: Channels of an image.
        hidden_dim: Channels that are mixed, to which a dense layer brings the pixels where they
            differ from `channels`. `None`: `channels`.
        num_layers: Number of blocks, of an MLP for each patch size.
        expansion: Hidden units of an MLP for each feature of a patch.
        mean, std: Normalization per channel on the scale 0–1.
        dtype: Dtype or dtype policy of every layer, e.g. "mixed_bfloat16".

    Raises:
        ValueError: for an unknown argument, one out of range, or patch sizes that do not divide
            `image_size`.

    Warns:
        UserWarning: for patch sizes that are not co-prime, since mixing stays incomplete.

    Example:

    >>> import numpy as np
    >>> from keras_permix.zoo import PatchOnlyMLPMixer
    >>> model = PatchOnlyMLPMixer(image_size=35, patch_sizes=(5, 7), num_classes=10)
    >>> tuple(model(np.zeros((1, 32, 32, 3), "uint8")).shape), model.count_params()
    ((1, 10), 807082)

    Source: Sapkota & Bhattarai, "Dimension Mixer", 2023, Table V and the released code.
    """

    def __init__(
        self,
        image_size: int = 35,
        patch_sizes: Sequence[int] = (5, 7),
        num_classes: int = 10,
        channels: int = 3,
        hidden_dim: int | None = None,
        num_layers: int = 7,
        expansion: int = 2,
        mean: Sequence[float] = HALVES,
        std: Sequence[float] = HALVES,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        check_arguments(type(self), kwargs)
        config = {
            "image_size": check_integer("image_size", image_size),
            "patch_sizes": _check_patch_sizes(patch_sizes, image_size),
            "num_classes": check_integer("num_classes", num_classes),
            "channels": check_integer("channels", channels),
            "hidden_dim": check_positive_or_none("hidden_dim", hidden_dim),
            "num_layers": check_integer("num_layers", num_layers),
            "expansion": check_integer("expansion", expansion),
            "mean": check_floats("mean", mean, channels, "channel"),
            "std": check_std(std, channels),
        }
        images = keras.Input((None, None, channels), name="images")
        x = preprocess(images, config, dtype, align_corners=True)
        if hidden_dim not in (None, channels):
            x = Dense(hidden_dim, dtype=dtype, name="pixel_embedding")(x)
        feature_maps = []
        for index in range(num_layers):
            name = f"block_{index}"
            x = PatchOnlyMixer(config["patch_sizes"], expansion, dtype=dtype, name=name)(x)
            feature_maps.append(x)
        logits = logits_of(_flatten(x, dtype), config["num_classes"], dtype)
        super().__init__(images, logits, feature_maps, config, dtype=dtype, **kwargs)

    def transferred(self, weight: Tensor, value: Tensor, source: Self) -> Tensor:
        """The head for another number of pixels."""
        if weight.path != "head/kernel" or tuple(weight.shape) == tuple(value.shape):
            return value
        return resize_head(value, *grid_sides(self, source))


def _flatten(x, dtype):
    return keras.layers.Flatten(dtype=dtype, name="flatten")(x)


def _check_patch_sizes(patch_sizes, image_size):
    """Return the sizes as a list of integers that divide `image_size`."""
    several = isinstance(patch_sizes, list | tuple)
    sizes = list(patch_sizes) if several else [patch_sizes]
    sizes = [check_integer("patch_sizes", size) for size in sizes]
    if not sizes or any(image_size % size for size in sizes):
        raise ValueError(
            "`patch_sizes` must be integers that divide `image_size`, one or more. "
            f"Received: patch_sizes={patch_sizes!r}, image_size={image_size}"
        )
    return sizes
