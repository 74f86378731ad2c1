"""Test the ViT family: parameter counts, outputs of the authors' code, features, errors."""

import re

import keras
import numpy as np
import pytest

from keras_permix.layers.embedding.images import resize_patches
from keras_permix.zoo import ButterflyViT, CSPViT, MLPMixer, SliceViT, ViT
from tests.harness import assert_close, load_golden, to_numpy
from tests.zoo.models import tiny

IDENTITY = dict(mean=(0.0,) * 3, std=(1 / 255,) * 3)
GOLDEN = dict(
    image_size=8, num_classes=3, hidden_dim=8, num_layers=1, keep_unused_params=True, **IDENTITY
)


def golden_model(golden):
    """Build the model of a golden file."""
    if "shifts" in golden:
        mixer = dict(name="csp", group_size=2, shift=golden["shifts"].tolist())
        return ViT(patch_size=2, mlp_dim=8, mixer=mixer, **GOLDEN)
    mixer = dict(name="attention", num_heads=2, head_dim=4)
    return ViT(patch_size=4, mlp_dim=12, mixer=mixer, pooling="cls", **GOLDEN)


def set_golden_weights(model, golden):
    """Set the weights of a one-block model from a golden file, by the authors' names."""
    block = model.get_layer("block_0")
    pairs = [
        (model.get_layer("patch_embedding"), "patch_kernel", "patch_bias"),
        (model.get_layer("position_embedding"), "pos_embedding", "cls_token"),
        (block.mixer_norm, "l0_ln1_gamma", "l0_ln1_beta"),
        (block.mixer.output_dense, "l0_out_kernel", "l0_out_bias"),
        (block.mlp_norm, "l0_ln2_gamma", "l0_ln2_beta"),
        (block.mlp_in, "l0_fc1_kernel", "l0_fc1_bias"),
        (block.mlp_out, "l0_fc2_kernel", "l0_fc2_bias"),
        (model.get_layer("head_norm"), "head_ln_gamma", "head_ln_beta"),
        (model.get_layer("head"), "head_kernel", "head_bias"),
    ]
    if "l0_value_kernel" in golden:
        pairs.append((block.mixer.value_dense, "l0_value_kernel"))
    else:
        pairs.append((block.mixer.qkv_dense, "l0_qkv_kernel"))
    for layer, *names in pairs:
        layer.set_weights([golden[name] for name in names])


# The authors' inputs are random numbers outside the range of images.
@pytest.mark.filterwarnings("ignore:`x` must contain images of 0–255:UserWarning")
@pytest.mark.parametrize("name", ["vit_csp", "vit_mha"])
def test_logits_match_authors(name):
    golden = load_golden(name)
    model = golden_model(golden)
    set_golden_weights(model, golden)
    logits = model(golden["image"].astype("float32"))
    assert_close(to_numpy(logits), golden["logits"], kind="model")


def test_patch_embedding_matches_authors():
    golden = load_golden("vit_csp")
    model = golden_model(golden)
    set_golden_weights(model, golden)
    embedded = model.get_layer("patch_embedding")(golden["image"].astype("float32"))
    assert_close(to_numpy(embedded), golden["patch_embed"])


CIFAR_100 = dict(
    image_size=32,
    patch_size=2,
    num_classes=100,
    hidden_dim=512,
    num_layers=6,
    mlp_dim=512,
    pooling="cls",
)
IMAGENET = dict(
    image_size=224, patch_size=16, num_classes=1000, hidden_dim=384, num_layers=12, mlp_dim=1536
)
TINY_IMAGENET = {**IMAGENET, "pooling": "cls"}

HEADS = dict(name="attention", num_heads=8, head_dim=64)
HEADS_WITH_BIAS = dict(name="attention", num_heads=6, head_dim=64, use_qkv_bias=True)
SORT = dict(name="slice_sort")
# Models without a recipe; `test_recipe.py` tests those with a recipe.
PAPER_COUNTS = {
    "ImageNet CSP value bias": (IMAGENET, dict(name="csp", use_value_bias=True), 18_502_504),
    "ImageNet CSP inner 768 value bias": (
        IMAGENET,
        dict(name="csp", inner_dim=768, use_value_bias=True),
        22_046_056,
    ),
    "Slice CIFAR-100 attention": (CIFAR_100, HEADS, 9_649_764),
    "Slice Tiny-ImageNet attention": (TINY_IMAGENET, HEADS_WITH_BIAS, 22_050_664),
    "Slice Tiny-ImageNet": (TINY_IMAGENET, {**SORT, "use_value_bias": True}, 18_502_504),
    "Slice Tiny-ImageNet attention as printed": (
        {**TINY_IMAGENET, "hidden_dim": 386, "mlp_dim": 1544},
        dict(name="attention", num_heads=2, head_dim=193, use_qkv_bias=True),
        22_276_674,
    ),
}


@pytest.mark.parametrize("row", PAPER_COUNTS)
def test_parameters_are_the_papers(row):
    arguments, mixer, expected = PAPER_COUNTS[row]
    model = ViT(**arguments, mixer=mixer, keep_unused_params=True)
    assert model.count_params() == expected


