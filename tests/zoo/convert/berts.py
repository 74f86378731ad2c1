"""Test helpers: BERT folders as written by PyTorch libraries, and BERT in NumPy."""

import json
import math
import struct

import numpy as np

from tests.harness import load_golden

GOLDEN = load_golden("bert_transfer")
TENSORS = {name: value for name, value in GOLDEN.items() if name.startswith("bert.")}
CONFIG = dict(
    model_type="bert", hidden_act="gelu", vocab_size=11, max_position_embeddings=10,
    type_vocab_size=2, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=16, layer_norm_eps=1e-12,
)  # fmt: skip
DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64"}


def write_bert(folder, tensors=TENSORS, **config):
    """Write the configuration and the tensors of a BERT. Returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}), encoding="utf-8")
    parts = {name: (DTYPES[str(value.dtype)], value) for name, value in tensors.items()}
    write_safetensors(folder / "model.safetensors", parts)
    return folder


def write_safetensors(path, parts):
    """Write a safetensors file: the length of the header, the JSON header and the data.

    Args:
        path: The file.
        parts: Dict from tensor names to pairs of a safetensors dtype and an array.
    """
    header, start = {}, 0
    for name, (dtype, value) in parts.items():
        end = start + value.nbytes
        header[name] = dict(dtype=dtype, shape=value.shape, data_offsets=(start, end))
        start = end
    header = json.dumps(header).encode()
    content = b"".join(np.ascontiguousarray(value).tobytes() for _, value in parts.values())
    path.write_bytes(struct.pack("<Q", len(header)) + header + content)


def numpy_bert(tensors, heads, tokens, mask, segment_ids):
    """Compute the hidden states of BERT, including the embedding (Devlin et al., 2018).

    Args:
        tensors: Dict of tensors by their names in PyTorch. Kernels have the shape `(out, in)`.
        heads: Number of heads.
        tokens, mask, segment_ids: Arrays of shape `(batch, tokens)`.
    """
    t = {name.removeprefix("bert."): np.asarray(v, "float64") for name, v in tensors.items()}
    depth = 1 + max(int(name.split(".")[2]) for name in t if name.startswith("encoder.layer."))
    x = t["embeddings.word_embeddings.weight"][tokens]
    x = x + t["embeddings.position_embeddings.weight"][: tokens.shape[1]]
    x = x + t["embeddings.token_type_embeddings.weight"][segment_ids]
    x = norm(x, t, "embeddings.LayerNorm")
    states = [x]
    for layer in range(depth):
        name = f"encoder.layer.{layer}"
        q, k, v = (
            dense(x, t, f"{name}.attention.self.{part}").reshape(*x.shape[:2], heads, -1)
            for part in ("query", "key", "value")
        )
        scores = np.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
        scores = np.exp(np.where(mask[:, None, None], scores, -np.inf))
        scores = scores / scores.sum(-1, keepdims=True)
        attended = np.einsum("bhqk,bkhd->bqhd", scores, v).reshape(x.shape)
        attended = dense(attended, t, f"{name}.attention.output.dense")
        x = norm(x + attended, t, f"{name}.attention.output.LayerNorm")
        hidden = dense(x, t, f"{name}.intermediate.dense")
        hidden = hidden * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2))) / 2
        x = norm(x + dense(hidden, t, f"{name}.output.dense"), t, f"{name}.output.LayerNorm")
        states.append(x)
    return states


def dense(x, tensors, name):
    return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]


def norm(x, tensors, name):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
    return x * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]
