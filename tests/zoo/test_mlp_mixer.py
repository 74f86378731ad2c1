"""Test MLP-Mixers: parameter counts, MACs, outputs of the authors' code, image sizes, errors."""

from functools import partial

import numpy as np
import pytest

from keras_permix.analysis import count_macs
from keras_permix.zoo import ButterflyMixer, MLPMixer, PatchOnlyMLPMixer
from tests.harness import assert_close, load_golden, to_numpy
from tests.layers.blocks.test_mlp_mixer_block import MIXER_WEIGHTS
from tests.layers.butterfly.golden import patch_only_weights
from tests.oracle import butterfly as oracle
from tests.zoo.models import tiny

GOLDEN = load_golden("mixers")
SMALL = dict(image_size=32, patch_size=4, hidden_dim=121, num_layers=7)  # Table II
C1 = partial(MLPMixer, image_size=36, patch_size=4, hidden_dim=144, expansion=2)  # Table V
C2 = partial(MLPMixer, image_size=32, patch_size=4, hidden_dim=153, expansion=2)
PATCHES = partial(PatchOnlyMLPMixer, image_size=35, patch_sizes=(5, 7))
LINEAR = dict(mlp="butterfly_linear")
OF_100 = dict(num_classes=100)
PAPER_COUNTS = {  # parameters, and millions of MACs as the paper rounds them
    "II dense": (MLPMixer, dict(**SMALL, expansion=1), 351_675, 20.73),
    "II linear": (ButterflyMixer, dict(**SMALL, **LINEAR, expansion=1), 140_961, 5.0),
    "II butterfly": (ButterflyMixer, dict(**SMALL, expansion=1), 143_551, 5.33),
    "II wide dense": (MLPMixer, dict(**SMALL, expansion=2), 615_288, 40.89),
    "II wide linear": (ButterflyMixer, dict(**SMALL, **LINEAR, expansion=2), 193_860, 9.34),
    "II wide butterfly": (ButterflyMixer, dict(**SMALL, expansion=2), 197_745, 9.88),
    "V c1": (C1, dict(num_layers=7), 896_779, 74.65),
    "V patches": (PATCHES, dict(num_layers=7), 807_082, 23.04),
    "V c2": (C2, dict(num_layers=7), 884_408, 60.48),
    "V c1 of 100": (C1, dict(num_layers=7, **OF_100), 1_946_629, 75.7),
    "V patches of 100": (PATCHES, dict(num_layers=7, **OF_100), 1_137_922, 23.37),
    "V c2 of 100": (C2, dict(num_layers=7, **OF_100), 1_765_778, 61.36),
    "V deep c1": (C1, dict(num_layers=10), 1_228_096, 106.36),
    "V deep patches": (PATCHES, dict(num_layers=10), 1_137_220, 32.9),
    "V deep c2": (C2, dict(num_layers=10), 1_218_257, 86.16),
    "V deep c1 of 100": (C1, dict(num_layers=10, **OF_100), 2_277_946, 107.41),
    "V deep patches of 100": (PATCHES, dict(num_layers=10, **OF_100), 1_468_060, 33.23),
    "V deep c2 of 100": (C2, dict(num_layers=10, **OF_100), 2_099_627, 87.04),
}

OUR_MACS = {  # in millions, to three decimals
    "II dense": 20.726,
    "II wide dense": 40.891,
    "II linear": 5.006,
    "II wide linear": 9.342,
    "II butterfly": 5.331,
    "II wide butterfly": 9.884,
    "V c1": 74.653,
    "V c1 of 100": 75.703,
    "V c2": 60.478,
    "V patches": 23.039,
}


@pytest.mark.once
@pytest.mark.parametrize("row", PAPER_COUNTS)
def test_parameter_counts_and_macs_match_paper(row):
    make, arguments, parameters, macs = PAPER_COUNTS[row]
    model = make(**arguments)
    assert model.count_params() == parameters
    counted = count_macs(model)
    assert abs(counted.total / 1e6 - macs) < 0.01 and not counted.uncounted
    if row in OUR_MACS:
        assert round(counted.total / 1e6, 3) == OUR_MACS[row]


