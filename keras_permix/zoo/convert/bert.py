"""Read the sizes, weights and tokenizer of a BERT in the format of PyTorch libraries."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from keras_permix.data.text.tokenizer import TOKENIZER_FILE, tokenizer_text, wordpiece_tokenizer
from keras_permix.zoo.convert.tensors import read_tensors, weights_of
from keras_permix.zoo.presets.folder import parse_json

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
WORDS_FILE, WORDS_CONFIG_FILE = "vocab.txt", "tokenizer_config.json"
ADDED_FILE = "added_tokens.json"
# Arguments of `wordpiece_tokenizer` by their names in `tokenizer_config.json`.
NORMALIZER = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "split_chinese",
}
# Values of its other keys that are supported.
READ_AS: dict[str, tuple] = {
    "tokenizer_class": (None, "BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast"),
    "do_basic_tokenize": (None, True),
    "never_split": (None, []),
    "padding_side": (None, "right"),
    "truncation_side": (None, "right"),
    "unk_token": (None, "[UNK]"),
    "cls_token": (None, "[CLS]"),
    "sep_token": (None, "[SEP]"),
}
# Names in `config.json` of the arguments of `SimpleTRON`.
SIZES = {
    "vocabulary_size": "vocab_size",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
    "hidden_dim": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "mlp_dim": "intermediate_size",
}
# Values of its other keys that are supported.
KINDS = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
}
# Tensors that are not read: heads, and a buffer of positions.
OTHERS = re.compile(r"(cls|classifier|qa_outputs)\.|embeddings\.position_ids$")
# Paths of weights by names of tensors, and paths of layers by their names.
TABLES = {
    "embeddings.word_embeddings.weight": "token_embedding/embeddings",
    "embeddings.position_embeddings.weight": "position_embedding/table",
    "embeddings.token_type_embeddings.weight": "type_embedding/embeddings",
}
LAYERS = {"embeddings.LayerNorm": "embedding_norm", "pooler.dense": "pooler"}
QKV = ("query", "key", "value")
BLOCK_LAYERS = {
    **{f"attention.self.{name}": f"attention/{name}" for name in QKV},
    "attention.output.dense": "attention/output",
    "attention.output.LayerNorm": "mixer_norm",
    "intermediate.dense": "mlp_in",
    "output.dense": "mlp_out",
    "output.LayerNorm": "mlp_norm",
}


def read_bert(
    folder: str | Path, num_layers: int | None = None, max_sequence_length: int | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the folder of a trained BERT; see `SimpleTRON.from_bert`.

    Returns:
        `(arguments, weights)`: arguments of `SimpleTRON`, and arrays by the paths of its weights.
    """
    folder = Path(folder)
    sizes, arguments = _read_config(folder / CONFIG_FILE)
    for name, wanted in (("num_layers", num_layers), ("max_sequence_length", max_sequence_length)):
        arguments[name] = sizes[name] if wanted is None else wanted
        if arguments[name] > sizes[name]:
            raise ValueError(f"`{name}` must be at most {sizes[name]}. Received: {name}={wanted}")
    found = read_tensors(folder / WEIGHTS_FILE)
    tensors = {_plain_name(name): value for name, value in found.items()}
    pooler = "pooler.dense.weight" in tensors
    layers = {name: path for name, path in LAYERS.items() if pooler or path != "pooler"}
    blocks = "encoder.layer", BLOCK_LAYERS, sizes["num_layers"]
    weights, missing, unknown = weights_of(tensors, layers, *blocks, TABLES)
    unknown = [name for name in unknown if not OTHERS.match(name)]
    if missing or unknown:
        rule = (
            f"`{folder / WEIGHTS_FILE}` must contain the tensors of the BERT in its {CONFIG_FILE}"
        )
        raise ValueError(f"{rule}. Received: missing={missing[:8]}, unknown={unknown[:8]}")
    for block in (f"block_{index}/attention" for index in range(sizes["num_layers"])):
        for kind in ("kernel", "bias"):
            parts = [weights.pop(f"{block}/{name}/{kind}") for name in QKV]
            weights[f"{block}/qkv/{kind}"] = np.concatenate(parts, axis=-1)
    positions = weights["position_embedding/table"]
    weights["position_embedding/table"] = positions[None, : arguments["max_sequence_length"]]
    arguments |= {"pooler": "tanh" if pooler else None, "tokenizer": read_tokenizer(folder)}
    return arguments, weights


def read_tokenizer(folder: Path) -> str | None:
    """Return the text of `tokenizer.json`, or of one for the words in `vocab.txt`, or `None`.

    `vocab.txt` is read with the settings in `tokenizer_config.json`. Settings that this tokenizer
    does not have raise a ValueError.
    """
    path = folder / WORDS_CONFIG_FILE
    config = parse_json(path.read_bytes(), path) if path.is_file() else {}
    said = {key: config.get(key) for key in READ_AS}
    said = {
        key: word.get("content") if isinstance(word, dict) else word for key, word in said.items()
    }
    if wrong := {key: word for key, word in said.items() if word not in READ_AS[key]}:
        raise ValueError(f"`{path}` must describe a tokenizer of BERT. Received: {wrong}")
    if (folder / TOKENIZER_FILE).is_file():
        return tokenizer_text(folder / TOKENIZER_FILE)
    if not (folder / WORDS_FILE).is_file():
        return None
    if (folder / ADDED_FILE).is_file():
        raise ValueError(f"`{folder}` must contain {TOKENIZER_FILE}. Received: {ADDED_FILE}")
    options = {ours: config[key] for key, ours in NORMALIZER.items() if key in config}
    words = (folder / WORDS_FILE).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return wordpiece_tokenizer(words, **options)


def _read_config(path):
    """Return the sizes of a whole BERT, and the arguments of a model."""
    config = parse_json(path.read_bytes(), path)
    wrong = {key: config[key] for key, value in KINDS.items() if config.get(key, value) != value}
    if wrong:
        raise ValueError(f"`{path}` must describe a BERT with {KINDS}. Received: {wrong}")
    if missing := [key for key in SIZES.values() if key not in config]:
        raise ValueError(f"`{path}` must set {list(SIZES.values())}. Received: no {missing}")
    sizes = {name: config[key] for name, key in SIZES.items()}
    dropout, epsilon = config.get("hidden_dropout_prob", 0.1), config.get("layer_norm_eps", 1e-12)
    return sizes, {**sizes, "dropout": dropout, "layer_norm_epsilon": epsilon}


def _plain_name(name):
    """Return the name of a tensor without the model's prefix, as in newer files."""
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name.removeprefix("bert."))
    return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
