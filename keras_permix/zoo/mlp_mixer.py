"""Define the MLP-Mixers of the Dimension Mixer paper: dense, butterfly and patch-only."""

from collections.abc import Sequence
from typing import Any, Self

import keras

from keras_permix._typing import StrPath, Tensor
from keras_permix.layers.blocks.mlp_mixer_block import MLPMixerBlock
from keras_permix.layers.butterfly.patch_only_mixer import PatchOnlyMixer
from keras_permix.layers.embedding.grids import resize_dense
from keras_permix.layers.embedding.images import PatchEmbedding
from keras_permix.layers.parts.wrappers import Dense
from keras_permix.utils.checks import plain
from keras_permix.zoo.classifier import (
    ImageClassifier,
    collect_arguments,
    grid_sides,
    image_input,
    logits_of,
    pool_tokens,
)
from keras_permix.zoo.registry import zoo_model

HALVES = (0.5, 0.5, 0.5)
POOLINGS = ("flatten", "mean")


@zoo_model
class MLPMixer(ImageClassifier):
    """Classify images with an MLP-Mixer whose MLPs are dense or butterflies.

    The input is images `(batch, height, width, channels)` of integers or floats of 0–255. The model
    resizes them to `image_size`, bilinearly with aligned corners, and normalizes them. The output
    is logits `(batch, num_classes)`. The head reads all features of all tokens, as in the Dimension
    Mixer paper, or their mean, as in the MLP-Mixer paper.

    The weights depend on the number of patches, and therefore on `image_size`. With a larger
    `image_size`, `from_preset` repeats the weights of the nearest patches and of hidden units.
    Weights whose products are summed are divided by the number of copies. With a smaller one,
    weights are averaged or summed.

    Args:
        image_size: Side of the square images in pixels.
        patch_size: Side of a patch in pixels. It must divide `image_size`.
        num_classes: Number of outputs. `None`: that of `labels`, or 10.
        channels: Channels of an image.
        hidden_dim: Channels per token.
        num_layers: Number of blocks.
        expansion: Hidden units of an MLP per mixed token or channel.
        mlp: "dense", "butterfly" or "butterfly_linear"; see `keras_permix.layers.MLPMixerBlock`.
            `None`: the default of the class.
        tokens_mlp_dim, channels_mlp_dim: Hidden units of dense MLPs across tokens and across
            channels. `None`: set by `expansion`.
        pooling: "flatten" (the head reads all tokens), or "mean" over the normalized tokens.
        layer_norm_epsilon: Epsilon of the layer normalizations.
        mean, std: Normalization per channel on the scale 0–1.
        dtype: Dtype or dtype policy of every layer, such as "mixed_bfloat16".

    Raises:
        ValueError: for an unknown argument, a value out of range, or a size that `patch_size` does
            not divide or the MLPs do not support.

    Example:
        >>> import numpy as np
        >>> from keras_permix.zoo import MLPMixer
        >>> model = MLPMixer(image_size=32, patch_size=4, hidden_dim=121, expansion=1)
        >>> tuple(model(np.zeros((1, 32, 32, 3), "uint8")).shape), model.count_params()
        ((1, 10), 351675)

    Reference: Tolstikhin et al., "MLP-Mixer", 2021. Sapkota & Bhattarai, "Dimension Mixer", 2023,
    Tables II and V and the released code.
    """

    default_mlp = "dense"

    def __init__(
        self,
        image_size: int = 32,
        patch_size: int = 4,
        num_classes: int | None = None,
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
        config = collect_arguments(locals(), pooling=POOLINGS)
        images, x = image_input(config, dtype, align_corners=True)
        x = PatchEmbedding(patch_size, hidden_dim, dtype=dtype, name="patch_embedding")(x)
        norm = dict(epsilon=layer_norm_epsilon, dtype=dtype)
        mlps = config["mlp"], expansion, tokens_mlp_dim, channels_mlp_dim
        feature_maps = []
        for index in range(num_layers):
            x = MLPMixerBlock(*mlps, **norm, name=f"block_{index}")(x)
            feature_maps.append(x)
        if pooling == "flatten":
            x = keras.layers.Flatten(dtype=dtype, name="flatten")(x)
        else:
            x = keras.layers.LayerNormalization(**norm, name="head_norm")(x)
            x = pool_tokens(x, pooling)
        logits = logits_of(x, config["num_classes"], dtype)
        super().__init__(images, logits, feature_maps, config, dtype=dtype, **kwargs)

    @classmethod
    def from_timm(cls, path: StrPath, num_classes: int | None = None, **arguments: Any) -> Self:
        """Build a model with the weights of an MLP-Mixer of timm.

        Args:
            path: `model.safetensors` with timm's names, or its folder. A `config.json` beside it
                gives the mean and standard deviation of images (default 0.5).
            num_classes: Number of logits. `None`: as in the file. Another number gives a head of
                zeros.
            **arguments: Other arguments of the class, except sizes.

        Returns:
            A model of this class.

        Raises:
            ImportError: if the package `safetensors` is absent.
            FileNotFoundError: for a missing file.
            ValueError: for a damaged file, or tensors of another model.

        Reference: Wightman, PyTorch Image Models, `timm/models/mlp_mixer.py`.
        """
        from keras_permix.zoo.convert.timm import make_model, read_mixer

        if cls is not MLPMixer:
            raise ValueError(f"`from_timm` must be called on MLPMixer. Received: {cls.__name__}")
        return make_model(cls, read_mixer(path), num_classes, arguments)

    def transfer_weight(self, weight: Tensor, value: Tensor, source: Self) -> Tensor:
        """Resize the MLPs across tokens and the head to another number of patches."""
        if "/token_" not in weight.path or tuple(weight.shape) == tuple(value.shape):
            return super().transfer_weight(weight, value, source)
        return resize_dense(value, weight.shape, *grid_sides(self, source))


@zoo_model
class ButterflyMixer(MLPMixer):
    """Classify images with an `MLPMixer` whose `mlp` is "butterfly" by default."""

    default_mlp = "butterfly"


@zoo_model
class PatchOnlyMLPMixer(ImageClassifier):
    """Classify images with MLPs on overlapping patches of several sizes.

    The input is images as for `MLPMixer`. A block mixes the pixels and channels of each patch, one
    patch size after another, and outputs an image. The head reads all pixels and outputs logits
    `(batch, num_classes)`.

    The head depends on `image_size`. With a larger `image_size`, `from_preset` copies the head
    weights of the nearest old pixel and divides them by the number of copies. With a smaller one,
    it sums them.

    Args:
        image_size: Side of the square images in pixels. Every patch size must divide it.
        patch_sizes: Sides of the patches in pixels, in order, pairwise co-prime.
        num_classes: Number of outputs. `None`: that of `labels`, or 10.
        channels: Channels of an image.
        hidden_dim: Channels of the blocks. A dense layer projects the pixels if it differs from
            `channels`. `None`: `channels`.
        num_layers: Number of blocks, each with one MLP per patch size.
        expansion: Hidden units of an MLP per feature of a patch.
        mean, std: Normalization per channel on the scale 0–1.
        dtype: Dtype or dtype policy of every layer, such as "mixed_bfloat16".

    Raises:
        ValueError: for an unknown argument, a value out of range, or patch sizes that do not divide
            `image_size`.

    Example:
        >>> import numpy as np
        >>> from keras_permix.zoo import PatchOnlyMLPMixer
        >>> model = PatchOnlyMLPMixer(image_size=35, patch_sizes=(5, 7), num_classes=10)
        >>> tuple(model(np.zeros((1, 32, 32, 3), "uint8")).shape), model.count_params()
        ((1, 10), 807082)

    Reference: Sapkota & Bhattarai, "Dimension Mixer", 2023, Table V and the released code.
    """

    def __init__(
        self,
        image_size: int = 35,
        patch_sizes: Sequence[int] = (5, 7),
        num_classes: int | None = None,
        channels: int = 3,
        hidden_dim: int | None = None,
        num_layers: int = 7,
        expansion: int = 2,
        mean: Sequence[float] = HALVES,
        std: Sequence[float] = HALVES,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        config = collect_arguments(locals())
        sizes = config["patch_sizes"] = plain(list(patch_sizes))
        images, x = image_input(config, dtype, align_corners=True)
        if hidden_dim not in (None, channels):
            x = Dense(hidden_dim, dtype=dtype, name="pixel_embedding")(x)
        feature_maps = []
        for index in range(num_layers):
            x = PatchOnlyMixer(sizes, expansion, dtype=dtype, name=f"block_{index}")(x)
            feature_maps.append(x)
        x = keras.layers.Flatten(dtype=dtype, name="flatten")(x)
        logits = logits_of(x, config["num_classes"], dtype)
        super().__init__(images, logits, feature_maps, config, dtype=dtype, **kwargs)
