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
from keras_permix.zoo.convert.safetensors import read_tensors
from keras_permix.zoo.presets.folder import read_json

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
WORDS_FILE, WORDS_CONFIG_FILE = "vocab.txt", "tokenizer_config.json"
TOKENS_FILES = ("added_tokens.json", "special_tokens_map.json", WORDS_CONFIG_FILE)
# Names in `tokenizer_config.json` of the arguments of `wordpiece_tokenizer`.
NORMALIZER = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "split_chinese": "tokenize_chinese_chars",
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
QKV = tuple(f"attention.self.{name}" for name in ("query", "key", "value"))
# Names of BERT without ".weight" and ".bias", and paths of weights.
EMBEDDINGS = {
    "embeddings.word_embeddings": "token_embedding/embeddings",
    "embeddings.position_embeddings": "position_embedding/table",
    "embeddings.token_type_embeddings": "type_embedding/embeddings",
}
LAYER = {
    "attention.output.dense": "attention/output",
    "attention.output.LayerNorm": "mixer_norm",
    "intermediate.dense": "mlp_in",
    "output.dense": "mlp_out",
    "output.LayerNorm": "mlp_norm",
}


def read_bert(
    folder: str | Path, num_layers: int | None = None, max_sequence_length: int | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the folder of a trained BERT.

    Args:
        folder: Folder with `config.json`, `model.safetensors` and, optionally, the files of a
            tokenizer; see `read_tokenizer`.
        num_layers: Number of layers to read, from the first. `None`: all.
        max_sequence_length: Number of positions to read, from the first. `None`: all.

    Returns:
        `(arguments, weights)`: arguments of `SimpleTRON`, and arrays by the paths of its weights.

    Raises:
        ImportError: if the package `safetensors` is absent, or `tokenizers` for a `vocab.txt`.
        FileNotFoundError: for a missing file.
        ValueError: for a damaged file, a model other than BERT, tensors that are missing, unknown
            or of another shape, or too many layers or positions.
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
    tensors = {
        _plain_name(name): value for name, value in read_tensors(folder / WEIGHTS_FILE).items()
    }
    pooler = "pooler.dense.weight" in tensors
    _check_tensors(tensors, _shapes(sizes, pooler), folder / WEIGHTS_FILE)
    weights = _weights(tensors, arguments["num_layers"], pooler)
    weights["position_embedding/table"] = weights["position_embedding/table"][
        None, : arguments["max_sequence_length"]
    ]
    arguments |= {"pooler": "tanh" if pooler else None, "tokenizer": read_tokenizer(folder)}
    return arguments, weights


def read_tokenizer(folder: Path) -> str | None:
    """Return the path or text of a `tokenizer.json` for the tokenizer of a folder, or `None`.

    It is made from `tokenizer.json` or `vocab.txt`, with the settings in `added_tokens.json`,
    `special_tokens_map.json` and `tokenizer_config.json`.

    Raises:
        ImportError: if the package `tokenizers` is needed and absent.
        ValueError: for a damaged file, or settings that are not supported.
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
    special = {
        f"{name}_token": _content(config[f"{name}_token"])
        for name in ("unk", "cls", "sep", "pad", "mask")
        if config.get(f"{name}_token")
    }
    if (folder / TOKENIZER_FILE).is_file():
        made = str(tokenizer_text(folder / TOKENIZER_FILE))
        _check_normalizer(json.loads(made).get("normalizer"), config, folder)
        return _with_tokens(made, added, folder) if added else str(folder / TOKENIZER_FILE)
    path = folder / WORDS_FILE
    if not path.is_file():
        return None
    try:
        words = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        options = {ours: config[key] for ours, key in NORMALIZER.items() if key in config}
        made = wordpiece_tokenizer(words, **options, **special)
    except ValueError as error:
        raise ValueError(
            f"`{path}` must contain the vocabulary of a BERT, one token per line. Received: {error}"
        ) from error
    return _with_tokens(made, added, folder) if added else made


def _with_tokens(text, added, folder):
    try:
        return with_added_tokens(text, added)
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


def _check_normalizer(normalizer, config, folder):
    """Check that a `tokenizer.json` agrees with the configuration."""
    names = {"lowercase": "lowercase", "strip_accents": "strip_accents",
             "split_chinese": "handle_chinese_chars"}  # fmt: skip
    normalizer = normalizer or {}
    said = {key: config[key] for key in NORMALIZER.values() if key in config}
    found = {key: normalizer.get(names[ours]) for ours, key in NORMALIZER.items() if key in said}
    if normalizer.get("type") == "BertNormalizer" and said != found:
        raise ValueError(
            f"{TOKENIZER_FILE} and {WORDS_CONFIG_FILE} of `{folder}` must agree. "
            f"Received: {found} and {said}"
        )


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


def _shapes(sizes, pooler):
    """Return the shapes of the tensors of a BERT in PyTorch; kernels are (out, in)."""
    hidden_dim, mlp_dim = sizes["hidden_dim"], sizes["mlp_dim"]
    rows = (sizes[name] for name in ("vocabulary_size", "max_sequence_length", "num_segments"))
    shapes = {f"{name}.weight": (n, hidden_dim) for name, n in zip(EMBEDDINGS, rows, strict=True)}
    kernels = dict.fromkeys((*QKV, *LAYER), (hidden_dim, hidden_dim))
    kernels |= {"intermediate.dense": (mlp_dim, hidden_dim), "output.dense": (hidden_dim, mlp_dim)}
    kernels = {
        f"encoder.layer.{index}.{name}": shape
        for index in range(sizes["num_layers"])
        for name, shape in kernels.items()
    }
    kernels["embeddings.LayerNorm"] = (hidden_dim,)
    if pooler:
        kernels["pooler.dense"] = (hidden_dim, hidden_dim)
    for name, shape in kernels.items():
        shapes[f"{name}.weight"] = shape[:1] if name.endswith("LayerNorm") else shape
        shapes[f"{name}.bias"] = shape[:1]
    return shapes


def _check_tensors(tensors, shapes, path):
    missing = sorted(shapes.keys() - tensors.keys())
    unknown = sorted(name for name in tensors.keys() - shapes.keys() if not OTHERS.match(name))
    wrong = {
        name: tensors[name].shape
        for name, shape in shapes.items()
        if name in tensors and tensors[name].shape != shape
    }
    if missing or unknown or wrong:
        raise ValueError(
            f"`{path}` must contain the tensors of the BERT in its {CONFIG_FILE}, and no others "
            f"except those of heads. Received: missing={missing[:8]}, unknown={unknown[:8]}, "
            f"of another shape={dict(list(wrong.items())[:8])}"
        )


def _weights(tensors, num_layers, pooler):
    weights = {path: tensors[f"{name}.weight"] for name, path in EMBEDDINGS.items()}
    pairs = {"embeddings.LayerNorm": "embedding_norm"}
    if pooler:
        pairs["pooler.dense"] = "pooler"
    for index in range(num_layers):
        layer, block = f"encoder.layer.{index}", f"block_{index}"
        pairs |= {f"{layer}.{name}": f"{block}/{path}" for name, path in LAYER.items()}
        qkv = [_dense(tensors, f"{layer}.{name}") for name in QKV]
        for kind, parts in zip(("kernel", "bias"), zip(*qkv, strict=True), strict=True):
            weights[f"{block}/attention/qkv/{kind}"] = np.concatenate(parts, axis=-1)
    for name, path in pairs.items():
        kinds = ("gamma", "beta") if path.endswith("norm") else ("kernel", "bias")
        for kind, value in zip(kinds, _dense(tensors, name), strict=True):
            weights[f"{path}/{kind}"] = value
    return weights


def _dense(tensors, name):
    """Return kernel and bias, or gamma and beta of a normalization."""
    return tensors[f"{name}.weight"].T, tensors[f"{name}.bias"]
