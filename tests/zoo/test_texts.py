"""Test text inputs: tokenizers, bytes, pairs, presets, the command line and errors."""

import json
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest

from keras_permix.cli import main
from keras_permix.data import Pipeline
from keras_permix.tasks import task_of
from keras_permix.zoo import SimpleTRON, preset_info
from tests.harness import assert_close
from tests.zoo.models import edit_json, list_anew, tiny

pytest.importorskip("tokenizers", reason="tokenizers is not installed")

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "##s")
SPECIAL = {word: {"id": word, "ids": [WORDS.index(word)], "tokens": [word]} for word in WORDS[2:4]}


def part(kind, name, type_id):
    return {kind: {"id": name, "type_id": type_id}}


FIRST = [
    part("SpecialToken", "[CLS]", 0), part("Sequence", "A", 0), part("SpecialToken", "[SEP]", 0)
]  # fmt: skip
TOKENIZER = {
    "version": "1.0",
    "truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0},
    "padding": {
        "strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
        "pad_type_id": 0, "pad_token": "[PAD]",
    },
    "added_tokens": [],
    "normalizer": {
        "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
        "strip_accents": None, "lowercase": True,
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": FIRST,
        "pair": [*FIRST, part("Sequence", "B", 1), part("SpecialToken", "[SEP]", 1)],
        "special_tokens": SPECIAL,
    },
    "decoder": None,
    "model": {
        "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100, "vocab": {word: i for i, word in enumerate(WORDS)},
    },
}  # fmt: skip
TEXT = json.dumps(TOKENIZER)


def make(**arguments):
    return tiny("SimpleTRON", **{"vocabulary_size": 9, "tokenizer": TEXT, **arguments})


ignores_truncation = pytest.mark.filterwarnings("ignore:Texts were cut to 8 tokens")


@ignores_truncation
def test_encode_with_tokenizer():
    inputs = make().encode(["Good films", "a film, good film good film good"])
    wanted = [[2, 4, 6, 7, 3, 0, 0, 0], [2, 1, 6, 1, 4, 6, 4, 3]]  # Truncated texts end with [SEP].
    assert inputs["tokens"].tolist() == wanted and inputs["tokens"].dtype == "int32"
    np.testing.assert_array_equal(inputs["mask"], np.array(wanted) > 0)
    assert sorted(inputs) == ["mask", "tokens"]


def test_encoder_in_threads_and_with_other_length():
    encode, texts = make().text_encoder(), ["good film " * 200] * 20
    expected = encode(texts, 8)["tokens"]
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: encode(texts, 8)["tokens"], range(40)):
            np.testing.assert_array_equal(found, expected)
    assert encode(["good film"], 3)["tokens"].tolist() == [[2, 4, 3]]


LONG = "good film " * 8
CUT = "Texts were cut to 8 tokens, the `max_sequence_length` of"


@pytest.mark.parametrize(
    ("arguments", "fits", "long"),
    [
        (dict(tokenizer=TEXT), "good film good film bad film", LONG),  # plus [CLS] and [SEP]
        (dict(tokenizer=None, vocabulary_size=257), "01234567", "0123456789"),
        (dict(tokenizer=TEXT, pairs=True), ("good", "a " * 6), ("good", LONG)),
        (dict(tokenizer=None, vocabulary_size=257, pairs=True), ("0", "01234567"), (LONG, "0")),
        (dict(tokenizer=TEXT, use_segments=True), ("good film bad", "film bad"), ("a", LONG)),
    ],
    ids=["sub-words", "bytes", "apart", "apart bytes", "joined"],
)
@pytest.mark.parametrize("method", ["encode", "predict", "classify"])
def test_truncated_texts_warn_once(arguments, fits, long, method):
    model = make(**arguments)
    call = getattr(model, method)
    assert model.encode([fits])["mask"][..., -1].any()
    with pytest.warns(UserWarning, match=CUT) as caught:
        call([fits, long])
    files = [one.filename for one in caught if str(one.message).startswith(CUT)]
    assert len(files) == 1 and (method != "encode" or files == [__file__])
    call([long])
    model.text_encoder()([long], 8)  # used for data sets, without a warning


