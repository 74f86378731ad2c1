"""Test SimpleTRON, and BERT, which is SimpleTRON with softmax attention."""

import keras
import numpy as np
import pytest

from keras_permix import swap_mixer
from keras_permix.zoo import SimpleTRON
from tests.harness import assert_close, to_numpy
from tests.harness.models import fit_once
from tests.zoo.models import tiny, weights

RNG = np.random.default_rng(0)


def pooled(model, inputs):
    return to_numpy(keras.Model(model.input, model.get_layer("pooler").output)(inputs))


@pytest.mark.once
def test_parameter_count_matches_bert_base():
    """Build one block and add the count of eleven more."""
    model = SimpleTRON(num_layers=1, dtype="float16")
    block = model.get_layer("block_0").count_params()
    head = model.get_layer("head").count_params()
    assert model.count_params() - head + 11 * block == 109_482_240
    assert model.backbone.count_params() + 11 * block == 108_891_648


@pytest.mark.parametrize(
    ("arguments", "matters"),
    [
        (dict(variant="softmax"), False),
        (dict(scale="valid"), False),
        (dict(scale=None), False),
        (dict(scale="length"), True),
    ],
    ids=str,
)
def test_padding_affects_only_length_scaling(arguments, matters):
    model = tiny("SimpleTRON", **arguments)
    tokens = RNG.integers(1, 257, (3, 8)).astype("int32")
    mask = np.repeat(np.arange(8)[None] < 5, 3, axis=0)
    found = model.predict({"tokens": tokens, "mask": mask}, verbose=0)
    other = model.predict({"tokens": np.where(mask, tokens, 7), "mask": mask}, verbose=0)
    assert_close(found, other, kind="model")
    short = model.predict({"tokens": tokens[:, :5], "mask": mask[:, :5]}, verbose=0)
    assert np.allclose(found, short, atol=1e-4) is not matters


def test_embedding_matches_numpy():
    """The class token comes first and has no type; words have the first type."""
    model = tiny("SimpleTRON")
    inputs = model.make_inputs(0, 3)
    found = keras.Model(model.input, model.get_layer("embedding_norm").output)(inputs)
    held = weights(model)
    words = (
        held["token_embedding/embeddings"][inputs["tokens"]] + held["type_embedding/embeddings"][0]
    )
    first = np.repeat(held["position_embedding/class_token"], 3, axis=0)
    x = np.concatenate([first, words], axis=1) + held["position_embedding/table"]
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
    expected = x * held["embedding_norm/gamma"] + held["embedding_norm/beta"]
    assert_close(to_numpy(found), expected)


@pytest.mark.parametrize("variant", ["simple_resl", "softmax"])
def test_class_token_reaches_other_tokens(variant):
    model = tiny("SimpleTRON", variant=variant)
    inputs = model.make_inputs(0, 3)
    (before,) = model.features(inputs, layers=[0])
    model.get_layer("position_embedding").class_token.assign_add(RNG.normal(size=(1, 1, 8)))
    (after,) = model.features(inputs, layers=[0])
    changes = np.abs(to_numpy(after) - to_numpy(before)).max(axis=-1)
    assert changes[:, :2].min() > 1e-3


def test_pair_head_joins_both_texts():
    model = tiny("SimpleTRON", pairs=True)
    inputs = model.make_inputs(0, 3)
    vectors = pooled(model, inputs)
    assert vectors.shape == (6, 8) and vectors.min() >= 0  # a ReLU
    one, other = vectors[::2], vectors[1::2]
    joined = np.concatenate([one, other, abs(one - other), one * other], axis=1)
    held = weights(model)
    assert_close(to_numpy(model(inputs)), joined @ held["head/kernel"] + held["head/bias"])
    alone = {name: array[:, 1] for name, array in inputs.items()}
    single = tiny("SimpleTRON", use_class_token=True)
    for weight in single.weights:
        if weight.path in held and "head" not in weight.path:
            weight.assign(held[weight.path])
    assert_close(pooled(single, alone), other)
    assert model.task == "pair_classification"