def identity_preprocessing(channels):
    """Return arguments for which preprocessing is the identity."""
    return dict(channels=channels, mean=(0.0,) * channels, std=(1 / 255,) * channels)


# The authors' inputs are random numbers outside the range of images.
@pytest.mark.filterwarnings("ignore:`x` must contain images of 0–255:UserWarning")
def test_mlp_mixer_tokens_match_authors():
    """Each pixel is a token, and the embedding is the identity."""
    model = MLPMixer(2, 1, num_classes=3, hidden_dim=6, num_layers=1, **identity_preprocessing(6))
    model.get_layer("patch_embedding").set_weights([np.eye(6), np.zeros(6)])
    model.get_layer("block_0").set_weights([GOLDEN[f"mixer_{name}"] for name in MIXER_WEIGHTS])
    images = GOLDEN["mixer_x"].reshape(2, 2, 2, 6).astype("float32")
    (tokens,) = model.features(images)
    assert_close(to_numpy(tokens), GOLDEN["mixer_out"])
    assert_close(to_numpy(model(images)), read_out(model, GOLDEN["mixer_out"]), kind="model")


@pytest.mark.filterwarnings("ignore:`x` must contain images of 0–255:UserWarning")
def test_patch_only_mixer_images_match_authors():
    model = PatchOnlyMLPMixer(6, [3], num_classes=3, num_layers=1, **identity_preprocessing(2))
    model.get_layer("block_0").set_weights(patch_only_weights(GOLDEN))
    images = GOLDEN["patch_image"].astype("float32")
    (mixed,) = model.features(images)
    assert_close(to_numpy(mixed), GOLDEN["patch_out"])
    assert_close(to_numpy(model(images)), read_out(model, GOLDEN["patch_out"]), kind="model")


def read_out(model, features):
    """Compute logits from flattened features; those of images are (row, column, channel)."""
    kernel, bias = model.get_layer("head").get_weights()
    return features.reshape(len(features), -1) @ kernel + bias


@pytest.mark.parametrize("class_name", ["ButterflyMixer", "MLPMixer", "PatchOnlyMLPMixer"])
def test_resizing_aligns_corners(class_name):
    model = tiny(class_name, mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    images = np.random.default_rng(0).integers(0, 256, (2, 4, 5, 3), "uint8")
    size = model.preprocessor.image_size
    resized = images.astype("float64")
    for axis in (1, 2):
        side = images.shape[axis]
        at = np.linspace(0, side - 1, size)
        resized = np.apply_along_axis(lambda x: np.interp(at, range(len(x)), x), axis, resized)  # noqa: B023
    wanted = (resized / 255 - [0.1, 0.2, 0.3]) / [0.4, 0.5, 0.6]
    assert_close(to_numpy(model.preprocessor(images)), wanted)


def test_patch_tokens_are_in_row_major_order():
    model = tiny("MLPMixer", mean=[0.0] * 3, std=[1.0] * 3)
    embedding = model.get_layer("patch_embedding")
    images = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3), "uint8")
    kernel, bias = embedding.get_weights()
    wanted = oracle.patches(images / 255, 2) @ kernel + bias
    assert_close(to_numpy(embedding(model.preprocessor(images))), wanted)


def test_hidden_dim_adds_pixel_embedding():
    model = tiny("PatchOnlyMLPMixer", hidden_dim=5)
    assert model.get_layer("pixel_embedding").kernel.shape == (3, 5)
    images = model.make_inputs(0, 2)
    assert [tokens.shape for tokens in model.features(images)] == [(2, 6, 6, 5)] * 2
    names = [layer.name for layer in tiny("PatchOnlyMLPMixer", hidden_dim=3).layers]
    assert "pixel_embedding" not in names


