"""Define MEGA: gated attention, or a permutation, over a moving average of tokens."""

from collections.abc import Sequence
from typing import Any, Self

import keras
import numpy as np
from keras import ops

from keras_permix._typing import MixerSpec, MixerSpecs, StrPath, Tensor
from keras_permix.layers.embedding.grids import resize_distances
from keras_permix.layers.mega.mega_block import MegaBlock, check_mega_mixer, make_mega_mixer
from keras_permix.layers.mega.mega_feed_forward import make_norm, normalize
from keras_permix.layers.parts.wrappers import Dense, Embedding, make_dropout
from keras_permix.ops.backend import running
from keras_permix.ops.reference.linear import full_precision
from keras_permix.zoo.arrays import check_indices
from keras_permix.zoo.classifier import collect_arguments, logits_of, mixer_on_grid, pool_tokens
from keras_permix.zoo.registry import zoo_model
from keras_permix.zoo.sequence_classifier import SequenceClassifier, join_pairs, sequence_inputs

# Names of the layers from pooled tokens to logits.
HEAD = ("classifier", "classifier_dropout", "classifier_activation", "head", "logits")


@zoo_model
class MEGA(SequenceClassifier):
    """Classify long sequences by attention, or a permutation, over a moving average.

    Texts are a dict of "tokens", integers `(batch, tokens)`, and "mask", True at real tokens. Pairs
    of texts are `(batch, 2, tokens)`. Gray images `(batch, height, width, 1)` of 0–255 are resized
    to `image_size` and read pixel by pixel. The output is logits `(batch, num_classes)`. Padding
    does not change the logits.

    Args:
        vocabulary_size: Number of token ids, including padding; 257 for bytes.
        max_sequence_length: Largest number of tokens of a text. For images it is the number of
            pixels.
        num_classes: Number of outputs. `None`: the number of `labels`, or 2.
        pairs: Whether inputs are pairs of texts.
        image_size: Side of the square images in pixels. `None`: the model takes texts. With another
            size, `from_preset` resizes position biases by distances along rows and columns.
        mean, std: Normalization of pixels on the scale 0–1, one value each.
        hidden_dim: Channels per token.
        inner_dim: Width of the mixed values. `None`: twice `hidden_dim`.
        shared_dim: Width of the shared projection for queries and keys.
        mlp_dim: Hidden width of the feed-forward layers. `None`: `inner_dim`.
        classifier_dim: Hidden width of the head. `None`: `inner_dim`.
        ema_dim: Number of decays per channel of the moving averages.
        num_layers: Number of blocks.
        norm: "layernorm", "scalenorm", "rmsnorm" or "batchnorm".
        norm_first: Whether to normalize before both halves of a block and after the last block, or
            after both halves.
        mixer: An attention function, "softmax", "laplace" or "relu2", or a permutation of the
            values, a name of `keras_permix.layers.mixers.MIXERS` such as "csp". A dict has that
            `"name"` and arguments of its layer. A list has one mixer per block. The last group of
            CSP may be shorter. `None`: the default of the class.
        chunk_size: Number of tokens per chunk of attention. The last chunk of a text may be
            shorter. It requires a block with attention. `None`: attend to all tokens.
        truncation: Number of tokens of the moving average in each direction. `None`: all.
        position_bias: "simple" or "rotary"; see `keras_permix.layers.MegaBlock`.
        causal: Whether tokens depend only on earlier tokens. It requires an attention function.
        dropout: Rate of the dropouts of the embedding, the averages, the hidden values, the
            outputs and the head.
        hidden_dropout: Rate of the dropouts of the values and within the feed-forward layers.
        attention_dropout: Rate of the dropout of the attention maps.
        keep_unused_params: With a permutation, keep the unused weights of attention, as the
            released code of CSP does.
        tokenizer: See `LRATransformer`.
        steps_image_size: See `ViT`. A pixel is a patch.
        dtype: Dtype or dtype policy of every layer, such as "mixed_bfloat16".

    Raises:
        ValueError: for an unknown argument or mixer, a value out of range, or sizes that do not
            match.

    Example:
        >>> import numpy as np
        >>> from keras_permix.data import encode_bytes, pad_tokens
        >>> from keras_permix.zoo import MEGA
        >>> model = MEGA(num_classes=3, max_sequence_length=64, hidden_dim=16, num_layers=2,
        ...     mixer="laplace")
        >>> texts = pad_tokens([encode_bytes("a cat"), encode_bytes("a black cat")], 64)
        >>> tuple(model(texts).shape)
        (2, 3)

    Reference: Ma et al., "Mega", 2022, and the released code. Yuan & Xu, "Channel-wise Sample
    Permutation", 2024 (CSP as mixer).
    """

    default_mixer: MixerSpec = "softmax"

    def __init__(
        self,
        vocabulary_size: int = 257,
        max_sequence_length: int = 4096,
        num_classes: int | None = None,
        pairs: bool = False,
        image_size: int | None = None,
        mean: Sequence[float] = (0.5,),
        std: Sequence[float] = (0.5,),
        hidden_dim: int = 128,
        inner_dim: int | None = None,
        shared_dim: int = 64,
        mlp_dim: int | None = None,
        classifier_dim: int | None = None,
        ema_dim: int = 16,
        num_layers: int = 4,
        norm: str = "layernorm",
        norm_first: bool = True,
        mixer: MixerSpecs | None = None,
        chunk_size: int | None = None,
        truncation: int | None = None,
        position_bias: str = "simple",
        causal: bool = False,
        dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        attention_dropout: float = 0.0,
        keep_unused_params: bool = False,
        tokenizer: StrPath | None = None,
        steps_image_size: int | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        config = collect_arguments(locals(), check_mega_mixer)
        if image_size and chunk_size and image_size**2 % min(chunk_size, image_size**2):
            rule = "`chunk_size` must divide `image_size`**2"  # Pixels have no padding.
            raise ValueError(f"{rule}. Received: {chunk_size=}, {image_size=}")
        inputs, tokens, mask = sequence_inputs(config, dtype)
        hidden_dim, inner_dim = config["hidden_dim"], config["inner_dim"]
        normal, embedding = keras.initializers.RandomNormal, dict(dtype=dtype, name="embedding")
        if mask is None:
            kernel = dict(kernel_initializer=normal(0, 1), bias_initializer=normal(0, 0.1))
            x = Dense(hidden_dim, **kernel, **embedding)(ops.expand_dims(tokens, -1))
        else:
            table, size = normal(0, hidden_dim**-0.5), config["vocabulary_size"]
            x = Embedding(size, hidden_dim, table, **embedding)(tokens)
        x = make_dropout(dropout, dtype=dtype, name="embedding_dropout")(x)
        x = x if mask is None else x * ops.cast(ops.expand_dims(mask, -1), x.dtype)
        feature_maps = []
        for index in range(num_layers):
            x = _make_block(config, index, dtype)(x, mask=mask)
            feature_maps.append(x)
        if norm_first:
            x = normalize(make_norm(norm, dtype=dtype, name="norm"), x, mask)
        x = pool_tokens(ops.cast(x, full_precision(x.dtype)), "mean", mask)
        if pairs:
            x = ops.concatenate(join_pairs(x), axis=-1)
        width = config["classifier_dim"] or inner_dim or 2 * hidden_dim
        x = Dense(width, dtype=dtype, name="classifier")(x)
        x = make_dropout(dropout, dtype=dtype, name="classifier_dropout")(x)
        x = keras.layers.Activation("gelu", dtype=dtype, name="classifier_activation")(x)
        logits = logits_of(x, config["num_classes"], dtype, use_bias=False)
        super().__init__(inputs, logits, feature_maps, config, dtype=dtype, **kwargs)

    def transfer_weight(self, weight: Tensor, value: Tensor, source: Self) -> Tensor:
        """Resize position biases to another image size by distances along rows and columns."""
        if not weight.path.endswith("/bias_table"):
            return value
        old, new = (model.get_config()["image_size"] for model in (source, self))
        if not old or not new:
            return value
        if value.shape[0] != 2 * old**2 - 1 or weight.shape[0] != 2 * new**2 - 1:
            return value  # biases within chunks
        distances = resize_distances((old, old), (new, new))
        return ops.take(ops.convert_to_tensor(value), distances + old**2 - 1)

    def initial_state(self, batch_size: int) -> dict[str, Any]:
        """Return the state of a causal model before the first token.

        Args:
            batch_size: Number of texts.

        Returns:
            Nested tensors with constant shapes and dtypes. Their first axis is the batch, except
            for every "position", the number of tokens read.

        Raises:
            ValueError: for a model of pairs or images, a model that is not causal, or one with
                `truncation`.
        """
        config = self.get_config()
        if (kind := self.input_kind(config)) != "text":
            raise ValueError(f"`initial_state` requires single texts. Received: {kind} inputs")
        blocks = [block.initial_state(batch_size) for block in self._blocks()]
        total = ops.zeros((batch_size, config["hidden_dim"]), full_precision(self.compute_dtype))
        return {"blocks": blocks, "total": total, "position": np.int32(0)}

    def step(self, tokens: Any, state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Read one token of each text, as `chunk` does.

        Args:
            tokens: Integers `(batch,)`.
            state: State from `initial_state` or the previous call.

        Returns:
            `(outputs, state)` as in `chunk`, with "features" of shape `(batch, hidden_dim)`.
        """
        tokens = tokens if ops.is_tensor(tokens) else np.asarray(tokens)
        outputs, state = self.chunk(tokens[:, None], state)
        return {**outputs, "features": outputs["features"][:, 0]}, state

    def chunk(self, tokens: Any, state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Read several tokens of each text, without padding.

        Time and memory per token depend on `chunk_size` or, without it, on `max_sequence_length`.
        With `chunk_size`, a text may be longer than `max_sequence_length`.

        Args:
            tokens: Integers `(batch, tokens)`.
            state: State from `initial_state` or the previous call.

        Returns:
            `(outputs, state)`: a dict of "features", the outputs of the last block for these
            tokens, `(batch, tokens, hidden_dim)`, and "logits" of the texts so far; and the next
            state.

        Raises:
            ValueError: for no tokens, tokens out of range, or more than `max_sequence_length`
                tokens without `chunk_size`.

        Example:
            >>> import numpy as np
            >>> from keras_permix.zoo import MEGA
            >>> model = MEGA(max_sequence_length=64, hidden_dim=16, num_layers=2, chunk_size=16,
            ...     causal=True)
            >>> outputs, state = model.chunk(np.array([[72, 105]]), model.initial_state(1))
            >>> outputs, state = model.step(np.array([33]), state)
            >>> tuple(outputs["features"].shape), tuple(outputs["logits"].shape)
            ((1, 16), (1, 2))
        """
        if not ops.is_tensor(tokens) or running.has_data(tokens):
            tokens = ops.convert_to_numpy(tokens)
            check_indices("tokens", tokens, self._zoo_config["vocabulary_size"])
        if len(tokens.shape) != 2 or tokens.shape[1] == 0:
            raise ValueError(f"`tokens` must be (batch, tokens). Received: shape={tokens.shape}")
        x, states = self.get_layer("embedding")(ops.convert_to_tensor(tokens)), []
        for block, before in zip(self._blocks(), state["blocks"], strict=True):
            x, after = block.chunk(x, before)
            states.append(after)
        normed = self.get_layer("norm")(x) if self._zoo_config["norm_first"] else x
        total = state["total"] + ops.sum(ops.cast(normed, full_precision(normed.dtype)), axis=1)
        position = state["position"] + tokens.shape[1]
        logits = total / ops.cast(position, total.dtype)
        for name in (*HEAD, "values") if self.predicts == "values" else HEAD:
            logits = self.get_layer(name)(logits)
        state = {"blocks": states, "total": ops.stop_gradient(total), "position": position}
        return {"features": x, "logits": logits}, state

    def _blocks(self):
        return [self.get_layer(f"block_{i}") for i in range(self._zoo_config["num_layers"])]


@zoo_model
class CSPMEGA(MEGA):
    """Classify long sequences with a `MEGA` that mixes tokens by `CSP` instead of attention.

    By default it sorts each channel completely (`group_size=None`).
    """

    default_mixer = {"name": "csp", "group_size": None}


def _make_block(config, index, dtype):
    at, ragged = (index, config["num_layers"]), not config["image_size"]
    inner = config["inner_dim"] or 2 * config["hidden_dim"]
    mixer = mixer_on_grid(config, index, inner)
    of_attention = ("position_bias", "max_sequence_length", "chunk_size")
    attention = {name: config[name] for name in of_attention}
    if isinstance(config["mixer"], list) and not isinstance(mixer, str):
        attention["chunk_size"] = None  # applies only to blocks with attention
    attention |= {"ragged": ragged, "dropout": config["attention_dropout"]}
    same = ("inner_dim", "shared_dim", "mlp_dim", "causal", "norm", "norm_first")
    return MegaBlock(
        **{name: config[name] for name in (*same, "dropout", "hidden_dropout")},
        mixer=make_mega_mixer(mixer, *at, ragged, dtype=dtype, name="mixer"),
        average={"ema_dim": config["ema_dim"], "truncation": config["truncation"]},
        attention=attention,
        drop_unused=not config["keep_unused_params"],
        dtype=dtype,
        name=f"block_{index}",
    )
