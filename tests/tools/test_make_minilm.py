"""Test the BERT with a reduced vocabulary from which SimpleTRON starts."""

import importlib.util

import numpy as np
import pytest

from keras_permix.zoo import SimpleTRON
from tests.harness import load_module
from tests.tolerances import TOLERANCES

tokenizers = pytest.importorskip("tokenizers")
make_minilm = load_module("tools/make_minilm.py")

TEXTS = ["A gripping, funny and honest film.", "Two hours that feel like four."]
needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec(make_minilm.PACKAGE) is None,
    reason=f"needs the package {make_minilm.PACKAGE}",
)


@needs_minilm
def test_smaller_bert_matches_bert_on_kept_tokens():
    bert = SimpleTRON.from_bert(
        make_minilm.packaged_folder(), variant="softmax", num_layers=1, max_sequence_length=16
    )
    tokenizer = tokenizers.Tokenizer.from_str(bert.get_config()["tokenizer"])
    ids = make_minilm.kept_ids(tokenizer, TEXTS, 2100)
    model = make_minilm.smaller(bert, ids)
    assert model.get_config()["vocabulary_size"] == len(ids) < 2100
    tokens = [one.encode(TEXTS)["tokens"] for one in (bert, model)]
    assert np.array_equal(np.asarray(ids)[tokens[1]], tokens[0])
    logits = [one.predict(TEXTS, verbose=0) for one in (bert, model)]
    np.testing.assert_allclose(*logits, **TOLERANCES["model"]["float32"])


@needs_minilm
def test_kept_tokens_spell_any_word():
    bert = SimpleTRON.from_bert(
        make_minilm.packaged_folder(), variant="softmax", num_layers=1, max_sequence_length=16
    )
    whole = tokenizers.Tokenizer.from_str(bert.get_config()["tokenizer"])
    whole.no_padding()
    kept = make_minilm.kept_ids(whole, TEXTS, 2100)
    small = tokenizers.Tokenizer.from_str(make_minilm.shrunk(whole, kept))
    pieces = small.encode("unfathomable zeppelins").tokens
    assert "[UNK]" not in pieces
    assert "".join(piece.removeprefix("##") for piece in pieces[1:-1]) == "unfathomablezeppelins"
