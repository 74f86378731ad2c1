"""Test LRATransformer: golden values, parameter counts, padding, heads, images and errors."""

import keras
import numpy as np
import pytest

from keras_permix.layers.mixers import MIXERS
from keras_permix.zoo import LRATransformer
from tests.backends import quick
from tests.harness import assert_close, fit_once, load_golden, to_numpy
from tests.zoo.models import tiny

GOLDEN = {
    "attention": load_golden("lra_transformer"),
    "slice_sort": load_golden("lra_sliceformer_block"),
}


@pytest.mark.parametrize("mixer", GOLDEN)
def test_block_matches_golden_values(mixer):
    golden = GOLDEN[mixer]
    spec = {"name": mixer, "num_heads": int(golden["heads"])} if "heads" in golden else mixer
    inner = golden["value_kernel"].shape[1]
    model = LRATransformer(
        max_sequence_length=7, hidden_dim=6, inner_dim=inner, num_layers=1, mlp_dim=10, mixer=spec
    )
    block = model.get_layer("block_0")
    kernels = [
        golden[f"{name}_kernel"] for name in ("q", "k", "value") if f"{name}_kernel" in golden
    ]
    block.mixer.set_weights([np.concatenate(kernels, axis=1), golden["out_kernel"]])
    for layer, name in (
        (block.mixer_norm, "ln1"),
        (block.mlp_in, "fc1"),
        (block.mlp_out, "fc2"),
        (block.mlp_norm, "ln2"),
    ):
        kinds = ("gamma", "beta") if name.startswith("ln") else ("kernel", "bias")
        layer.set_weights([golden[f"{name}_{kind}"] for kind in kinds])
    wanted = golden["block_out" if mixer == "attention" else "out"]
    assert_close(to_numpy(block(golden["x"].astype("float32"))), wanted)


LISTOPS = dict(
    vocabulary_size=32, max_sequence_length=2000, num_classes=10, hidden_dim=512, mlp_dim=1024
)
TEXT = dict(max_sequence_length=1000, hidden_dim=256, mlp_dim=1024)
RETRIEVAL = dict(pairs=True, hidden_dim=128, mlp_dim=512)
STACKS = {
    "ListOps": (LISTOPS, 8_402_944, 6_305_792),
    "Text": (TEXT, 3_154_944, 2_630_656),
    "Retrieval": (RETRIEVAL, 791_040, 659_968),
}


@pytest.mark.once
@pytest.mark.parametrize("task", STACKS)
def test_parameter_counts_of_encoder_stacks(task):
    arguments, *expected = STACKS[task]
    for mixer, count in zip(("attention", "slice_sort"), expected, strict=True):
        model = LRATransformer(**arguments, mixer=mixer)
        blocks = [model.get_layer(f"block_{index}") for index in range(4)]
        assert sum(block.count_params() for block in blocks) == count


IMDB = dict(
    vocabulary_size=16_000, max_sequence_length=512, num_layers=6, use_bias=True, activation="relu",
    norm_first=False, pooling="max", head_dims=(),
)  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize(("mixer", "count"), [("attention", 8_835_074), ("slice_sort", 8_045_570)])
def test_parameter_counts_of_text_classifier(mixer, count):
    assert LRATransformer(**IMDB, mixer=mixer).count_params() == count


def padded(inputs, length):
    """Pad texts to a length with id 0 and mask `False`."""
    missing = ((0, 0), (0, length - inputs["tokens"].shape[1]))
    return {name: np.pad(array, missing) for name, array in inputs.items()}


# Required arguments of mixers, and mixers with outputs that depend on the number of tokens.
SPECS = {
    "csp": {"align": "reference"},
    "linformer": {"mixtures": 4},
    "local_attention": {"block_size": 5},
    "simple_attention": {"scale": "valid"},
}
LENGTH_DEPENDENT = ("butterfly_attention", "fourier")


@pytest.mark.parametrize("mixer", sorted(set(MIXERS) - {*LENGTH_DEPENDENT}))
def test_padding_does_not_change_logits(mixer):
    spec = {"name": mixer, **SPECS.get(mixer, {})}
    pooling = "mean" if mixer == "causal_csp" else "cls"
    model = tiny(
        "LRATransformer", max_sequence_length=16, num_layers=1, mixer=spec, pooling=pooling
    )
    inputs = model.make_inputs(0, 3)
    inputs = {name: array[:, :11] for name, array in inputs.items()}
    inputs["mask"][0] = True
    call = quick(model)
    logits = to_numpy(call(inputs))
    assert_close(to_numpy(call(padded(inputs, 16))), logits, kind="model")
    other = np.where(inputs["mask"], inputs["tokens"], 5)
    assert_close(to_numpy(call({**inputs, "tokens": other})), logits, kind="model")
    other = inputs["tokens"] % 7 + 1
    assert not np.allclose(to_numpy(call({**inputs, "tokens": other}))[0], logits[0], atol=1e-3)


