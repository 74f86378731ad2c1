"""Define SimpleTRON, a BERT encoder with softmax or linear attention."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import keras
from keras import ops

from keras_permix._typing import MixerSpec
from keras_permix.layers.blocks.mixer_block import MixerBlock
from keras_permix.layers.blocks.simple_attention_block import VARIANTS as SIMPLE_VARIANTS
from keras_permix.layers.blocks.simple_attention_block import SimpleAttentionBlock
from keras_permix.layers.embedding.positions import PositionEmbedding
from keras_permix.layers.mixers import CUSTOM, check_mixer_or_none, make_mixer, mixer_at, sized
from keras_permix.layers.parts.masks import with_first
from keras_permix.layers.parts.wrappers import Embedding, make_dropout
from keras_permix.ops.simple_attention import SCALES
from keras_permix.zoo.classifier import collect_arguments, logits_of, pool_tokens
from keras_permix.zoo.presets.transfer import remake
from keras_permix.zoo.registry import zoo_model
from keras_permix.zoo.sequence_classifier import SequenceClassifier, join_pairs, sequence_inputs

VARIANTS = ("softmax", *SIMPLE_VARIANTS)
POOLERS = ("tanh", "relu", None)
# Arguments that the configuration of a BERT sets.
BERT_ARGUMENTS = (
    "vocabulary_size", "num_segments", "hidden_dim", "num_heads", "mlp_dim", "layer_norm_epsilon"
)  # fmt: skip


@zoo_model
class SimpleTRON(SequenceClassifier):
    """Classify texts with a BERT whose attention is linear in the number of tokens.

    Embeddings of tokens, positions and token types are summed and normalized. Post-norm blocks
    follow, and a pooler and a head read token 0. With `variant="softmax"` and the defaults this is
    BERT, with the same weights as "simple_l" and "simple_resl".

    The input is a dict of "tokens" and "mask", `(batch, tokens)`, or texts, which `encode` pads to
    `max_sequence_length`. Padding is never attended to. With softmax, padding does not change the
    logits. Without softmax, `scale` selects whether the logits depend on the padded length.

    With `pairs`, the two texts of a pair are separate sequences, as for matching documents. With
    `use_segments`, they are one sequence, as BERT reads two sentences.

    Args:
        vocabulary_size: Number of token ids; 257 for bytes.
        max_sequence_length: Largest number of tokens of a sequence, without the class token.
        num_classes: Number of outputs. `None`: the number of `labels`, or 2.
        hidden_dim: Channels per token.
        num_layers: Number of blocks.
        num_heads: Number of heads of attention and of mixers with heads. It must divide
            `hidden_dim`.
        mlp_dim: Hidden width of the blocks' channel mixers.
        variant: "softmax" for the attention of BERT, or "simple", "simple_l", "simple_res" or
            "simple_resl"; see `SimpleAttentionBlock`.
        mixer: A name, a dict or a list as for `ViT`, to replace attention. `None`: attention.
        scale: Divisor of simple attention. "length" is the square root of the padded length.
            "valid" is the square root of the number of real tokens, so that padding does not
            matter. `None`: no divisor.
        num_segments: Number of token types. `None`: no token types.
        use_segments: Whether to join pairs of texts in one sequence, with a third input
            "segment_ids".
        pairs: Whether inputs are pairs `(batch, 2, tokens)` of separate sequences. The head reads
            both vectors, their absolute difference and their product.
        use_class_token: Whether to prepend a learned class token, for vocabularies without one,
            such as bytes.
        pooler: Activation of a dense layer on token 0, before the head: "tanh", or "relu" as in the
            Long Range Arena. `None`: no pooler.
        dropout: Rate of every dropout.
        layer_norm_epsilon: Epsilon of the layer normalizations.
        tokenizer: See `LRATransformer`.
        dtype: Dtype or dtype policy of every layer, such as "mixed_bfloat16".

    Raises:
        ValueError: for an unknown argument or a value out of range.

    Example:
        >>> from keras_permix.zoo import SimpleTRON
        >>> model = SimpleTRON(257, 64, hidden_dim=32, num_layers=2, num_heads=4, mlp_dim=64)
        >>> model.predict(["a text", "another"], verbose=0).shape
        (2, 2)

    Reference: Yorsh et al., "SimpleTRON", 2022. Devlin et al., "BERT", 2018. Conneau et al.,
    "Supervised Learning of Universal Sentence Representations", 2017 (the head for pairs).
    """

    def __init__(
        self,
        vocabulary_size: int = 30522,
        max_sequence_length: int = 512,
        num_classes: int | None = None,
        hidden_dim: int = 768,
        num_layers: int = 12,
        num_heads: int = 12,
        mlp_dim: int = 3072,
        variant: str = "simple_resl",
        mixer: MixerSpec | Sequence[MixerSpec | None] | None = None,
        scale: str | None = "length",
        num_segments: int | None = 2,
        use_segments: bool = False,
        pairs: bool = False,
        use_class_token: bool = False,
        pooler: str | None = "tanh",
        dropout: float = 0.1,
        layer_norm_epsilon: float = 1e-12,
        tokenizer: str | Path | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        config = collect_arguments(
            locals(), check_mixer_or_none, variant=VARIANTS, scale=SCALES, pooler=POOLERS
        )
        if use_segments and (pairs or not num_segments):
            rule = "`use_segments` must be False without `num_segments` or with `pairs`"
            raise ValueError(f"{rule}. Received: {use_segments=}, {num_segments=}, {pairs=}")
        inputs, tokens, mask = sequence_inputs(config, dtype)
        hidden_dim, num_segments = config["hidden_dim"], config["num_segments"]
        norm = dict(epsilon=layer_norm_epsilon, dtype=dtype)
        normal = partial(keras.initializers.TruncatedNormal, stddev=0.02)
        embed = partial(Embedding, output_dim=hidden_dim, dtype=dtype)
        x = embed(
            config["vocabulary_size"], embeddings_initializer=normal(), name="token_embedding"
        )(tokens)
        if num_segments:
            types = ops.zeros_like(tokens)
            if use_segments:
                types = keras.Input((None,), dtype="int32", name="segment_ids")
                inputs["segment_ids"] = types
            x = x + embed(num_segments, embeddings_initializer=normal(), name="type_embedding")(
                types
            )
        mask = with_first(mask) if use_class_token else mask
        length = dict(max_tokens=max_sequence_length, dtype=dtype)
        position = PositionEmbedding(use_class_token, **length, name="position_embedding")
        embedding_norm = keras.layers.LayerNormalization(**norm, name="embedding_norm")
        drop = make_dropout(dropout, dtype=dtype, name="embedding_dropout")
        x = drop(embedding_norm(position(x)))
        feature_maps = []
        for index in range(num_layers):
            x = _make_block(config, index, norm)(x, mask=mask)
            feature_maps.append(x)
        x = pool_tokens(x, "cls")
        if pooler:
            x = keras.layers.Dense(hidden_dim, pooler, dtype=dtype, name="pooler")(x)
        if pairs:
            one, other = join_pairs(x)
            x = ops.concatenate([one, other, ops.abs(one - other), one * other], axis=-1)
        x = make_dropout(dropout, dtype=dtype, name="head_dropout")(x)
        logits = logits_of(x, config["num_classes"], dtype)
        super().__init__(inputs, logits, feature_maps, config, dtype=dtype, **kwargs)

    @classmethod
    def from_bert(
        cls,
        folder: str | Path,
        num_classes: int | None = None,
        variant: str = "simple_resl",
        num_layers: int | None = None,
        max_sequence_length: int | None = None,
        **arguments: Any,
    ) -> Self:
        """Build a model with the weights of a trained BERT.

        The model takes the embeddings, the blocks and the pooler, if there is one. Its head is new.
        A variant without an output projection omits that of BERT. To replace attention afterwards,
        use `swap_mixer`.

        Args:
            folder: Folder with `config.json`, `model.safetensors` (names as in PyTorch's BERT) and,
                for texts, `tokenizer.json`, or `vocab.txt` and `tokenizer_config.json`.
            num_classes: Number of outputs. `None`: the number of `labels`, or 2.
            variant: See the class.
            num_layers: Number of layers to keep, from the first. `None`: all.
            max_sequence_length: Largest number of tokens. `None`: all positions.
            **arguments: Other arguments of the class, except the sizes of BERT, `use_class_token`
                and `mixer`.

        Returns:
            A model of this class.

        Raises:
            ImportError: if the package `safetensors` is absent, or `tokenizers` for a `vocab.txt`.
            FileNotFoundError: for a missing file.
            ValueError: for tensors that are missing, unknown or of another shape, or a wrong
                argument.
        """
        if wrong := {"use_class_token", "mixer", *BERT_ARGUMENTS} & arguments.keys():
            rule = "`arguments` must not contain sizes of BERT, `use_class_token` or `mixer`"
            raise ValueError(f"{rule}. Received: {sorted(wrong)}")
        from keras_permix.zoo.convert.bert import read_bert

        sizes, weights = read_bert(folder, num_layers, max_sequence_length)
        given = {"num_classes": num_classes, "variant": variant, **arguments}
        model = cls(**{**sizes, **given})
        for weight in model.weights:
            if weight.path in weights:
                weight.assign(weights[weight.path].astype("float32"))
        return model

    def with_variant(self, variant: str, freeze: bool = False) -> Self:
        """Return a model of another variant with the weights of this one.

        Blocks with a `mixer` keep it, and their skip connections follow the variant.

        Args:
            variant: See the class. An output projection that this model lacks gets new weights.
            freeze: Whether to freeze the projections to queries, keys and values.

        Returns:
            A new model of this class. Frozen layers stay frozen.

        Raises:
            ValueError: for an unknown name, if all blocks have a `mixer`, or if the new model lacks
                weights of this one, such as LoRA or an output projection.

        Example:
            >>> from keras_permix.zoo import SimpleTRON
            >>> model = SimpleTRON.from_preset("test").with_variant("softmax", freeze=True)
            >>> [weight.path for weight in model.non_trainable_weights]
            ['block_0/attention/qkv/kernel', 'block_0/attention/qkv/bias']

        Reference: Yorsh et al., "SimpleTRON", 2022.
        """
        mixer = self.get_config()["mixer"]
        if None not in (mixer if isinstance(mixer, list) else [mixer]):
            raise ValueError(f"`mixer` must be None, at least in one block. Received: {mixer=}")
        model = remake(self, {"variant": variant, "name": None, "trainable": True})
        if lost := {w.path for w in self.weights} - {w.path for w in model.weights}:
            raise ValueError(
                f"`variant` must keep all weights. Received: {variant=} without {sorted(lost)[:4]}"
            )
        for layer in model.layers:
            if freeze and isinstance(layer, MixerBlock) and hasattr(layer.mixer, "qkv_dense"):
                layer.mixer.qkv_dense.trainable = False
        return model


def _make_block(config, index, norm):
    heads, mlp_dim, dropout = config["num_heads"], config["mlp_dim"], config["dropout"]
    shared, dtype = dict(dropout=dropout, **norm, name=f"block_{index}"), norm["dtype"]
    spec, softmax = mixer_at(config["mixer"], index), config["variant"] == "softmax"
    if spec is None and not softmax:
        simple = {key: config[key] for key in ("variant", "scale")}
        return SimpleAttentionBlock(heads, mlp_dim, **simple, **shared)
    skips = not softmax and SIMPLE_VARIANTS[config["variant"]][1]
    spec = sized(
        spec or {"name": "attention"}, config["max_sequence_length"] + config["use_class_token"]
    )
    mixer = make_mixer(
        spec,
        index,
        config["num_layers"],
        num_heads=heads,
        use_bias=True,
        ragged=True,
        dropout=dropout,
        dtype=dtype,
        name="attention",
    )
    drops = spec["name"] != CUSTOM and getattr(mixer, "use_output_projection", True)
    return MixerBlock(
        mixer,
        mlp_dim,
        norm_first=False,
        extra_skip="block" if skips else None,
        mixer_dropout=0.0 if drops else dropout,  # Output projections include dropout.
        **shared,
    )