def test_unused_parameters_are_absent_by_default():
    """With mean pooling, the class token and its position are unused."""
    with_unused, without = tiny(), tiny(keep_unused_params=False)
    assert with_unused.count_params() - without.count_params() == 2 * 8


@pytest.mark.parametrize(("cls", "mixer"), [(CSPViT, "csp"), (SliceViT, "slice_sort")])
def test_class_equals_vit_with_mixer(cls, mixer):
    arguments = dict(image_size=8, patch_size=2, hidden_dim=8, num_layers=2, mlp_dim=8)
    model, vit = cls(**arguments), ViT(**arguments, mixer=mixer)
    vit.set_weights(model.get_weights())
    images = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), "uint8")
    np.testing.assert_array_equal(to_numpy(model(images)), to_numpy(vit(images)))


@pytest.mark.parametrize(
    ("pooling", "pool"),
    [("mean", lambda x: x.mean(1)), ("max", lambda x: x.max(1)), ("cls", lambda x: x[:, 0])],
)
def test_head_uses_pooled_tokens(pooling, pool):
    model = tiny("SliceViT", pooling=pooling)  # accepts any number of tokens
    images = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), "uint8")
    (tokens,) = model.features(images, layers=[-1])
    assert tokens.shape == (2, 16 + (pooling == "cls"), 8)
    x = pool(to_numpy(tokens).astype("float64"))
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    gamma, beta = model.get_layer("head_norm").get_weights()
    kernel, bias = model.get_layer("head").get_weights()
    assert_close(to_numpy(model(images)), (x * gamma + beta) @ kernel + bias, kind="model")


def test_features_are_in_requested_order():
    model = tiny(num_layers=3)
    images = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), "uint8")
    first, second, third = model.features(images)
    last, begin = model.features(images, layers=(-1, 0))
    np.testing.assert_array_equal(to_numpy(last), to_numpy(third))
    np.testing.assert_array_equal(to_numpy(begin), to_numpy(first))
    assert_close(to_numpy(model.get_layer("block_2")(second)), to_numpy(third))
    for one in (-1, np.int64(2), np.array([2])):
        (found,) = model.features(images, layers=one)
        np.testing.assert_array_equal(to_numpy(found), to_numpy(third))


@pytest.mark.once
@pytest.mark.parametrize("layers", [[2], [-3], np.arange(3), "block_0", []])
def test_features_of_missing_blocks_raise(layers):
    with pytest.raises(ValueError, match="indices of 2 blocks. Received: layers="):
        tiny().features(np.zeros((1, 8, 8, 3), "uint8"), layers=layers)


@pytest.mark.once
def test_new_image_size_scales_causal_delays(tmp_path):
    mixer = dict(name="causal_csp", delays=4, inner_dim=4)  # 1, 2, 3 and 4: one row of the grid
    tiny(mixer=mixer).save_to_preset(tmp_path / "preset")
    model = CSPViT.from_preset(tmp_path / "preset", image_size=16)
    for index in range(2):
        assert model.get_layer(f"block_{index}").mixer.delays == [2, 4, 14, 16]


@pytest.mark.once
def test_new_patch_size_scales_steps_to_new_grid(tmp_path):
    mixer = dict(name="csp", group_size=2, shift=[0, 1, 4, 5, 8, 9, 12, 13])  # moves on 4 x 4
    tiny(mixer=mixer).save_to_preset(tmp_path / "preset")
    model = CSPViT.from_preset(tmp_path / "preset", patch_size=4, num_classes=5)
    # Two rows become one. One row or column becomes a half, which is rounded to zero.
    assert model.get_layer("block_0").mixer.shift == [0, 0, 0, 0, 2, 2, 0, 0]


@pytest.mark.once
@pytest.mark.parametrize(("old", "new"), [(4, 2), (2, 4), (4, 3)])
def test_resized_patches_match_least_squares(old, new):
    """The kernel gives resized patches the old tokens, as closely as possible."""
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(old * old * 3, 5)).astype("float32")
    basis = np.eye(old * old).reshape(-1, old, old).astype("float32")
    resized = np.stack([resized_by_pillow(image, new) for image in basis]).reshape(len(basis), -1)
    wanted, *_ = np.linalg.lstsq(resized, kernel.reshape(old * old, 15), rcond=None)
    found = to_numpy(resize_patches(kernel, old, new)).reshape(new * new, 15)
    assert_close(found, wanted, kind="model")


def resized_by_pillow(image, size):
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize((size, size), Image.BILINEAR))


@pytest.mark.once
@pytest.mark.parametrize("model_class", [CSPViT, ButterflyViT, MLPMixer])
def test_larger_patches_of_enlarged_images_keep_logits(model_class):
    images = np.random.default_rng(0).uniform(0, 255, (1, 8, 8, 3)).astype("float32")
    enlarged = np.empty((1, 16, 16, 3), "float32")
    for row, column, channel in np.ndindex(4, 4, 3):
        patch = images[0, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2, channel]
        larger = enlarged[0, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4, channel]
        larger[:] = resized_by_pillow(patch, 4)
    model = model_class.from_preset("test")
    larger = model_class.from_preset("test", image_size=16, patch_size=4)
    assert_close(to_numpy(larger(enlarged)), to_numpy(model(images)), kind="model")


