"""Define the vision transformers of the CSP and Sliceformer papers, with any token mixer."""

from collections.abc import Sequence
from typing import Any, Self

import keras

from keras_permix._typing import DType, MixerSpecs, StrPath, Tensor
from keras_permix.layers.blocks.mixer_block import MixerBlock
from keras_permix.layers.embedding.images import PatchEmbedding
from keras_permix.layers.embedding.positions import RESIZINGS, PositionEmbedding, resize_table
from keras_permix.layers.mixers import CUSTOM, make_mixer
from keras_permix.layers.parts.wrappers import make_dropout
from keras_permix.zoo.classifier import (
    ImageClassifier,
    collect_arguments,
    image_input,
    logits_of,
    mixer_on_grid,
    pool_tokens,
)
from keras_permix.zoo.registry import zoo_model

POOLINGS = ("cls", "mean", "max")


@zoo_model
class ViT(ImageClassifier):
    """Classify images with a vision transformer and any token mixer.

    The input is images `(batch, height, width, channels)` of integers or floats of 0–255. The
    output is logits `(batch, num_classes)`. The model resizes images to `image_size` and normalizes
    them.

    Args:
        image_size: Side of the square images in pixels.
        patch_size: Side of a patch in pixels. It must divide `image_size`.
        num_classes: Number of outputs. `None`: the number of `labels`, or 10.
        channels: Channels of an image.
        hidden_dim: Channels per token.
        num_layers: Number of blocks.
        mlp_dim: Hidden width of the blocks' channel mixers.
        mixer: The token mixer, as a name of `keras_permix.layers.mixers.MIXERS` such as "csp", or a
            dict with that `"name"` and arguments of its layer. A Keras layer is copied per block
            through its config. A list has one mixer per block, and a function returns the mixer for
            the index of a block. `None`: the default of the class.
        pooling: "cls" (the head reads a class token), "mean" or "max" over the tokens.
        dropout: Rate of every dropout: after the embedding, in the mixers and in the MLPs.
        keep_unused_params: With "mean" or "max", keep the unused class token and its position, as
            the papers' models do. Their parameter counts include them.
        mean, std: Normalization per channel on the scale 0–1.
        steps_image_size: The `image_size`, with this `patch_size`, whose grid of patches the shift
            steps of the mixers were chosen for. They are scaled to the grid of this model; see
            `layers.embedding.grids`. `None`: `image_size`.
        layer_norm_epsilon: Epsilon of the layer normalizations.
        position_resizing: Method to resize the position table when weights for another number of
            patches are loaded: "bicubic", or "nearest", which repeats rows and columns.
        dtype: Dtype or dtype policy of every layer, such as "mixed_bfloat16".

    Raises:
        ValueError: for an unknown argument or mixer, a value out of range, an `image_size` that
            `patch_size` does not divide, or a number of tokens that the mixer does not support.

    Example:
        >>> import numpy as np
        >>> from keras_permix.zoo import CSPViT
        >>> model = CSPViT(image_size=32, patch_size=4, num_classes=10, hidden_dim=64, num_layers=2,
        ...     mlp_dim=64)
        >>> tuple(model(np.zeros((1, 32, 32, 3), "uint8")).shape)
        (1, 10)

    Reference: Yuan & Xu, "Channel-wise Sample Permutation", 2024, Table 3 and the released code.
    """

    default_mixer = "attention"

    def __init__(
        self,
        image_size: int = 32,
        patch_size: int = 4,
        num_classes: int | None = None,
        channels: int = 3,
        hidden_dim: int = 512,
        num_layers: int = 6,
        mlp_dim: int = 512,
        mixer: MixerSpecs | None = None,
        pooling: str = "mean",
        dropout: float = 0.0,
        keep_unused_params: bool = False,
        mean: Sequence[float] = (0.5, 0.5, 0.5),
        std: Sequence[float] = (0.5, 0.5, 0.5),
        steps_image_size: int | None = None,
        layer_norm_epsilon: float = 1e-5,
        position_resizing: str = "bicubic",
        dtype: DType = None,
        **kwargs: Any,
    ) -> None:
        config = collect_arguments(locals(), pooling=POOLINGS, position_resizing=RESIZINGS)
        cls_token, norm = pooling == "cls", dict(epsilon=layer_norm_epsilon, dtype=dtype)
        images, x = image_input(config, dtype)
        patches = PatchEmbedding(patch_size, hidden_dim, dtype=dtype, name="patch_embedding")
        positions = PositionEmbedding(
            cls_token, keep_unused_params, dtype=dtype, name="position_embedding"
        )
        drop = make_dropout(dropout, dtype=dtype, name="embedding_dropout")
        x = drop(positions(patches(x)))
        mlp = dict(dropout=dropout, hidden_dropout=dropout, **norm)
        feature_maps = []
        for index in range(num_layers):
            spec = mixer_on_grid(config, index, hidden_dim, extra=int(cls_token))
            layer = make_mixer(spec, index, num_layers, dropout=dropout, dtype=dtype, name="mixer")
            after = dropout if spec["name"] == CUSTOM else 0.0
            x = MixerBlock(layer, mlp_dim, mixer_dropout=after, **mlp, name=f"block_{index}")(x)
            feature_maps.append(x)
        x = pool_tokens(x, pooling)
        x = keras.layers.LayerNormalization(**norm, name="head_norm")(x)
        logits = logits_of(x, config["num_classes"], dtype)
        super().__init__(images, logits, feature_maps, config, dtype=dtype, **kwargs)

    @classmethod
    def from_timm(
        cls,
        path: StrPath,
        num_heads: int | None = None,
        num_classes: int | None = None,
        **arguments: Any,
    ) -> Self:
        """Build a model with the weights of a vision transformer of timm.

        To replace attention afterwards, use `swap_mixer`.

        Args:
            path: `model.safetensors` with timm's names, or its folder. A `config.json` beside it
                gives the mean and standard deviation of images (default 0.5), the number of heads
                and the pooling. It must describe a network that this class can build.
            num_heads: Number of heads. `None`: that of the configuration, or of ViT-Ti, S, B or L
                for the widths 192, 384, 768 and 1024.
            num_classes: Number of logits. `None`: as in the file. Another number gives a head of
                zeros.
            **arguments: Other arguments of the class, except sizes, mixer and pooling.

        Returns:
            A `ViT` with attention.

        Raises:
            ImportError: if the package `safetensors` is absent.
            FileNotFoundError: for a missing file.
            ValueError: for a damaged file, tensors or a configuration of another network (such as
                one with registers, layer scales or normalized queries), or a class other than ViT.

        Reference: Wightman, PyTorch Image Models, `timm/models/vision_transformer.py`.
        """
        from keras_permix.zoo.convert.timm import make_model, read_vit

        if cls is not ViT:
            rule = "`from_timm` must be called on ViT. To replace its mixers, use `swap_mixer`"
            raise ValueError(f"{rule}. Received: {cls.__name__}.from_timm")
        return make_model(cls, read_vit(path, num_heads), num_classes, arguments)

    def transfer_weight(self, weight: Tensor, value: Tensor, source: Self) -> Tensor:
        """Resize the position table like an image to another number of patches."""
        here, there = (model.get_layer("position_embedding") for model in (self, source))
        if weight is not here.table:
            return super().transfer_weight(weight, value, source)
        return resize_table(value, there, here, self.get_config()["position_resizing"])


@zoo_model
class CSPViT(ViT):
    """Classify images with a `ViT` that mixes tokens by `CSP` instead of attention.

    Example:
        >>> import numpy as np
        >>> from keras_permix.zoo import CSPViT
        >>> model = CSPViT.from_preset("test", num_classes=5)
        >>> tuple(model(np.zeros((1, 8, 8, 3), "uint8")).shape)
        (1, 5)
    """

    default_mixer = "csp"


@zoo_model
class SliceViT(ViT):
    """Classify images with a `ViT` that sorts every channel instead of attention."""

    default_mixer = "slice_sort"