@pytest.mark.parametrize("class_name", ["MLPMixer", "ButterflyMixer"])
def test_mlp_argument_overrides_class_default(class_name):
    models = [tiny(class_name, mlp=mlp, hidden_dim=9) for mlp in ("dense", "butterfly", None)]
    counts = [model.count_params() for model in models]
    assert counts[0] > counts[1] and counts[2] == counts[class_name == "ButterflyMixer"]


@pytest.mark.once
@pytest.mark.parametrize(
    ("class_name", "arguments"),
    [
        ("MLPMixer", {}),
        ("ButterflyMixer", {}),
        ("ButterflyMixer", dict(mlp="butterfly_linear", hidden_dim=16)),
        ("PatchOnlyMLPMixer", {}),
    ],
)
def test_reset_classifier_keeps_backbone_weights(class_name, arguments):
    model = tiny(class_name, **arguments)
    again = model.reset_classifier(5)
    assert again.output_shape == (None, 5)
    for ours, theirs in zip(again.backbone.weights, model.backbone.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs))


@pytest.mark.once
def test_load_preset_with_new_image_size_and_head():
    preset = PatchOnlyMLPMixer.from_preset("test")
    model = PatchOnlyMLPMixer.from_preset("test", image_size=12, num_classes=5)
    assert model.preprocessor.image_size == 12 and model.output_shape == (None, 5)
    for ours, theirs in zip(model.backbone.weights, preset.backbone.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs))


@pytest.mark.parametrize(
    ("class_name", "arguments", "message"),
    [
        ("MLPMixer", dict(hidden_dmi=64), r"MLPMixer accepts.*Did you mean `hidden_dim`\?"),
        ("MLPMixer", dict(mlp="sparse"), "`mlp` must be one of.*'sparse'"),
        ("MLPMixer", dict(num_layers=0), "`num_layers` must be a positive integer.*num_layers=0"),
        (
            "MLPMixer",
            dict(hidden_dim=2.5),
            "`hidden_dim` must be a positive integer.*hidden_dim=2.5",
        ),
        ("MLPMixer", dict(expansion=0), "`expansion` must be a positive integer.*expansion=0"),
        ("MLPMixer", dict(patch_size=3), "`patch_size` must divide `image_size`.*=3"),
        ("MLPMixer", dict(patch_size=0), "`patch_size` must be a positive integer.*patch_size=0"),
        ("MLPMixer", dict(image_size=(8, 8)), r"`image_size` must be a pos.*image_size=\(8, 8\)"),
        (
            "MLPMixer",
            dict(mean=(0.5,)),
            "`mean` must contain one finite value per channel.*channels=3",
        ),
        (
            "MLPMixer",
            dict(layer_norm_epsilon="x"),
            "`layer_norm_epsilon` must be a positive number.*'x'",
        ),
        ("ButterflyMixer", dict(mlp="butterfly_linear"), "channels must be a square.*8"),
        ("ButterflyMixer", dict(image_size=2), "`block_size` must be an integer of at least 2.*1"),
        (
            "PatchOnlyMLPMixer",
            dict(patch_sizes=[]),
            r"`patch_size` must be a positive integer.*\[\]",
        ),
        ("PatchOnlyMLPMixer", dict(patch_sizes=(4, 5)), "`patch_sizes` must divide.*4, 5"),
        ("PatchOnlyMLPMixer", dict(patch_sizes=(2, 1.5)), "`patch_size` must be a pos.*1.5"),
        ("PatchOnlyMLPMixer", dict(image_size=0), "`image_size` must be a positive.*=0"),
        (
            "PatchOnlyMLPMixer",
            dict(hidden_dim=0),
            "`hidden_dim` must be a positive integer or None.*=0",
        ),
        ("PatchOnlyMLPMixer", dict(std=(0, 1, 1)), "`std` must be a positive number.*std="),
    ],
)
def test_invalid_argument_raises(class_name, arguments, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        tiny(class_name, **arguments)