CAUSAL = (
    "causal_csp",
    {"name": "simple_attention", "causal": True},
    {"name": "damped_ema", "bidirectional": False},
)


@pytest.mark.parametrize("mixer", CAUSAL)
@pytest.mark.parametrize(
    ("class_name", "arguments"),
    [("LRATransformer", {"pooling": "cls"}), ("ViT", {"pooling": "cls"}), ("SimpleTRON", {})],
)
def test_class_token_with_causal_mixer_raises(class_name, arguments, mixer):
    with pytest.raises(ValueError, match="reads the first token.*mixer="):
        tiny(class_name, mixer=mixer, **arguments)
    tiny(class_name, mixer=[mixer, "slice_sort"], **arguments)


@pytest.mark.parametrize("pooling", ["mean", "max", "mean_of_length"])
def test_padding_is_not_pooled(pooling):
    model = tiny(
        "LRATransformer", max_sequence_length=16, num_layers=1, pooling=pooling, head_dims=()
    )
    inputs = model.make_inputs(0, 3)
    inputs = {name: array[:, :11] for name, array in inputs.items()}
    tokens = to_numpy(model.get_layer("final_norm")(model.features(inputs, layers=[-1])[0]))
    pooled = [
        {"mean": np.mean, "max": np.max, "mean_of_length": lambda x, axis: x.sum(axis) / 16}[
            pooling
        ](sample[real], axis=0)
        for sample, real in zip(tokens, inputs["mask"], strict=True)
    ]
    kernel, bias = model.get_layer("head").get_weights()
    logits = to_numpy(model(inputs))
    assert_close(logits, np.array(pooled) @ kernel + bias, kind="model")
    assert_close(to_numpy(model(padded(inputs, 16))), logits, kind="model")


@pytest.mark.parametrize("pooling", ["cls", "mean", "max", "mean_of_length"])
@pytest.mark.parametrize("mixer", ["attention", "slice_sort"])
def test_text_without_tokens_has_finite_logits(pooling, mixer):
    model = tiny("LRATransformer", pooling=pooling, mixer=mixer)
    inputs = model.make_inputs(0, 2)
    inputs["mask"][1] = False
    assert np.isfinite(to_numpy(model(inputs))).all()


def test_pairs_with_butterfly_attention():
    """The head compares the texts of a pair, and two layers mix all tokens."""
    model = tiny(
        "LRATransformer", pairs=True, max_sequence_length=16, mixer="butterfly_attention",
        use_bias=True,
        activation="gelu", positions="learned", pooling="mean_of_length", compare_pairs=True,
        head_dims=[5], embedding_stddev=0.02,
    )  # fmt: skip
    assert model.get_layer("embedding").stddev == 0.02
    inputs = model.make_inputs(0, 2)
    tokens = to_numpy(model.get_layer("final_norm")(model.features(inputs, layers=[-1])[0]))
    mask = inputs["mask"].reshape(4, 16, 1)
    a, b = np.moveaxis((tokens * mask).sum(1).reshape(2, 2, -1) / 16, 1, 0)
    x = np.concatenate([a, b, a * b, a - b], axis=-1)
    for name in ("head_hidden_0", "head"):
        kernel, bias = model.get_layer(name).get_weights()
        x = x @ kernel + bias
        x = np.maximum(x, 0) if name != "head" else x
    assert_close(to_numpy(model(inputs)), x, kind="model")
    whole = {**inputs, "mask": np.ones_like(inputs["mask"])}
    changed = {**whole, "tokens": whole["tokens"].copy()}
    changed["tokens"][0, 0, 3] += 1
    before, after = (to_numpy(model.features(x, layers=[1])[0])[0] for x in (whole, changed))
    assert (np.abs(before - after).max(axis=-1) > 0).all()