def test_pairs_are_encoded_separately_or_joined():
    pairs = [("good", "bad films"), ("film", "good")]
    apart = make(pairs=True).encode(pairs)
    assert apart["tokens"].shape == (2, 2, 8)
    assert apart["tokens"][0, :, :5].tolist() == [[2, 4, 3, 0, 0], [2, 5, 6, 7, 3]]
    joined = make(use_segments=True).encode(pairs)
    assert joined["tokens"].tolist() == [[2, 4, 3, 5, 6, 7, 3, 0], [2, 6, 3, 4, 3, 0, 0, 0]]
    assert joined["segment_ids"].tolist() == [[0, 0, 0, 1, 1, 1, 1, 0], [0, 0, 0, 1, 1, 0, 0, 0]]
    np.testing.assert_array_equal(joined["mask"], joined["tokens"] > 0)


@ignores_truncation
def test_encode_bytes_without_tokenizer():
    inputs = tiny("SimpleTRON").encode(["aé", "0123456789"])
    assert inputs["tokens"].tolist() == [
        [98, 196, 170, 0, 0, 0, 0, 0], [49, 50, 51, 52, 53, 54, 55, 56]
    ]  # fmt: skip
    inputs = tiny("SimpleTRON", pairs=True).encode([("a", "b")])
    assert inputs["tokens"][0, :, :2].tolist() == [[98, 0], [99, 0]]


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        ({}, ["good film", "bad"]),
        (dict(pairs=True), [("good", "film"), ("bad", "film")]),
        (dict(use_segments=True), [("good", "film"), ("bad", "film")]),
    ],
    ids=["texts", "apart", "joined"],
)
def test_predict_and_classify_texts(arguments, texts):
    model = make(labels=["a", "b", "c"], **arguments)
    expected = model.predict(model.encode(texts), verbose=0)
    for given in (texts, tuple(texts), np.array(texts), np.array(texts, object)):
        np.testing.assert_array_equal(model.predict(given, verbose=0), expected)
    assert not np.allclose(expected[0], expected[1])
    assert model.classify(texts) == model.decode_predictions(expected)
    assert model.classify(texts, top=1)[0][0][0] == "abc"[expected[0].argmax()]


def test_train_and_evaluate_on_texts():
    model, texts, labels = make(dropout=0.0), ["good film", "bad", "film"], np.array([0, 1, 2])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    inputs = model.encode(texts)
    expected = model.evaluate(inputs, labels, verbose=0)
    assert model.evaluate(texts, labels, verbose=0) == expected
    assert_close(model.test_on_batch(texts, labels), expected)
    np.testing.assert_array_equal(
        model.predict_on_batch(np.array(texts)), model.predict_on_batch(inputs)
    )
    before = [np.copy(weight) for weight in model.get_weights()]
    history = model.fit(texts, labels, validation_data=(texts, labels), verbose=0).history
    assert_close(history["loss"], expected)
    fitted = [np.copy(weight) for weight in model.get_weights()]
    model.set_weights(before)
    model.fit(inputs, labels, validation_data=(inputs, labels), verbose=0)
    again = model.history.history["val_loss"]
    assert_close(history["val_loss"], again)
    for ours, theirs in zip(fitted, model.get_weights(), strict=True):
        assert_close(ours, theirs)
    model.train_on_batch(texts, labels)


