"""Read the sizes, weights and tokenizer of a BERT in the format of PyTorch libraries."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from keras_permix.data.text.tokenizer import (
    TOKENIZER_FILE,
    tokenizer_text,
    with_added_tokens,
    wordpiece_tokenizer,
)
from keras_permix.utils.checks import check_integer
from keras_permix.zoo.convert.tensors import read_tensors, weights_of
from keras_permix.zoo.presets.folder import read_json

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
WORDS_FILE, WORDS_CONFIG_FILE = "vocab.txt", "tokenizer_config.json"
TOKENS_FILES = ("added_tokens.json", "special_tokens_map.json", WORDS_CONFIG_FILE)
# Names of the arguments of `wordpiece_tokenizer` in `tokenizer_config.json` and `tokenizer.json`.
NORMALIZER = {
    "lowercase": ("do_lower_case", "lowercase"),
    "strip_accents": ("strip_accents", "strip_accents"),
    "split_chinese": ("tokenize_chinese_chars", "handle_chinese_chars"),
}
# Values of its other keys that are supported.
READ_AS: dict[str, tuple] = {
    "tokenizer_class": (None, "BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast"),
    "do_basic_tokenize": (None, True),
    "never_split": (None, []),
    "padding_side": (None, "right"),
    "truncation_side": (None, "right"),
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
        arguments[name] = sizes[name] if wanted is None else check_integer(name, wanted)
        if arguments[name] > sizes[name]:
            raise ValueError(
                f"`{name}` must be from 1 to {sizes[name]}, the value of this BERT. "
                f"Received: {name}={wanted}, folder={folder}"
            )
    found = read_tensors(folder / WEIGHTS_FILE)
    tensors = {_plain_name(name): value for name, value in found.items()}
    pooler = "pooler.dense.weight" in tensors
    layers = {name: path for name, path in LAYERS.items() if pooler or path != "pooler"}
    blocks = "encoder.layer", BLOCK_LAYERS, sizes["num_layers"]
    weights, missing, unknown = weights_of(tensors, layers, *blocks, TABLES)
    unknown = [name for name in unknown if not OTHERS.match(name)]
    shapes = {path: value.shape for path, value in weights.items()}
    wrong = [(path, found) for path, found in shapes.items() if found != _shape(path, sizes)]
    if missing or unknown or wrong:
        raise ValueError(
            f"`{folder / WEIGHTS_FILE}` must contain the tensors of the BERT in its {CONFIG_FILE}, "
            "and no others except those of heads. "
            f"Received: missing={missing[:8]}, unknown={unknown[:8]}, "
            f"weights of another shape={dict(wrong[:8])}"
        )
    for block in (f"block_{index}/attention" for index in range(sizes["num_layers"])):
        for kind in ("kernel", "bias"):
            parts = [weights.pop(f"{block}/{name}/{kind}") for name in QKV]
            weights[f"{block}/qkv/{kind}"] = np.concatenate(parts, axis=-1)
    positions = weights["position_embedding/table"]
    weights["position_embedding/table"] = positions[None, : arguments["max_sequence_length"]]
    arguments |= {"pooler": "tanh" if pooler else None, "tokenizer": read_tokenizer(folder)}
    return arguments, weights


def _shape(path, sizes):
    """Return the shape of a weight, before queries, keys and values are concatenated."""
    rows = {
        "token_embedding": "vocabulary_size",
        "position_embedding": "max_sequence_length",
        "type_embedding": "num_segments",
        "mlp_out": "mlp_dim",
    }
    *_, layer, kind = path.split("/")
    units = sizes["mlp_dim" if layer == "mlp_in" else "hidden_dim"]
    vector = kind in ("bias", "gamma", "beta")
    return (units,) if vector else (sizes[rows.get(layer, "hidden_dim")], units)


def read_tokenizer(folder: Path) -> str | None:
    """Return the text of a `tokenizer.json` for the tokenizer of a folder, or `None`.

    It is made from `tokenizer.json` or `vocab.txt`, with the settings in `added_tokens.json`,
    `special_tokens_map.json` and `tokenizer_config.json`.
    """
    files = {
        name: read_json(folder / name) if (folder / name).is_file() else {} for name in TOKENS_FILES
    }
    config = {**files["special_tokens_map.json"], **files[WORDS_CONFIG_FILE]}
    added = _added_tokens(files["added_tokens.json"], config, folder)
    refused = {
        key: config[key]
        for key, values in READ_AS.items()
        if key in config and config[key] not in values
    }
    if refused:
        raise ValueError(f"`{folder}` must contain a tokenizer of BERT. Received: {refused}")
    path = folder / WORDS_FILE
    if (folder / TOKENIZER_FILE).is_file():
        made = str(tokenizer_text(folder / TOKENIZER_FILE))
        normalizer = json.loads(made).get("normalizer") or {}
        said = {key: config[key] for key, _ in NORMALIZER.values() if key in config}
        found = {key: normalizer.get(name) for key, name in NORMALIZER.values() if key in config}
        if normalizer.get("type") == "BertNormalizer" and said != found:
            raise ValueError(
                f"{TOKENIZER_FILE} and {WORDS_CONFIG_FILE} of `{folder}` must agree. "
                f"Received: {found} and {said}"
            )
    elif path.is_file():
        names = [f"{name}_token" for name in ("unk", "cls", "sep", "pad", "mask")]
        options = {name: _content(config[name]) for name in names if config.get(name)}
        options |= {ours: config[key] for ours, (key, _) in NORMALIZER.items() if key in config}
        try:
            words = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
            made = wordpiece_tokenizer(words, **options)
        except ValueError as error:
            raise ValueError(
                f"`{path}` must contain the vocabulary of a BERT, one token per line. "
                f"Received: {error}"
            ) from error
    else:
        return None
    try:
        return with_added_tokens(made, added) if added else made
    except ValueError as error:
        raise ValueError(f"The files of `{folder}` must agree on added tokens. {error}") from error


def _content(token):
    return token["content"] if isinstance(token, dict) else token


def _added_tokens(numbers, config, folder):
    """Return the added tokens as dicts, ordered by id, those without an id last."""
    try:
        found = {token: {"content": token, "id": int(number)} for token, number in numbers.items()}
        for number, token in (config.get("added_tokens_decoder") or {}).items():
            found[token["content"]] = {**token, "id": int(number)}
        for token in config.get("additional_special_tokens") or []:
            known = found.get(_content(token), {"content": _content(token)})
            found[_content(token)] = {**known, "special": True, "normalized": False}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"`{folder}` must list added tokens with their ids. "
            f"Received: {type(error).__name__}: {error}"
        ) from error
    return sorted(found.values(), key=lambda token: token.get("id", math.inf))


def _read_config(path):
    """Return the sizes of a whole BERT, and the arguments of a model."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        sizes = {name: check_integer(key, config[key]) for name, key in SIZES.items()}
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"`folder` must contain {CONFIG_FILE} and {WEIGHTS_FILE}. Received: no file {path}"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"`{path}` must be the JSON file of a BERT, with {', '.join(SIZES.values())}. "
            f"Received: {type(error).__name__}: {error}"
        ) from error
    wrong = {key: config[key] for key, value in KINDS.items() if config.get(key, value) != value}
    if wrong:
        raise ValueError(f"`{path}` must describe a BERT with {KINDS}. Received: {wrong}")
    dropout, epsilon = config.get("hidden_dropout_prob", 0.1), config.get("layer_norm_eps", 1e-12)
    return sizes, {**sizes, "dropout": dropout, "layer_norm_epsilon": epsilon}


def _plain_name(name):
    """Return the name of a tensor without the model's prefix, as in newer files."""
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name.removeprefix("bert."))
    return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
