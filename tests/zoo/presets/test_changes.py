"""Test presets loaded with overrides: head, image size, dtype and fresh weights."""

from inspect import signature

import keras
import numpy as np
import pytest

from keras_permix import zoo
from keras_permix.data import load_sheet
from keras_permix.layers.embedding.positions import PositionEmbedding, resize_table
from tests.harness import ROOT, assert_close
from tests.zoo.models import TINY, logits, tiny, weights


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("presets") / "preset"
    tiny().save_to_preset(folder)
    return folder


def resized_grid(rows, size, new_size):
    """Resize the rows of a square grid by Keys' cubic interpolation between pixel centers.

    When the grid shrinks, the kernel is widened by the same factor for antialiasing.
    """
    scale = size / new_size
    centers = (np.arange(new_size) + 0.5) * scale - 0.5
    distance = np.abs(centers[:, None] - np.arange(size)) / max(scale, 1)
    near = (1.5 * distance - 2.5) * distance**2 + 1
    far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
    matrix = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
    matrix /= matrix.sum(1, keepdims=True)
    grid = np.einsum("ip,jq,pqc->ijc", matrix, matrix, rows.reshape(size, size, -1))
    return grid.reshape(new_size**2, -1)


@pytest.mark.once
@pytest.mark.parametrize(
    "name",
    [name for name in TINY if "num_classes" in signature(zoo.MODELS[name].__init__).parameters],
)
def test_num_classes_changes_only_the_head(name, tmp_path):
    tiny(name).save_to_preset(tmp_path / "preset")
    before = weights(zoo.MODELS[name].from_preset(tmp_path / "preset"))
    model = zoo.MODELS[name].from_preset(tmp_path / "preset", num_classes=5)
    after = weights(model)
    assert model.output_shape == (None, 5) and after.keys() == before.keys()
    changed = {path for path in after if not np.array_equal(after[path], before[path])}
    assert changed and all(path.startswith("head/") for path in changed)


def test_new_head(preset):
    before = weights(zoo.CSPViT.from_preset(preset))
    model = zoo.CSPViT.from_preset(preset, num_classes=5)
    after = weights(model)
    assert model.output_shape == (None, 5) and after["head/kernel"].shape == (8, 5)
    assert not after["head/kernel"].any() and not after["head/bias"].any()
    for path in set(before) - {"head/kernel", "head/bias"}:
        np.testing.assert_array_equal(after[path], before[path])


@pytest.mark.once
def test_other_labels_get_a_new_head(tmp_path):
    tiny().save_to_preset(tmp_path, labels=["a", "b", "c"])
    same, other = (
        zoo.CSPViT.from_preset(tmp_path, labels=list(labels)) for labels in ("abc", "xyz")
    )
    assert weights(same)["head/kernel"].any() and not weights(other)["head/kernel"].any()
    assert (same.labels, other.labels) == (("a", "b", "c"), ("x", "y", "z"))


@pytest.mark.once
def test_scale_is_reset_with_the_head(tmp_path):
    scale = dict(target_mean=[1.0, 2.0], target_std=[3.0, 4.0])
    tiny(predicts="values", num_classes=2, **scale).save_to_preset(tmp_path)
    for changes in (dict(num_classes=3), dict(predicts="class")):
        fresh = zoo.CSPViT.from_preset(tmp_path, load_weights=False, **changes)
        assert fresh.output_shape[-1] == changes.get("num_classes", 2)
    model = zoo.CSPViT.from_preset(tmp_path)
    model.save_to_preset(tmp_path, labels=["age", "size"])
    other = zoo.CSPViT.from_preset(tmp_path, labels=["age", "weight"])
    assert not logits(other).any() and logits(model).any()


def test_same_number_of_classes_keeps_the_head(preset):
    expected = logits(zoo.CSPViT.from_preset(preset))
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(preset, num_classes=3)), expected)


@pytest.mark.parametrize("side", [6, 2])  # patches; the preset has 4
def test_new_image_size(preset, side):
    before = weights(zoo.CSPViT.from_preset(preset))
    model = zoo.CSPViT.from_preset(preset, image_size=2 * side)
    after = weights(model)
    old, new = before.pop("position_embedding/table"), after.pop("position_embedding/table")
    assert new.shape == (1, side**2 + 1, 8)
    assert_close(new[0, :-1], resized_grid(old[0, :-1], 4, side))
    np.testing.assert_array_equal(new[0, -1], old[0, -1])
    for path in before:
        np.testing.assert_array_equal(after[path], before[path])
    assert np.isfinite(logits(model)).all()