def test_segment_ids_distinguish_texts_of_a_pair():
    model = tiny("SimpleTRON", use_segments=True, variant="softmax")
    inputs = model.make_inputs(0, 4)
    assert sorted(inputs) == ["mask", "segment_ids", "tokens"] and inputs["segment_ids"].max() == 1
    assert not np.any(inputs["segment_ids"] & ~inputs["mask"])
    outputs = to_numpy(model(inputs))
    none = {**inputs, "segment_ids": np.zeros_like(inputs["tokens"])}
    assert not np.allclose(to_numpy(model(none)), outputs)
    without = tiny("SimpleTRON", variant="softmax")
    without.set_weights(model.get_weights())
    del none["segment_ids"]
    found = to_numpy(without(none))
    assert_close(found, to_numpy(model({**none, "segment_ids": 0 * inputs["tokens"]})))
    assert model.task == "pair_classification" and without.task == "text_classification"
    with pytest.raises(ValueError, match=r"`segment_ids` must be integers in .0, 2.*to 2,"):
        model.predict({**inputs, "segment_ids": inputs["segment_ids"] + 1}, verbose=0)


@pytest.mark.parametrize("variant", ["simple_l", "simple_resl"])
def test_with_variant_keeps_weights(variant):
    model = tiny("SimpleTRON", variant=variant)
    other = model.with_variant("softmax")
    assert other.get_config()["variant"] == "softmax"
    fresh = tiny("SimpleTRON", variant="softmax")
    fresh.set_weights(model.get_weights())
    inputs = model.make_inputs(1, 3)
    np.testing.assert_array_equal(to_numpy(other(inputs)), to_numpy(fresh(inputs)))
    assert not np.allclose(to_numpy(other(inputs)), to_numpy(model(inputs)))
    again = other.with_variant(variant)
    np.testing.assert_array_equal(to_numpy(again(inputs)), to_numpy(model(inputs)))


def test_with_variant_freezes_queries_keys_and_values():
    model = tiny("SimpleTRON", labels=["a", "b", "c"])
    model.get_layer("token_embedding").trainable = False
    other = model.with_variant("softmax", freeze=True)
    frozen = {f"block_{n}/attention/qkv/{kind}" for n in (0, 1) for kind in ("kernel", "bias")}
    frozen |= {"token_embedding/embeddings"}
    assert {weight.path for weight in other.non_trainable_weights} == frozen
    assert other.labels == ("a", "b", "c")
    before = weights(other)
    fit_once(other)
    after = weights(other)
    same = {path for path in before if np.array_equal(before[path], after[path])}
    assert same == frozen
    thawed = model.with_variant("softmax").non_trainable_weights
    assert [weight.path for weight in thawed] == ["token_embedding/embeddings"]


def test_with_variant_freezes_only_attention_blocks():
    model = swap_mixer(tiny("SimpleTRON").with_variant("softmax"), "csp", layers=[1])
    other = model.with_variant("softmax", freeze=True)
    frozen = [weight.path for weight in other.non_trainable_weights]
    assert frozen == [f"block_0/attention/qkv/{kind}" for kind in ("kernel", "bias")]
    with pytest.raises(ValueError, match="`mixer` must be None.*'csp'"):
        swap_mixer(model, "csp").with_variant("softmax")


def test_mixers_have_the_heads_of_the_model():
    wanted = tiny("SimpleTRON", variant="softmax")
    model = tiny("SimpleTRON", variant="softmax", mixer="attention")
    model.set_weights(wanted.get_weights())
    inputs = model.make_inputs(0, 3)
    np.testing.assert_array_equal(to_numpy(model(inputs)), to_numpy(wanted(inputs)))


def test_with_variant_adds_but_never_drops_projection():
    model = tiny("SimpleTRON", variant="simple")
    other = model.with_variant("softmax")
    new = weights(other).keys() - weights(model).keys()
    assert new == {
        f"block_{n}/attention/output/{kind}" for n in (0, 1) for kind in ("kernel", "bias")
    }
    with pytest.raises(ValueError, match="all weights.*without.*'block_0/attention/output/bias'"):
        other.with_variant("simple")
    with pytest.raises(ValueError, match="`variant` must be one of.*'linear'"):
        model.with_variant("linear")


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(variant="plain"), "`variant` must be one of .*'plain'"),
        (dict(scale="width"), "`scale` must be one of .*'width'"),
        (dict(pooler="gelu"), "`pooler` must be one of .*'gelu'"),
        (dict(num_layers=0), "`num_layers` must be a positive integer.*0"),
        (dict(num_segments=0), "`num_segments` must be .*0"),
        (dict(dropout=1.0), r"`dropout` must be in \[0, 1\).*1.0"),
        (dict(num_heads=3), "`num_heads` must divide the input width.*num_heads=3"),
        (dict(use_segments=True, pairs=True), "`use_segments` must be False.*pairs=True"),
        (dict(use_segments=True, num_segments=None), "without `num_segments`.*num_segments=None"),
    ],
)
def test_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        tiny("SimpleTRON", **arguments)
