"""Make the embedding, blocks, pooler and head of a BERT, with any attention or mixer."""

import keras
from keras import ops

from keras_permix.layers.attention.softmax_attention import SoftmaxAttention
from keras_permix.layers.blocks.mixer_block import MixerBlock
from keras_permix.layers.blocks.simple_attention_block import VARIANTS, SimpleAttentionBlock
from keras_permix.layers.embedding.positions import PositionEmbedding
from keras_permix.layers.mixers import make_mixer, mixer_at, sized
from keras_permix.layers.parts.masks import with_first
from keras_permix.layers.parts.wrappers import Embedding, make_dropout
from keras_permix.zoo.parts import logits_of
from keras_permix.zoo.sequence_classifier import join_pairs


def embed(inputs, tokens, mask, config, dtype):
    """Map token ids to normalized vectors and their mask. Add "segment_ids" to the inputs."""
    table = dict(
        output_dim=config["hidden_dim"],
        embeddings_initializer=keras.initializers.TruncatedNormal(stddev=0.02),
        dtype=dtype,
    )
    x = Embedding(config["vocabulary_size"], **table, name="token_embedding")(tokens)
    if config["num_segments"]:
        types = ops.zeros_like(tokens)
        if config["use_segments"]:
            types = keras.Input((None,), dtype="int32", name="segment_ids")
            inputs["segment_ids"] = types
        embedding = Embedding(config["num_segments"], **table, name="type_embedding")
        x = x + embedding(types)
    if config["use_class_token"]:
        mask = with_first(mask)
    position = PositionEmbedding(
        use_class_token=config["use_class_token"],
        max_tokens=config["max_sequence_length"],
        dtype=dtype,
        name="position_embedding",
    )
    norm = keras.layers.LayerNormalization(
        epsilon=config["layer_norm_epsilon"], dtype=dtype, name="embedding_norm"
    )
    dropout = make_dropout(config["dropout"], dtype=dtype, name="embedding_dropout")
    return dropout(norm(position(x))), mask


def make_block(config, index, dtype):
    heads, mlp_dim, dropout = config["num_heads"], config["mlp_dim"], config["dropout"]
    name, spec = f"block_{index}", mixer_at(config["mixer"], index)
    shared = dict(dropout=dropout, epsilon=config["layer_norm_epsilon"], dtype=dtype, name=name)
    softmax = config["variant"] == "softmax"
    if spec is None and not softmax:
        simple = {key: config[key] for key in ("variant", "scale")}
        return SimpleAttentionBlock(heads, mlp_dim, **simple, **shared)
    skips, projects = not softmax and VARIANTS[config["variant"]][1], True
    mixing = dict(dropout=dropout, dtype=dtype, name="attention")
    if spec is None:
        mixer = SoftmaxAttention(heads, use_qkv_bias=True, **mixing)
    else:
        longest = config["max_sequence_length"] + config["use_class_token"]
        spec, at = sized(spec, longest), (index, config["num_layers"])
        mixer = make_mixer(spec, *at, ragged=True, use_bias=True, **mixing)
        projects = getattr(mixer, "use_output_projection", True)
    return MixerBlock(
        mixer,
        mlp_dim,
        norm_first=False,
        extra_skip="block" if skips else None,
        mixer_dropout=0.0 if projects else dropout,  # Output projections include dropout.
        **shared,
    )


def classify(first, config, dtype):
    """Map token 0 to logits in float32."""
    if config["pooler"]:
        pooler = keras.layers.Dense(
            config["hidden_dim"], config["pooler"], dtype=dtype, name="pooler"
        )
        first = pooler(first)
    if config["pairs"]:
        one, other = join_pairs(first)
        first = ops.concatenate([one, other, ops.abs(one - other), one * other], axis=-1)
    first = make_dropout(config["dropout"], dtype=dtype, name="head_dropout")(first)
    return logits_of(first, config["num_classes"], dtype)
