"""Test tokenizers trained on the texts of a recipe, and saved in its runs and presets."""

import json

import keras
import pytest

from keras_permix.data import Pipeline
from keras_permix.tasks import task_of
from keras_permix.training import train
from keras_permix.zoo import LRATransformer
from tests.zoo.models import tiny

pytest.importorskip("tokenizers", reason="tokenizers is not installed")

from keras_permix.data.text.tokenizer import SubwordEncoder, train_tokenizer  # noqa: E402


def test_byte_pairs_are_merged_by_frequency():
    """Merge the most frequent pair first, never across words (Sennrich et al., 2016)."""
    text = train_tokenizer(["Low low low lówer", "wer"], 9)
    names = json.loads(text)["model"]["vocab"]
    assert sorted(names, key=names.get) == ["[PAD]", "[UNK]", "e", "l", "o", "r", "w", "lo", "low"]
    encode = SubwordEncoder(text, 6)
    assert encode(["LOWER x"], 6)["tokens"].tolist() == [[8, 2, 5, 1, 0, 0]]
    assert train_tokenizer(iter(["Low low low lówer", "wer"]), 9) == text


def test_vocabulary_smaller_than_alphabet_raises():
    with pytest.raises(ValueError, match="`vocabulary_size` must be at least 5. Received: 3"):
        train_tokenizer(["abc"], 3)
    with pytest.raises(ValueError, match="`texts` must contain several texts. Received: 'abc'"):
        train_tokenizer("abc", 9)


ROWS = [{"text": word, "label": len(word) % 2} for word in ("good", "films", "bad", "fi")] * 4
SPEC = dict(name="mine", train="a.jsonl", test="a.jsonl", tokenizer="bpe")
RECIPE = """
batch_size = 8
epochs = 2

[model]
class_name = "LRATransformer"
vocabulary_size = 16
max_sequence_length = 4
hidden_dim = 8
num_layers = 1
mlp_dim = 8

[data]
name = "mine"
train = "a.jsonl"
test = "a.jsonl"
tokenizer = "bpe"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return tmp_path


def test_model_gets_trained_tokenizer_and_keeps_it(folder):
    model = tiny("LRATransformer", vocabulary_size=13)
    data = task_of(model).load(SPEC, folder)
    expected = train_tokenizer([row["text"] for row in ROWS], 13)
    assert model.tokenizer == expected
    inputs, _ = Pipeline(*data.train, batch_size=3)[0]
    tokens = SubwordEncoder(expected, 12)(["good", "films", "bad"], 12)["tokens"]
    assert inputs["tokens"].tolist() == tokens.tolist() == model.encode(
        ["good", "films", "bad"]
    )["tokens"].tolist()  # fmt: skip
    other = train_tokenizer(["some other text"], 13)
    model.tokenizer = other
    task_of(model).load(SPEC, folder)
    assert model.tokenizer == other
    assert model.encode(["some"])["tokens"].tolist() != tokens.tolist()


def test_pairs_share_a_tokenizer(folder):
    rows = [{"text": "ab", "text2": "cd", "label": 0}, {"text": "ab", "text2": "c", "label": 1}]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    model = tiny("MEGA", pairs=True)
    task_of(model).load(SPEC, folder)
    assert model.tokenizer == train_tokenizer(["ab", "cd", "ab", "c"], 20)


def test_unknown_tokenizer_raises(folder):
    with pytest.raises(ValueError, match="`tokenizer` must be one of .*Received: tokenizer='spm'"):
        task_of(tiny("LRATransformer")).load({**SPEC, "tokenizer": "spm"}, folder)


class Kill(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch:
            raise KeyboardInterrupt


def test_resumed_run_keeps_its_tokenizer(folder):
    run = dict(recipe=folder / "recipe.toml", out=folder / "run", data_dir=folder, verbose=0)
    with pytest.raises(KeyboardInterrupt):
        train(**run, callbacks=[Kill()])
    file = folder / "run/tokenizer.json"
    made = file.read_text(encoding="utf-8")
    assert made == train_tokenizer([row["text"] for row in ROWS], 16)
    kept = json.dumps(json.loads(made), indent=1)  # not the format of a new tokenizer
    file.write_text(kept, encoding="utf-8")
    assert train(**run).model.tokenizer == kept
    assert LRATransformer.from_preset(folder / "run/preset").tokenizer == kept
