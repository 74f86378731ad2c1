"""Test logits of text-pair models against NumPy at several lengths, padded and unpadded."""

import numpy as np
import pytest

from tests.backends import quick
from tests.harness import assert_close, to_numpy
from tests.layers.attention import test_softmax_attention
from tests.layers.mixing import test_csp
from tests.oracle import butterfly as oracle
from tests.oracle import permutations
from tests.oracle.blocks import PARTS, mixer_block
from tests.zoo import test_mega
from tests.zoo.models import tiny, weights


def block(layer, x, mask):
    """Apply a block with CSP or attention in NumPy."""
    held = {
        name: [to_numpy(weight).astype("float64") for weight in getattr(layer, name).weights]
        for name in PARTS
    }

    def mix(x):
        if hasattr(layer.mixer, "qkv_dense"):
            return test_softmax_attention.attend(layer.mixer, x, 8 // layer.mixer.num_heads, mask)
        return test_csp.expected(layer.mixer, x, permutations.schedule("linear", 8), mask)

    return mixer_block(x, mix, held, layer.norm_first, layer.extra_skip, layer.epsilon)


def texts(model, inputs, embeddings, class_token, table):
    """Return the embedded class token and words of each text, and their mask."""
    ids, mask = (inputs[name].reshape(-1, inputs[name].shape[-1]) for name in ("tokens", "mask"))
    first = np.repeat(class_token.reshape(1, 1, -1), len(ids), axis=0)
    x = np.concatenate([first, embeddings[ids]], axis=1)
    return x + table[: x.shape[1]], np.concatenate([np.ones((len(ids), 1), bool), mask], axis=1)


def lra_transformer(model, inputs):
    held = weights(model)
    names = ("tokens/embeddings", "class_token", "positions")
    x, mask = texts(model, inputs, *(held[f"embedding/{name}"] for name in names))
    for index in range(2):
        x = block(model.get_layer(f"block_{index}"), x, mask)
    x = oracle.layer_norm(x, held["final_norm/gamma"], held["final_norm/beta"], 1e-6)[:, 0]
    a, b = x[::2], x[1::2]
    x = np.concatenate([a, b, a * b, a - b], axis=-1)
    for name in ("head_hidden_0", "head_hidden_1"):
        x = np.maximum(x @ held[f"{name}/kernel"] + held[f"{name}/bias"], 0)
    return x @ held["head/kernel"] + held["head/bias"]


def simpletron(model, inputs):
    held = weights(model)
    words = held["token_embedding/embeddings"] + held["type_embedding/embeddings"][0]
    names = ("class_token", "table")
    parts = (held[f"position_embedding/{name}"] for name in names)
    class_token, table = (part.reshape(-1, 8) for part in parts)
    x, mask = texts(model, inputs, words, class_token, table)
    x = oracle.layer_norm(x, held["embedding_norm/gamma"], held["embedding_norm/beta"], 1e-12)
    for index in range(2):
        x = block(model.get_layer(f"block_{index}"), x, mask)
    x = np.maximum(x[:, 0] @ held["pooler/kernel"] + held["pooler/bias"], 0)
    a, b = x[::2], x[1::2]
    x = np.concatenate([a, b, abs(a - b), a * b], axis=-1)
    return x @ held["head/kernel"] + held["head/bias"]


MIXERS = ["csp", "attention"]
# For each class: its NumPy implementation, and the arguments of the model.
PAIRS = {
    "LRATransformer": (
        lra_transformer,
        dict(mixer=MIXERS, use_bias=True, activation="gelu", positions="learned",
             compare_pairs=True),
    ),
    "MEGA": (test_mega.expected, dict(mixer=["laplace", "csp"])),
    "SimpleTRON": (simpletron, dict(vocabulary_size=20, max_sequence_length=12, mixer=MIXERS)),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_pair_logits_at_several_lengths(name):
    expected, arguments = PAIRS[name]
    model = tiny(name, pairs=True, **arguments)
    inputs = model.make_inputs(0, 3)
    assert inputs["tokens"].shape == (3, 2, 12)
    call, many = quick(model), ((0, 0), (0, 0))
    for length in (5, 8):
        short = {key: array[:, :, :length] for key, array in inputs.items()}
        padded = {key: np.pad(a, (*many, (0, 12 - length))) for key, a in short.items()}
        logits = expected(model, short)
        assert_close(to_numpy(call(short)), logits, kind="model")
        assert_close(to_numpy(call(padded)), logits, kind="model")
        assert_close(model.predict(short, verbose=0), logits, kind="model")
        swapped = {key: array[:, ::-1] for key, array in short.items()}
        swapped_logits = expected(model, swapped)
        assert not np.allclose(swapped_logits, logits, atol=1e-3)
        assert_close(to_numpy(call(swapped)), swapped_logits, kind="model")