@pytest.mark.parametrize(
    ("arguments", "texts", "message"),
    [
        ({}, "good", "`texts` must be a list of str.* Received: texts='good'"),
        ({}, [("a", "b")], r"a list of str.*Received: .*\('a', 'b'\)"),
        ({}, ["a", 1], "a list of str.*Received"),
        ({}, ["good", " "], r"not empty.*Received: texts\[1\]=' '"),
        (dict(pairs=True), ["a", "b"], "a list of tuples of two str.* Received"),
        (dict(pairs=True), [("a", "b", "c")], "a list of tuples of two str.* Received"),
        (dict(tokenizer=None), ["a"], "`tokenizer`.* `vocabulary_size=257`.* Received: .*=9"),
        (dict(vocabulary_size=257, tokenizer=None, use_segments=True), [("a", "b")],
         "`use_segments=False`. Received: .*use_segments=True"),
        (dict(vocabulary_size=7), ["a"], "must be at least that of the tokenizer, 8.*=7"),
        (dict(tokenizer='{"model": 1}'), ["a"], "a readable `tokenizer.json`. Received"),
    ],
)  # fmt: skip
def test_invalid_texts_or_tokenizer_raise(arguments, texts, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        make(**arguments).predict(texts)


@pytest.mark.once
def test_invalid_token_arrays_raise():
    model, ids = tiny("SimpleTRON"), np.ones((1, 10), "int32")
    for take in (model, model.predict):
        with pytest.raises(ValueError, match="'ids', 'mask'"):
            take({"ids": ids, "mask": ids > 0})


@pytest.mark.once
def test_object_arrays_must_hold_texts():
    answers = tiny("SimpleTRON").predict(np.array(["a", "b"], object), verbose=0)
    assert answers.shape[0] == 2
    with pytest.raises(ValueError, match="`texts` must be a list of str"):
        tiny("SimpleTRON").predict([np.array(["a"]), np.array(["b", "c"])])


def test_empty_list_and_pixel_model_raise():
    with pytest.raises(ValueError, match=r"`texts` must be a list of str.*Received: texts=\[\]"):
        make().encode([])
    with pytest.raises(ValueError, match="`x` must be images.*'good'"):
        tiny("CSPMEGA", image_size=4).encode(["good"])


def test_invalid_tokenizer_raises(tmp_path):
    for given in ("nowhere.json", tmp_path):
        with pytest.raises(ValueError, match=f"`tokenizer` must be .* Received: .*{given}"):
            make(tokenizer=given)
    for given in ('{"a": 1}', "{"):
        with pytest.raises(ValueError, match="`tokenizer` must be .* Received: '{"):
            make(tokenizer=given).encode(["good"])


def test_missing_tokenizers_library_raises_for_texts(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    model = make()
    model.predict(model.make_inputs(0, 1), verbose=0)
    with pytest.raises(ImportError, match=r'pip install "keras_permix\[text\]"'):
        model.predict(["good"])


def test_tokenizer_is_saved_with_model(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(TEXT, encoding="utf-8")
    model = make(tokenizer=path)
    path.unlink()
    expected = model.predict(["good film"], verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_close(loaded.predict(["good film"], verbose=0), expected, kind="model")
    other = model.reset_classifier(2).encode(["good film"])
    np.testing.assert_array_equal(other["tokens"], model.encode(["good film"])["tokens"])
    encoder = pickle.loads(pickle.dumps(model.text_encoder()))
    np.testing.assert_array_equal(encoder(["good film"], 8)["tokens"], other["tokens"])


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("presets") / "films"
    make(labels=["a", "b", "c"]).save_to_preset(folder)
    return folder


def test_preset_contains_tokenizer_file(preset):
    assert (preset / "tokenizer.json").read_text(encoding="utf-8") == TEXT
    assert "tokenizer.json" in preset_info(preset).files.names
    assert "tokenizer" not in json.loads((preset / "config.json").read_text())["config"]
    model = SimpleTRON.from_preset(preset)
    expected = make().predict(["good film", "bad"], verbose=0)
    assert_close(model.predict(["good film", "bad"], verbose=0), expected, kind="model")
    assert SimpleTRON.from_preset(preset, num_classes=2).encode(["good"])["tokens"][0, 1] == 4
    swapped = {**TOKENIZER, "model": {**TOKENIZER["model"], "vocab": dict(
        zip((*WORDS[:4], "bad", "good", *WORDS[6:]), range(8), strict=True)
    )}}  # fmt: skip
    with pytest.warns(UserWarning, match="predicts well only.*Received: tokenizer="):
        other = SimpleTRON.from_preset(preset, tokenizer=json.dumps(swapped))
    assert other.encode(["good"])["tokens"][0, 1] == 5
    np.testing.assert_array_equal(other.get_weights()[0], model.get_weights()[0])


def test_preset_ignores_tokenizer_path_in_config(tmp_path):
    """Only files that are listed with a checksum are read, so none outside the folder."""
    make(tokenizer=None).save_to_preset(tmp_path / "preset")
    (tmp_path / "outside.json").write_text(TEXT)
    change = {"tokenizer": str(tmp_path / "outside.json")}
    edit_json(tmp_path / "preset" / "config.json", lambda spec: spec["config"].update(change))
    list_anew(tmp_path / "preset", "config.json")
    model = SimpleTRON.from_preset(tmp_path / "preset")
    assert model.get_config()["tokenizer"] is None


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff", "can't decode byte 0xff"), (b"[]", "`tokenizer` must be a `tokenizer.json`")],
)
def test_damaged_tokenizer_in_preset_raises(tmp_path, content, message):
    make().save_to_preset(tmp_path / "preset")
    (tmp_path / "preset" / "tokenizer.json").write_bytes(content)
    with pytest.raises(ValueError, match="tokenizer.json` must "):
        SimpleTRON.from_preset(tmp_path / "preset")
    list_anew(tmp_path / "preset", "tokenizer.json")
    with pytest.raises(ValueError, match=message):
        SimpleTRON.from_preset(tmp_path / "preset")


def test_task_and_command_line_use_tokenizer(preset, tmp_path, capsys):
    rows = [{"text": "good film", "label": "a"}, {"text": "bad", "label": "b"}]
    rows.append({"text": "films", "label": "c"})
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    model = SimpleTRON.from_preset(preset)
    spec = dict(name="mine", train="a.jsonl", test="a.jsonl")
    data = task_of(model).load(spec, tmp_path)
    inputs, _ = Pipeline(*data.train, batch_size=3)[0]
    np.testing.assert_array_equal(
        inputs["tokens"], model.encode([r["text"] for r in rows])["tokens"]
    )
    assert inputs["tokens"][0].tolist() == [2, 4, 6, 3, 0, 0, 0, 0]
    assert main(["predict", str(preset), "good film", "--top", "1"]) == 0
    ((label, probability),) = model.classify(["good film"], top=1)[0]
    answer = f"good film\n  {100 * probability:6.2f} %  {label}\n"
    assert capsys.readouterr().out == answer
    table = tmp_path / "texts.csv"
    table.write_text("text\ngood film\n")
    assert main(["predict", str(preset), "--from", str(table)]) == 2
    rule = "`--from` must be a text file, one input per line. Received: "
    assert f"{rule}{table}" in capsys.readouterr().err


def test_command_line_reads_joined_pairs(tmp_path, capsys):
    model = make(use_segments=True, labels=["a", "b", "c"])
    model.save_to_preset(tmp_path / "preset")
    assert main(["predict", str(tmp_path / "preset"), "good", "bad", "--top", "1"]) == 0
    ((label, probability),) = model.classify([("good", "bad")], top=1)[0]
    answer = f"good bad\n  {100 * probability:6.2f} %  {label}\n"
    assert capsys.readouterr().out == answer
    (tmp_path / "pairs.tsv").write_text("good\tbad\n\ngood\tbad\n")
    source = ["--from", str(tmp_path / "pairs.tsv")]
    assert main(["predict", str(tmp_path / "preset"), *source, "--top", "1"]) == 0
    assert capsys.readouterr().out == 2 * answer
    (tmp_path / "pairs.tsv").write_text("good\n")
    assert main(["predict", str(tmp_path / "preset"), *source]) == 2
    rule = "`INPUT` or `--from` must give 2 inputs per prediction. Received: [['good']]"
    assert rule in capsys.readouterr().err