def test_resizing_matches_pillow():
    from PIL import Image

    images = np.random.default_rng(0).integers(0, 256, (1, 20, 13, 3), "uint8")
    channels = [Image.fromarray(channel) for channel in images[0].astype("float32").T]
    resized = np.stack([channel.resize((8, 8), Image.BILINEAR) for channel in channels]).T
    preprocessor = tiny(mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6)).get_layer("preprocessor")
    expected = (resized[None] / 255 - [0.1, 0.2, 0.3]) / [0.4, 0.5, 0.6]
    assert_close(to_numpy(preprocessor(images)), expected, kind="model")
    assert_close(to_numpy(preprocessor(preprocessor.resized(images))), expected, kind="model")


def test_plain_image_has_same_logits_at_any_size():
    model = tiny()
    expected = model.predict(np.full((1, 8, 8, 3), 77, "uint8"), verbose=0)
    for height, width in ((16, 16), (5, 11), (9, 3)):
        images = np.full((1, height, width, 3), 77, "uint8")
        assert_close(model.predict(images, verbose=0), expected, kind="model")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(hidden_dmi=64), r"Did you mean `hidden_dim`\? Received: \['hidden_dmi'\]"),
        (dict(num_heads=3), r"must be in `mixer`. Received: \['num_heads'\]"),
        (dict(num_layers=0), "`num_layers` must be a positive integer.*num_layers=0"),
        (dict(hidden_dim=0), "`hidden_dim` must be a positive integer.*hidden_dim=0"),
        (dict(mlp_dim=0), "`mlp_dim` must be a positive integer.*mlp_dim=0"),
        (dict(num_classes=0), "`num_classes` must be a positive integer.*num_classes=0"),
        (dict(dropout=2), r"`dropout` must be in \[0, 1\).*dropout=2"),
        (dict(dropout="a"), r"`dropout` must be in \[0, 1\).*dropout='a'"),
        (dict(image_size=(64, 32)), r"`image_size` must be a positive.*image_size=\(64, 32\)"),
        (dict(std=(0, 0, 0)), "`std` must be a positive number.*std="),
        (dict(mean=0.5), "`mean` must contain one finite value per channel.*mean=0.5"),
        (dict(mean=(0.5, 0.5, np.nan)), "`mean` must contain one finite value.*nan"),
        (dict(layer_norm_epsilon=-1), "`layer_norm_epsilon` must be a positive number.*-1"),
        (dict(mixer=dict(name="csp", group_sise=3)), "passed to CSP: .*group_sise"),
        (dict(keep_unused_params="no"), "`keep_unused_params` must be True or False.*'no'"),
        (dict(mixer=dict(name="csp", ragged="no")), "`ragged` must be True or False.*'no'"),
        (dict(patch_size=3), "`patch_size` must divide `image_size`.*=3"),
        (dict(mixer="convolution"), "`mixer` must be one of.*convolution"),
        (dict(mixer=dict(num_heads=2)), "`mixer` must be one of.*num_heads"),
        (dict(pooling="median"), "`pooling` must be one of.*median"),
        (dict(mean=(0.5,)), "`mean` must contain one finite value per channel.*channels=3"),
        (dict(channels=1), "`mean` must contain one finite value per channel.*channels=1"),
        (dict(mixer=dict(name="csp", group_size=3)), "`group_size` must divide.*group_size=3"),
        (dict(mixer=dict(name="csp", group_size=0)), "`group_size` must be a positive.*0"),
        (
            dict(pooling="cls", mixer="csp"),
            "`group_size` must divide.*`ragged=True`.*tokens=17.*class token",
        ),
    ],
)
def test_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        tiny(**arguments)


@pytest.mark.parametrize("size", [dict(pooling="cls"), dict(image_size=6)])
def test_ragged_groups_accept_odd_numbers_of_tokens(size):
    model = tiny(mixer=dict(name="csp", ragged=True), **size)
    images = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), "uint8")
    assert np.isfinite(to_numpy(model(images))).all()


@pytest.mark.parametrize("shape", [(2, 8, 8, 4), (2, 8, 8, 1), (2, 8, 8), (2, 3, 8, 8)])
def test_images_with_wrong_shape_raise(shape):
    model = tiny(num_layers=1)
    model.compile("sgd", "mse")
    message = (
        r"`images` must have the shape \(batch, height, width, 3\).*Received: images.shape=|"
        # For symbolic inputs, Keras raises an error first.
        rf"'images' .*found shape={re.escape(str((None, *shape[1:])))}"
    )
    images = np.zeros(shape, "float32")
    calls = [
        lambda: model(images),
        lambda: model(keras.Input(shape[1:])),
        lambda: model.predict(images, verbose=0),
        lambda: model.fit(images, np.zeros((2, 3)), verbose=0),
        lambda: model.get_layer("preprocessor")(images),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()