@pytest.mark.once
@pytest.mark.parametrize(("pairs", "widths"), [(False, [10]), (True, [10, 5])])
def test_hidden_widths_of_default_head(pairs, widths):
    model = tiny("LRATransformer", pairs=pairs, mlp_dim=10)
    hidden = [layer for layer in model.layers if layer.name.startswith("head_hidden")]
    assert [layer.units for layer in hidden] == widths


def test_post_norm_has_no_final_norm():
    model = tiny("LRATransformer", norm_first=False, activation="relu", head_dims=(), pooling="max")
    names = [layer.name for layer in model.layers]
    assert "final_norm" not in names and not any("hidden" in name for name in names)
    tokens = to_numpy(model.features(model.make_inputs(0, 3), layers=[-1])[0])
    gamma, beta = (to_numpy(w) for w in model.get_layer("block_1").mlp_norm.weights)
    assert_close(((tokens - beta) / gamma).mean(-1), 0)


IMAGES = dict(image_size=4, vocabulary_size=256, positions="learned", pooling="mean")


def test_image_logits_do_not_depend_on_dtype():
    model = tiny("LRATransformer", **IMAGES)
    images = model.make_inputs(0, 2)
    logits = to_numpy(quick(model)(images))
    assert images.shape == (2, 4, 4, 1) and not np.allclose(logits[0], logits[1])
    np.testing.assert_array_equal(to_numpy(quick(model)(images.astype("float32"))), logits)
    assert_close(model.predict(images[:1], verbose=0), logits[:1], kind="model")
    low = tiny("LRATransformer", **IMAGES, dtype="mixed_bfloat16")
    low.set_weights(model.get_weights())
    assert_close(to_numpy(quick(low)(images)), logits, dtype="bfloat16", kind="model")
    assert np.isfinite(fit_once(model))


def test_pixel_values_are_token_ids():
    model = tiny("LRATransformer", **IMAGES)
    assert model.task == "image_classification" and model.get_config()["max_sequence_length"] == 16
    images = np.arange(0, 256, 16, "uint8").reshape(1, 4, 4, 1)
    ids = keras.Model(model.input, model.get_layer("embedding").input)(images)
    assert to_numpy(ids).tolist() == [list(range(0, 256, 16))]
    rounded = keras.Model(model.input, model.get_layer("embedding").input)(images + 0.4)
    assert to_numpy(rounded).tolist() == [list(range(0, 256, 16))]
    outside = np.where(images > 100, 300.0, -9.0).astype("float32")
    ids = keras.Model(model.input, model.get_layer("embedding").input)(outside)
    assert set(to_numpy(ids).ravel().tolist()) == {0, 255}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(mixer="convolution"), "`mixer` must be one of.*convolution"),
        (dict(pooling="sum"), "`pooling` must be one of.*'sum'"),
        (dict(positions="rotary"), "`positions` must be one of.*'rotary'"),
        (dict(activation="silu"), "`activation` must be one of.*'silu'"),
        (dict(inner_dim=6, mixer={"name": "attention", "num_heads": 4}), "`num_heads` must divide"),
        (dict(num_layers=0), "`num_layers` must be.*0"),
        (dict(dropout=1.0), "`dropout` must be in.*1.0"),
        (dict(image_size=4, vocabulary_size=255), "`vocabulary_size` must be at least 256.*255"),
        (dict(image_size=4, pairs=True), "`pairs` must be False.*image_size=4"),
        (dict(steps_image_size=4), "requires `image_size`.*steps_image_size=4"),
        (dict(mixer="csp", image_size=4, vocabulary_size=256), "`group_size` must divide"),
    ],
)
def test_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        tiny("LRATransformer", **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(tokens=np.full((2, 12), 99, "int32")), "`tokens` must be integers in .0, 20.*to 99,"),
        (
            dict(tokens=np.ones((2, 13), "int32"), mask=np.ones((2, 13), bool)),
            r"max_sequence_length=12",
        ),
        (dict(labels=np.ones(2)), r"`x` must have the keys \['tokens', 'mask'\].*'labels'"),
        (dict(mask=np.ones((2, 1), bool)), r"one shape.*'tokens': \(2, 12\), 'mask': \(2, 1\)"),
        (dict(tokens=np.ones((2, 12), "float32")), "`tokens` must be integers.*float32"),
    ],
)
def test_invalid_inputs_raise(change, message):
    model = tiny("LRATransformer")
    with pytest.raises(ValueError, match=f"(?s){message}"):
        model.predict({**model.make_inputs(0, 2), **change}, verbose=0)
