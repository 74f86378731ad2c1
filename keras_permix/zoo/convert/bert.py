"""BERT, as PyTorch's libraries write it: sizes, and weights by the paths of `SimpleTRON`."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from keras_permix.checks import check_integer
from keras_permix.data.text.tokenizer import TOKENIZER_FILE, wordpiece_tokenizer
from keras_permix.zoo.convert.safetensors import read_tensors

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
WORDS_FILE, WORDS_CONFIG_FILE = "vocab.txt", "tokenizer_config.json"
# What `config.json` calls the arguments of `SimpleTRON`.
SIZES = {
    "vocabulary_size": "vocab_size",
    "max_length": "max_position_embeddings",
    "token_types": "type_vocab_size",
    "width": "hidden_size",
    "depth": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "mlp_dim": "intermediate_size",
}
# What it must say where it says anything.
KINDS = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
}
# Tensors of a file that are not of the encoder: heads, and a buffer that counts from 0.
OTHERS = re.compile(r"(cls|classifier|qa_outputs)\.|embeddings\.position_ids$")
QKV = tuple(f"attention.self.{name}" for name in ("query", "key", "value"))
# Names of BERT, less ".weight" and ".bias", and the paths here.
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


@dataclasses.dataclass(frozen=True)
class Bert:
    """A BERT that somebody has trained.

    Args:
        arguments: Of `SimpleTRON`: the sizes, dropout, epsilon, tokenizer, and whether there is a
            pooler.
        weights: Arrays by the paths of the weights of `SimpleTRON`, kernels `(in, out)`.
    """

    arguments: dict[str, Any]
    weights: dict[str, np.ndarray]


def read_bert(folder: str | Path, depth: int | None = None, max_length: int | None = None) -> Bert:
    """Read a folder of BERT.

    Args:
        folder: With `config.json` and `model.safetensors`, and perhaps `tokenizer.json`, or
            `vocab.txt` and `tokenizer_config.json`.
        depth: Number of layers, the first ones. `None`: all.
        max_length: Number of positions, the first ones. `None`: all.

    Returns:
        A `Bert`.

    Raises:
        ImportError: if the package `safetensors` is absent, or `tokenizers` for a `vocab.txt`.
        FileNotFoundError: for a missing file.
        ValueError: for a damaged file, a model that is no BERT, tensors that are missing, unknown
            or of another shape, or more layers or positions than there are.
    """
    folder = Path(folder)
    sizes, arguments = _read_config(folder / CONFIG_FILE)
    for name, wanted in (("depth", depth), ("max_length", max_length)):
        arguments[name] = sizes[name] if wanted is None else check_integer(name, wanted)
        if arguments[name] > sizes[name]:
            raise ValueError(
                f"`{name}` must be from 1 to the {sizes[name]} of this BERT. "
                f"Received: {name}={wanted}, folder={folder}"
            )
    tensors = {
        _plain_name(name): value for name, value in read_tensors(folder / WEIGHTS_FILE).items()
    }
    pooler = "pooler.dense.weight" in tensors
    _check_tensors(tensors, _shapes(sizes, pooler), folder / WEIGHTS_FILE)
    weights = _weights(tensors, arguments["depth"], pooler)
    weights["position_embedding/table"] = weights["position_embedding/table"][
        None, : arguments["max_length"]
    ]
    return Bert(
        {
            **arguments,
            "pooler": "tanh" if pooler else None,
            "tokenizer": read_tokenizer(folder),
        },
        weights,
    )


def read_tokenizer(folder: Path) -> str | None:
    """The path of a folder's `tokenizer.json`, or the text of one that is made of its `vocab.txt`.

    Raises:
        ImportError: if the package `tokenizers` is needed and absent.
        ValueError: for a damaged file.
    """
    if (folder / TOKENIZER_FILE).is_file():
        return str(folder / TOKENIZER_FILE)
    path = folder / WORDS_FILE
    if not path.is_file():
        return None
    config = _read_words_config(folder / WORDS_CONFIG_FILE)
    try:
        words = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        return wordpiece_tokenizer(words, **config)
    except ValueError as error:
        raise ValueError(
            f"`{path}` must hold the words of a BERT, one per line. Received: {error}"
        ) from error


def _read_words_config(path):
    """How words are read: the arguments of `wordpiece_tokenizer` that a file gives."""
    try:
        config = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return {
            "lowercase": config.get("do_lower_case", True),
            "strip_accents": config.get("strip_accents"),
            "split_chinese": config.get("tokenize_chinese_chars", True),
        }
    except (ValueError, AttributeError) as error:
        raise ValueError(f"`{path}` must be a JSON object. Received: {error}") from error


def _read_config(path):
    """The sizes of all of a BERT, and the arguments of a model of it."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        sizes = {name: check_integer(key, config[key]) for name, key in SIZES.items()}
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"`folder` must hold {CONFIG_FILE} and {WEIGHTS_FILE}. Received: no file {path}"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"`{path}` must be the JSON file of a BERT, with {', '.join(SIZES.values())}. "
            f"Received: {type(error).__name__}: {error}"
        ) from error
    wrong = {key: config[key] for key, value in KINDS.items() if config.get(key, value) != value}
    if wrong:
        raise ValueError(f"`{path}` must be that of a BERT, with {KINDS}. Received: {wrong}")
    dropout, epsilon = config.get("hidden_dropout_prob", 0.1), config.get("layer_norm_eps", 1e-12)
    return sizes, {**sizes, "dropout": dropout, "epsilon": epsilon}


def _plain_name(name):
    """A tensor's name without the model's, and as newer files have it."""
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name.removeprefix("bert."))
    return re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)


def _shapes(sizes, pooler):
    """The tensors of a BERT, and their shapes in PyTorch: kernels are (out, in)."""
    width, mlp_dim = sizes["width"], sizes["mlp_dim"]
    rows = (sizes[name] for name in ("vocabulary_size", "max_length", "token_types"))
    shapes = {f"{name}.weight": (n, width) for name, n in zip(EMBEDDINGS, rows, strict=True)}
    kernels = dict.fromkeys((*QKV, *LAYER), (width, width))
    kernels |= {"intermediate.dense": (mlp_dim, width), "output.dense": (width, mlp_dim)}
    kernels = {
        f"encoder.layer.{index}.{name}": shape
        for index in range(sizes["depth"])
        for name, shape in kernels.items()
    }
    kernels["embeddings.LayerNorm"] = (width,)
    if pooler:
        kernels["pooler.dense"] = (width, width)
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
            f"`{path}` must hold the tensors of a BERT as its {CONFIG_FILE} describes it, no other "
            f"but those of heads. Received: missing={missing[:8]}, unknown={unknown[:8]}, "
            f"of another shape={dict(list(wrong.items())[:8])}"
        )


def _weights(tensors, depth, pooler):
    weights = {path: tensors[f"{name}.weight"] for name, path in EMBEDDINGS.items()}
    pairs = {"embeddings.LayerNorm": "embedding_norm"}
    if pooler:
        pairs["pooler.dense"] = "pooler"
    for index in range(depth):
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
    """Kernel and bias; of a normalization, what it has in their place."""
    return tensors[f"{name}.weight"].T, tensors[f"{name}.bias"]