@pytest.mark.once
@pytest.mark.parametrize(("side", "least"), [(24, 0.65), (40, 0.65), (48, 0.65), (64, 0.38)])
def test_accuracy_at_other_image_sizes(side, least):
    """Accuracy on 400 images is at least about 70 %, and about 44 % at 64 pixels.

    With the unscaled steps of 32 pixels, it is 20 to 30 %.
    """
    images, classes, _ = load_sheet(ROOT / "examples/images/cifar10_test.png")
    model = zoo.CSPViT.from_preset("cifar10_small", image_size=side)
    correct = model.predict(images, batch_size=100, verbose=0).argmax(-1) == classes
    assert correct.mean() > least


def steps_of(model):
    return [list(model.get_layer(f"block_{i}").mixer._steps) for i in range(2)]


def test_new_image_size_scales_steps_of_mixers(preset, tmp_path):
    """On 4 x 4 patches, the 8 linear steps are 0, 2, 4, …: two columns, one row, …"""
    model = zoo.CSPViT.from_preset(preset, image_size=16)
    steps = [0, 4, 16, 20, 32, -20, -16, -4]  # from 0, 2, 4, 6, 8, -6, -4 and -2
    assert steps_of(model) == [[step % 64 for step in steps]] * 2
    model.save_to_preset(tmp_path / "resized")
    again = zoo.CSPViT.from_preset(tmp_path / "resized")
    assert again.get_config()["steps_image_size"] == 8 and steps_of(again) == steps_of(model)
    np.testing.assert_array_equal(logits(again), logits(model))
    back = zoo.CSPViT.from_preset(tmp_path / "resized", image_size=8)
    stored = zoo.CSPViT.from_preset(preset)
    assert back.get_layer("block_1").mixer.shift == stored.get_layer("block_1").mixer.shift
    fresh = zoo.CSPViT.from_preset(preset, image_size=16, load_weights=False)
    assert fresh.get_layer("block_1").mixer.shift == "linear"


# Steps on 4 x 4 pixels, and the same moves on 8 x 8: a column, a row, both, two rows, …
MOVES = {0: 0, 1: 2, 4: 16, -4: -16, 5: 18, -1: -2, 3: 14, 8: 32}
DELAYS = {1: 2, 2: 4, 3: 14, 4: 16, 5: 18, 8: 32, 12: 48, 15: 62}
GIVEN = dict(name="csp", shift=[*MOVES], ragged=True)
LINEAR = [0, 4, 16, 20, 32, -20, -16, -4]  # for 16 tokens, as above
WITH_CLASS_TOKEN = [0, 14, 20, -32, -18, -4, 2, 16]  # for 17 tokens: 0, 3, 6, -8, -5, -2, 1, 4
PIXELS = [
    ("MEGA", dict(inner_dim=8, mixer=GIVEN), 64, MOVES.values()),
    ("MEGA", dict(inner_dim=8, mixer=["relu2", "csp"]), 64, LINEAR),
    ("CSPMEGA", dict(hidden_dim=4, inner_dim=None, mixer="circular_shift"), 64, LINEAR),
    ("LRATransformer", dict(mixer=GIVEN), 65, MOVES.values()),
    (
        "LRATransformer", dict(hidden_dim=4, inner_dim=8, mixer="circular_shift"), 65,
        WITH_CLASS_TOKEN,
    ),
    (
        "LRATransformer", dict(mixer=dict(name="causal_csp", delays=[*DELAYS]), pooling="mean"), 99,
        DELAYS.values(),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "tokens", "steps"), PIXELS)
def test_new_image_size_scales_steps_on_pixels(name, arguments, tokens, steps, tmp_path):
    sizes = dict(vocabulary_size=256, image_size=4)
    chunks = dict(chunk_size=None) if name == "MEGA" else {}
    tiny(name, **sizes, **chunks, **arguments).save_to_preset(tmp_path / "preset")
    cls = zoo.MODELS[name]
    model = cls.from_preset(tmp_path / "preset", image_size=8)
    assert model.get_config()["steps_image_size"] == 4 and np.isfinite(logits(model)).all()
    found = model.get_layer("block_1").mixer._steps
    found = found if isinstance(found, tuple) else found.at(tokens)
    assert [step % tokens for step in found] == [step % tokens for step in steps]
    fresh = cls.from_preset(tmp_path / "preset", image_size=8, load_weights=False)
    assert fresh.get_config()["steps_image_size"] is None
    model.save_to_preset(tmp_path / "resized")
    fresh = cls.from_preset(tmp_path / "resized", image_size=4, load_weights=False)
    assert fresh.get_config()["steps_image_size"] is None


