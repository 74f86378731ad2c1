"""Test ButterflyViT: parameter counts, outputs of the authors' code, image sizes, errors."""

import numpy as np
import pytest

from keras_permix.zoo import ButterflyViT
from tests.harness import assert_close, load_golden, to_numpy
from tests.layers.butterfly.golden import golden_host
from tests.zoo.models import tiny

GOLDEN = load_golden("butterfly_attention")
SMALL = dict(hidden_dim=64, mlp_dim=128)
PAPER_COUNTS = {
    "4 layers, patches of 4": (dict(num_layers=4, patch_size=4), 618_122),
    "8 layers, patches of 4": (dict(num_layers=8, patch_size=4), 1_148_042),
    "4 layers, patches of 2": (dict(num_layers=4, patch_size=2, **SMALL), 298_570),
    "4 layers, pixels": (dict(num_layers=4, patch_size=1, **SMALL), 789_514),
    "100 classes, patches of 4": (dict(num_layers=4, patch_size=4, num_classes=100), 1_355_492),
    "100 classes, patches of 2": (
        dict(num_layers=4, patch_size=2, num_classes=100, **SMALL),
        1_773_220,
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("row", PAPER_COUNTS)
def test_parameter_counts_match_paper(row):
    """A dense network, with one block of all tokens, has the same number of parameters."""
    arguments, expected = PAPER_COUNTS[row]
    butterfly = ButterflyViT(**arguments)
    dense = ButterflyViT(**arguments, block_size=(32 // arguments["patch_size"]) ** 2)
    assert butterfly.count_params() == dense.count_params() == expected
    assert butterfly.get_layer("block_0").block.mixer.num_heads == 8


@pytest.mark.once
@pytest.mark.parametrize(("patch_size", "block_size"), [(4, 8), (2, 16), (1, 32)])
def test_block_sizes_and_stages_match_paper(patch_size, block_size):
    model = ButterflyViT(patch_size=patch_size, num_layers=3, num_heads=2, hidden_dim=8, mlp_dim=8)
    blocks = [model.get_layer(f"block_{index}") for index in range(3)]
    assert [(block.block_size, block.stage) for block in blocks] == [
        (block_size, index) for index in range(3)
    ]


# The authors' inputs are random numbers outside the range of images.
@pytest.mark.filterwarnings("ignore:`x` must contain images of 0–255:UserWarning")
@pytest.mark.parametrize("seed", [None, 3])
def test_tokens_match_authors(seed):
    """Each pixel is a token. The embedding is the identity; a seed permutes the tokens."""
    model = ButterflyViT(
        4, 1, num_classes=3, channels=8, hidden_dim=8, num_layers=2, num_heads=2, mlp_dim=16,
        random_order=seed, mean=(0.0,) * 8, std=(1 / 255,) * 8,
    )  # fmt: skip
    model.get_layer("patch_embedding").set_weights([np.eye(8), np.zeros(8)])
    for index in range(2):
        block = model.get_layer(f"block_{index}").block
        block.set_weights(golden_host(GOLDEN, index).get_weights())
    order = np.arange(16) if seed is None else np.random.RandomState(seed).permutation(16)
    images = np.empty((2, 16, 8), "float32")
    images[:, order] = GOLDEN["x"]
    images = images.reshape(2, 4, 4, 8)
    for tokens, name in zip(model.features(images), ("first_layer", "out"), strict=True):
        assert_close(to_numpy(tokens), GOLDEN[name])
    kernel, bias = model.get_layer("head").get_weights()
    wanted = GOLDEN["out"].reshape(2, -1) @ kernel + bias
    assert_close(to_numpy(model(images)), wanted, kind="model")


@pytest.mark.once
def test_mixers_have_the_heads_of_the_model():
    block = tiny("ButterflyViT", num_heads=4, mixer=["linear_attention", None]).get_layer("block_0")
    assert block.block.mixer.num_heads == 4


@pytest.mark.once
def test_load_preset_with_new_image_size_and_head():
    preset = ButterflyViT.from_preset("test")
    model = ButterflyViT.from_preset("test", image_size=12, num_classes=5)
    assert model.get_layer("block_0").block_size == 6 and model.output_shape == (None, 5)
    for ours, theirs in zip(model.backbone.weights, preset.backbone.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs))


@pytest.mark.once
@pytest.mark.parametrize("fixed", [{}, {"block_size": 4}, {"random_order": 0}])
def test_new_image_size_scales_shifts_within_blocks(fixed, tmp_path):
    """Shifts of 0 to 3 in blocks of 4 tokens are doubled in blocks of 8.

    `block_size` and `random_order` disable this.
    """
    sizes = dict(
        patch_size=2, hidden_dim=4, num_layers=2, mlp_dim=4, mixer=dict(name="csp", group_size=2)
    )
    ButterflyViT(image_size=8, **sizes, **fixed).save_to_preset(tmp_path / "preset")
    model = ButterflyViT.from_preset(tmp_path / "preset", image_size=16, num_classes=3)
    assert model.get_config()["steps_image_size"] == 8
    for index in range(2):
        mixer = model.get_layer(f"block_{index}").block.mixer
        assert mixer.shift == ("linear" if fixed else [0, 2, 4, 6])
    fresh = ButterflyViT.from_preset(tmp_path / "preset", image_size=16, load_weights=False)
    assert fresh.get_layer("block_0").block.mixer.shift == "linear"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(heads=2), r"ButterflyViT accepts.*Did you mean `num_heads`\?"),
        (dict(num_layers=0), "`num_layers` must be a positive integer.*num_layers=0"),
        (dict(num_heads=3), "`num_heads` must divide the input width.*num_heads=3"),
        (dict(num_heads=0), "`num_heads` must be a positive integer.*num_heads=0"),
        (dict(mlp_dim=None), "`mlp_dim` must be a positive integer.*mlp_dim=None"),
        (dict(block_size=3), "`block` must divide the size.*block=3"),
        (dict(block_size=1), "`block_size` must be an integer of at least 2.*=1"),
        (dict(random_order=-1), "`seed` must be an integer of at least 0.*-1"),
        (dict(patch_size=3), "`patch_size` must divide `image_size`.*=3"),
        (dict(std=(1, 1)), "`std` must contain one finite value per channel.*channels=3"),
    ],
)
def test_invalid_argument_raises(arguments, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        tiny("ButterflyViT", **arguments)
