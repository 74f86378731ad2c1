"""Define the vision transformer of the Dimension Mixer paper, which mixes blocks of tokens."""

from collections.abc import Sequence
from typing import Any, Self

import keras

from keras_permix._typing import MixerSpec, Tensor
from keras_permix.layers.blocks.mixer_block import MixerBlock
from keras_permix.layers.butterfly.butterfly_block import ButterflyBlock
from keras_permix.layers.embedding.images import PatchEmbedding
from keras_permix.layers.mixers import check_mixer_or_none, make_mixer, mixer_at
from keras_permix.layers.mixing.baselines import RandomOrder
from keras_permix.zoo.classifier import (
    ImageClassifier,
    collect_arguments,
    image_input,
    logits_of,
    mixer_on_grid,
)
from keras_permix.zoo.registry import zoo_model


@zoo_model
class ButterflyViT(ImageClassifier):
    """Classify images with Transformer layers within the blocks of a butterfly.

    The input is images `(batch, height, width, channels)` of integers or floats of 0–255, which the
    model resizes and normalizes. Layer `i` splits the tokens into blocks by stage `i` of the
    butterfly and applies a post-norm Transformer layer to each block. There are no position
    embeddings. The head reads all features of all tokens and outputs logits `(batch, num_classes)`.

    The head depends on `image_size`. With a larger `image_size`, `from_preset` copies the head
    weights of the nearest old patch and divides them by the number of copies. With a smaller one,
    it sums them.

    Args:
        image_size: Side of the square images in pixels.
        patch_size: Side of a patch in pixels. It must divide `image_size`.
        num_classes: Number of outputs. `None`: the number of `labels`, or 10.
        channels: Channels of an image.
        hidden_dim: Channels per token.
        num_layers: Number of layers.
        num_heads: Number of heads of mixers with heads. It must divide `hidden_dim`.
        mlp_dim: Hidden width of the layers' channel mixers.
        block_size: Tokens per block. It must divide the number of tokens; if equal, the model
            is a plain Transformer. `None`: the number of patches along a side of the image, so
            that two layers mix all tokens.
        mixer: The token mixer within a block: a name of `keras_permix.layers.mixers.MIXERS`, a dict
            with that `"name"` and arguments of its layer, or a list of these, one per layer.
            `None`: softmax attention.
        random_order: Seed of a random order of the patches, the same for all images, as a control.
            `None`: row order.
        mean, std: Normalization per channel on the scale 0–1.
        steps_image_size: The `image_size`, with this `patch_size`, whose grid of patches the shift
            steps of the mixers were chosen for. With `block_size=None` and without `random_order`,
            they are scaled to the blocks of this model; see `layers.embedding.grids`. `None`:
            `image_size`.
        dtype: Dtype or dtype policy of every layer, such as "mixed_bfloat16".

    Raises:
        ValueError: for an unknown argument, a value out of range, or sizes that do not divide each
            other.

    Example:
        >>> import numpy as np
        >>> from keras_permix.zoo import ButterflyViT
        >>> model = ButterflyViT(image_size=32, patch_size=4, num_classes=10, hidden_dim=128,
        ...     num_layers=4)
        >>> tuple(model(np.zeros((1, 32, 32, 3), "uint8")).shape), model.count_params()
        ((1, 10), 618122)

    Reference:
        Sapkota & Bhattarai, "Dimension Mixer", 2023, Tables III and VII and the released code.
    """

    def __init__(
        self,
        image_size: int = 32,
        patch_size: int = 4,
        num_classes: int | None = None,
        channels: int = 3,
        hidden_dim: int = 128,
        num_layers: int = 4,
        num_heads: int = 8,
        mlp_dim: int = 256,
        block_size: int | None = None,
        mixer: MixerSpec | Sequence[MixerSpec | None] | None = None,
        random_order: int | None = None,
        mean: Sequence[float] = (0.5, 0.5, 0.5),
        std: Sequence[float] = (0.5, 0.5, 0.5),
        steps_image_size: int | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        config = collect_arguments(locals(), check_mixer_or_none)
        images, x = image_input(config, dtype)
        x = PatchEmbedding(patch_size, hidden_dim, dtype=dtype, name="patch_embedding")(x)
        if random_order is not None:
            x = RandomOrder(random_order, dtype=dtype, name="random_order")(x)
        size = image_size // patch_size if block_size is None else block_size
        feature_maps = []
        for index in range(num_layers):
            spec = mixer_at(config["mixer"], index)
            if block_size is None and random_order is None:
                spec = mixer_on_grid(config, index, hidden_dim, rows=1)
            layer = make_mixer(
                spec or "attention",
                index,
                num_layers,
                num_heads=num_heads,
                use_bias=True,
                dtype=dtype,
                name="mixer",
            )
            block = MixerBlock(layer, mlp_dim, norm_first=False, dtype=dtype, name="transformer")
            x = ButterflyBlock(block, size, index, dtype=dtype, name=f"block_{index}")(x)
            feature_maps.append(x)
        x = keras.layers.Flatten(dtype=dtype, name="flatten")(x)
        logits = logits_of(x, config["num_classes"], dtype)
        super().__init__(images, logits, feature_maps, config, dtype=dtype, **kwargs)

    def transfer_weight(self, weight: Tensor, value: Tensor, source: Self) -> Tensor:
        """Resize the head to another number of patches, unless their order is random."""
        resized = super().transfer_weight(weight, value, source)
        order = self.get_config()["random_order"]
        if weight.path == "head/kernel" and resized is not value and order is not None:
            raise ValueError(
                "`random_order` must be None for another number of patches, except with another "
                f"`num_classes` or `load_weights=False`. Received: random_order={order}"
            )
        return resized