def test_one_preset_used_several_times_in_a_model(preset, tmp_path):
    """Loaded models have unique names in an ensemble, and `name` overrides them."""
    models = [zoo.CSPViT.from_preset(preset, **name) for name in ({}, {}, {"name": "third"})]
    images = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), "uint8")
    inputs = keras.Input((8, 8, 3))
    ensemble = keras.Model(inputs, keras.layers.add([model(inputs) for model in models]))
    assert ensemble.layers[3].name == models[2].name == "third"
    summed = keras.ops.convert_to_numpy(ensemble(images))
    expected = keras.ops.convert_to_numpy(models[0](images))
    assert_close(summed, 3 * expected)
    ensemble.save(tmp_path / "ensemble.keras")
    loaded = keras.saving.load_model(tmp_path / "ensemble.keras")
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(loaded(images)), summed)


@pytest.mark.parametrize("side", [7, 5, 3, 2])
def test_class_token_row_is_kept(side):
    table = np.random.default_rng(0).normal(size=(1, 17, 8)).astype("float32")
    before, after = PositionEmbedding(True), PositionEmbedding(True)
    before.build((None, 16, 8))
    after.build((None, side**2, 8))
    resized = keras.ops.convert_to_numpy(resize_table(table, before, after))
    np.testing.assert_array_equal(resized[0, 0], table[0, 0])
    assert_close(resized[0, 1:], resized_grid(table[0, 1:], 4, side))


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_float16"])
def test_dtype_of_every_layer(preset, dtype):
    model = zoo.CSPViT.from_preset(preset, dtype=dtype)
    assert model.dtype_policy.name == dtype
    layers = [model.get_layer(name) for name in ("patch_embedding", "block_1", "head")]
    layers += [layers[1].mixer, layers[1].mixer.value_dense, layers[1].mlp_in]
    assert {layer.dtype_policy.name for layer in layers} == {dtype}


def test_weights_in_bfloat16(preset):
    loaded = weights(zoo.CSPViT.from_preset(preset, dtype="bfloat16"))
    for path, value in weights(zoo.CSPViT.from_preset(preset)).items():
        assert loaded[path].dtype == "bfloat16"
        np.testing.assert_allclose(loaded[path].astype("float32"), value, rtol=2**-8)


def test_fresh_weights(preset):
    keras.utils.set_random_seed(7)
    fresh = zoo.CSPViT.from_preset(preset, load_weights=False)
    keras.utils.set_random_seed(7)
    again = zoo.CSPViT(**zoo.preset_info(preset).config)
    np.testing.assert_array_equal(logits(fresh), logits(again))
    assert np.abs(logits(fresh) - logits(zoo.CSPViT.from_preset(preset))).max() > 0.01


def test_arguments_without_weights(preset):
    model = zoo.CSPViT.from_preset(preset, dropout=0.5, name="mine")
    assert model.name == "mine" and model.get_layer("block_0").dropout == 0.5
    np.testing.assert_array_equal(logits(model), logits(zoo.CSPViT.from_preset(preset)))


@pytest.mark.once
def test_array_arguments_match_lists(tmp_path):
    """Loaded files contain lists, and an array equal to a stored list is not a change."""
    steps = np.arange(8)
    mixers = [{"name": "csp", "shift": by * steps} for by in (1, 2)]
    model = tiny(mixer=mixers)
    model.save(tmp_path / "model.keras")
    model.save_to_preset(tmp_path / "preset")
    again = [
        keras.saving.load_model(tmp_path / "model.keras"),
        zoo.CSPViT.from_preset(tmp_path / "preset", mixer=mixers, mean=np.full(3, 0.5)),
    ]
    for one in again:
        assert [mixer["shift"] for mixer in one.get_config()["mixer"]] == [
            [0, 1, 2, 3, 4, 5, 6, 7],
            [0, 2, 4, 6, 8, 10, 12, 14],
        ]
        np.testing.assert_array_equal(logits(one), logits(model))
    tiny(mixer=mixers[0]).save_to_preset(tmp_path / "preset")
    with pytest.warns(UserWarning, match=r"Received: mixer=\{'name': 'csp', 'shift': \[7, 6, 5,"):
        zoo.CSPViT.from_preset(tmp_path / "preset", mixer={"shift": steps[::-1]})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"hidden_dmi": 16}, r"Did you mean `hidden_dim`.* Received: \['hidden_dmi'\]"),
        ({"hidden_dim": 16}, r"'hidden_dim': 16\}, with which `.*` is \(12, 16\) .*\(12, 8\)"),
        ({"num_layers": 3}, r"'num_layers': 3\}, with which `block_2/.*instead of None"),
        (
            {"pooling": "cls", "mixer": {"name": "csp", "group_size": 1}},
            r"`position_embedding/table` is \(1, 17, 8\) instead of None",
        ),
        ({"image_size": 9}, "`patch_size` must divide `image_size`"),
    ],
)  # fmt: skip
def test_overrides_incompatible_with_weights_raise(preset, overrides, message):
    with pytest.raises(ValueError, match=message):
        zoo.CSPViT.from_preset(preset, **overrides)
