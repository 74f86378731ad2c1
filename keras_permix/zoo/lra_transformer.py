"""Define the Transformer encoder of the Long Range Arena, with any token mixer."""

from collections.abc import Sequence
from typing import Any, Self

import keras
from keras import ops

from keras_permix._typing import MixerSpecs, StrPath, Tensor
from keras_permix.layers.blocks.mixer_block import MixerBlock
from keras_permix.layers.embedding.grids import copy, nearest_on_grid
from keras_permix.layers.embedding.tokens import TokenEmbedding
from keras_permix.layers.mixers import CUSTOM, make_mixer, sized
from keras_permix.layers.parts.wrappers import make_dropout
from keras_permix.utils.checks import plain
from keras_permix.zoo.classifier import collect_arguments, logits_of, mixer_on_grid, pool_tokens
from keras_permix.zoo.registry import zoo_model
from keras_permix.zoo.sequence_classifier import SequenceClassifier, join_pairs, sequence_inputs

POOLINGS = ("cls", "mean", "max", "mean_of_length")
EPSILON = 1e-6


@zoo_model
class LRATransformer(SequenceClassifier):
    """Classify texts, pairs of texts or pixels with a Transformer encoder and any token mixer.

    Texts are a dict of "tokens", integers `(batch, tokens)`, and "mask", True at real tokens. Pairs
    of texts are `(batch, 2, tokens)`. Gray images `(batch, height, width, 1)` of 0–255 are resized
    to `image_size`, and the value of each pixel is a token id. The output is logits
    `(batch, num_classes)`.

    Padding changes the logits only with mixers that depend on the number of tokens:
    "butterfly_attention", "fourier", and "simple_attention" unless its `scale` is "valid".

    Args:
        vocabulary_size: Number of token ids; 257 for bytes.
        max_sequence_length: Largest number of tokens of a text.
        num_classes: Number of outputs. `None`: the number of `labels`, or 2.
        pairs: Whether the model takes two texts at once.
        image_size: Side of the images in pixels. `None`: the model takes texts. `from_preset` with
            another size repeats rows and columns of learned positions, as for Path-X.
        hidden_dim: Channels per token.
        inner_dim: Channels of values, queries and keys over all heads. `None`: `hidden_dim`.
        num_layers: Number of blocks.
        mlp_dim: Hidden width of the blocks' channel mixers.
        mixer: The token mixer; see `ViT`. The last group of CSP may be shorter.
        use_bias: Whether the projections of the mixers have biases.
        activation: Activation of the channel mixers: "gelu_tanh", "gelu" or "relu".
        norm_first: Whether to normalize before each mixer and after the last block (pre-norm), or
            after each residual sum (post-norm).
        positions: "sinusoid", "learned" or `None`; see `TokenEmbedding`.
        pooling: "cls" (the head reads a class token), "mean" or "max" over the real tokens, or
            "mean_of_length", their sum divided by `max_sequence_length`.
        head_dims: Widths of the hidden layers of the head, each with a ReLU. `None`: `mlp_dim`, for
            pairs followed by half of it.
        compare_pairs: Whether the head also reads the product and the difference of the vectors of
            the two texts.
        embedding_stddev: Standard deviation of the initial token embeddings.
        dropout: Rate of every dropout: after the embedding, in the mixers and in the MLPs.
        tokenizer: Path of a `tokenizer.json`, or its text. `None`: texts are read as bytes, with a
            `vocabulary_size` of 257.
        steps_image_size: The `image_size` for which the shift steps of the mixers were chosen. They
            are scaled to the rows and columns of this model; see `layers.embedding.grids`. `None`:
            `image_size`.
        dtype: Dtype or dtype policy of every layer, such as "mixed_bfloat16".

    Raises:
        ValueError: for an unknown argument or mixer, or a value out of range.

    Example:
        >>> from keras_permix.data import encode_bytes, pad_tokens
        >>> from keras_permix.zoo import LRATransformer
        >>> model = LRATransformer(max_sequence_length=16, hidden_dim=32, num_layers=2, mlp_dim=64,
        ...     mixer="slice_sort")
        >>> tuple(model(pad_tokens([encode_bytes("a text")], max_sequence_length=16)).shape)
        (1, 2)

    Reference: Tay et al., "Long Range Arena", 2020, and the released code. Yuan & Xu,
    "Sliceformer", 2023 (the text classifier with `norm_first=False`; there, dropout only follows
    mixers and MLPs). Sapkota & Bhattarai, "Dimension Mixer", 2023 ("butterfly_attention").
    """

    def __init__(
        self,
        vocabulary_size: int = 257,
        max_sequence_length: int = 4000,
        num_classes: int | None = None,
        pairs: bool = False,
        image_size: int | None = None,
        hidden_dim: int = 256,
        inner_dim: int | None = None,
        num_layers: int = 4,
        mlp_dim: int = 1024,
        mixer: MixerSpecs = "attention",
        use_bias: bool = False,
        activation: str = "gelu_tanh",
        norm_first: bool = True,
        positions: str | None = "sinusoid",
        pooling: str = "cls",
        head_dims: Sequence[int] | None = None,
        compare_pairs: bool = False,
        embedding_stddev: float = 1.0,
        dropout: float = 0.0,
        tokenizer: StrPath | None = None,
        steps_image_size: int | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        config = collect_arguments(locals(), pooling=POOLINGS)
        config["head_dims"] = None if head_dims is None else plain(list(head_dims))
        inputs, tokens, mask = sequence_inputs(config, dtype)
        embedding = TokenEmbedding(
            vocabulary_size,
            hidden_dim,
            config["max_sequence_length"],
            positions,
            use_class_token=pooling == "cls",
            stddev=embedding_stddev,
            dtype=dtype,
            name="embedding",
        )
        drop = make_dropout(dropout, dtype=dtype, name="embedding_dropout")
        x, mask = drop(embedding(tokens)), embedding.compute_mask(tokens, mask)
        feature_maps = _encode(x, mask, config, dtype)
        logits = _classify(feature_maps[-1], mask, config, dtype)
        super().__init__(inputs, logits, feature_maps, config, dtype=dtype, **kwargs)

    def transfer_weight(self, weight: Tensor, value: Tensor, source: Self) -> Tensor:
        """Resize learned positions to another number of pixels by repeating rows and columns."""
        if weight.path != "embedding/positions":
            return value
        old, new = (model.get_config()["image_size"] for model in (source, self))
        if not old or not new or old == new:
            return value
        first = int(self.get_config()["pooling"] == "cls")
        value = ops.convert_to_tensor(value)
        grown = copy(value[first:], nearest_on_grid(old, new), axis=0)
        return ops.concatenate([value[:first], grown], axis=0)


def _encode(x, mask, config, dtype):
    """Return the tokens after each block."""
    channels = config["inner_dim"] or config["hidden_dim"]
    cls_token, feature_maps = int(config["pooling"] == "cls"), []
    for index in range(config["num_layers"]):
        spec = mixer_on_grid(config, index, channels, cls_token)
        mixer = make_mixer(
            sized(spec, config["max_sequence_length"] + cls_token),
            index,
            config["num_layers"],
            ragged=mask is not None,
            inner_dim=config["inner_dim"],
            use_bias=config["use_bias"],
            dropout=config["dropout"],
            dtype=dtype,
            name="mixer",
        )
        block = MixerBlock(
            mixer,
            config["mlp_dim"],
            norm_first=config["norm_first"],
            mixer_dropout=config["dropout"] if spec["name"] == CUSTOM else 0.0,
            dropout=config["dropout"],
            hidden_dropout=config["dropout"],
            epsilon=EPSILON,
            activation=config["activation"],
            dtype=dtype,
            name=f"block_{index}",
        )
        x = block(x, mask=mask)
        feature_maps.append(x)
    return feature_maps


def _classify(x, mask, config, dtype):
    """Return the logits for tokens."""
    if config["norm_first"]:
        norm = keras.layers.LayerNormalization(epsilon=EPSILON, dtype=dtype, name="final_norm")
        x = norm(x)
    if config["pooling"] != "mean_of_length":
        x = pool_tokens(x, config["pooling"], mask)
    else:
        x = x if mask is None else x * ops.expand_dims(ops.cast(mask, x.dtype), axis=-1)
        x = ops.sum(x / config["max_sequence_length"], axis=1)
    if config["pairs"]:
        a, b = join_pairs(x)
        compared = [a * b, a - b] if config["compare_pairs"] else []
        x = ops.concatenate([a, b, *compared], axis=-1)
    dims = config["head_dims"]
    if dims is None:
        dims = [config["mlp_dim"], config["mlp_dim"] // 2][: 1 + config["pairs"]]
    for index, dim in enumerate(dims):
        x = keras.layers.Dense(dim, "relu", dtype=dtype, name=f"head_hidden_{index}")(x)
    return logits_of(x, config["num_classes"], dtype)
