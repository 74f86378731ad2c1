"""Test resizing of patch-dependent weights by nearest neighbors, against loops in NumPy."""

import numpy as np
import pytest

from keras_permix.layers import PositionEmbedding
from keras_permix.layers.embedding.grids import (
    nearest,
    nearest_on_grid,
    resize,
    resize_head,
)
from keras_permix.layers.embedding.positions import resize_table
from keras_permix.zoo import LRATransformer
from tests.harness import assert_close, to_numpy
from tests.zoo.models import tiny, weights

pytestmark = pytest.mark.once


def naive(old, new):
    """Return the nearest old position for each new one, by centers; the later one in a tie."""
    near = []
    for position in range(new):
        distances = [abs((position + 0.5) / new - (one + 0.5) / old) for one in range(old)]
        near.append(max(i for i in range(old) if distances[i] < min(distances) + 1e-9))
    return near


def naive_grid(table, old, new):
    rows = [table[old * row + column] for row in naive(old, new) for column in naive(old, new)]
    return np.stack(rows)


@pytest.mark.parametrize(("old", "new"), [(4, 8), (4, 6), (3, 7), (1, 5), (5, 5), (6, 4), (8, 12)])
def test_nearest_positions(old, new):
    assert nearest(old, new).tolist() == naive(old, new)
    grid = np.arange(old**2)
    assert nearest_on_grid(old, new).tolist() == naive_grid(grid, old, new).tolist()


def naive_merged(table, old, new, summed):
    """Return the mean or sum of the old positions nearest to each position of a coarser grid."""
    near = naive(new, old)
    rows = [[] for _ in range(new**2)]
    for row in range(old):
        for column in range(old):
            rows[new * near[row] + near[column]].append(table[old * row + column])
    return np.stack([np.sum(row, axis=0) / (1 if summed else len(row)) for row in rows])


@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize(("old", "new"), [(8, 4), (7, 3), (5, 4), (3, 1)])
def test_coarser_grid_merges_positions(old, new, summed):
    table = np.random.default_rng(0).normal(size=(old**2, 6)).astype("float32")
    wanted = naive_merged(table, old, new, summed)
    for axis in (0, 1):
        merged = to_numpy(resize(np.moveaxis(table, 0, axis), old, new, axis, summed))
        assert_close(np.moveaxis(merged, axis, 0), wanted)


@pytest.mark.parametrize("extra", ["class token", "unused", "none"])
@pytest.mark.parametrize("new", [3, 6, 8])
def test_position_table(extra, new):
    arguments = {"class token": (True, False), "unused": (False, True), "none": (False, False)}
    before, after = (PositionEmbedding(*arguments[extra]) for _ in range(2))
    before.build((None, 16, 5))
    after.build((None, new**2, 5))
    table = np.random.default_rng(0).normal(size=before.table.shape).astype("float32")
    resized = to_numpy(resize_table(table, before, after, "nearest"))[0]
    first, last = extra == "class token", extra == "unused"
    grid = naive_grid(table[0, first : 16 + first], 4, new)
    wanted = np.concatenate([table[0, :first], grid, table[0, 16 + first :]])
    assert len(wanted) == new**2 + first + last
    np.testing.assert_array_equal(resized, wanted)


def test_resized_head_keeps_outputs_for_repeated_tokens():
    rng = np.random.default_rng(0)
    kernel, tokens = rng.normal(size=(9 * 4, 3)), rng.normal(size=(9, 4))
    grown = to_numpy(resize_head(kernel.astype("float32"), 3, 7))
    repeated = naive_grid(tokens, 3, 7)
    assert_close(repeated.ravel() @ grown, tokens.ravel() @ kernel)


def enlarged(images, factor):
    """Return images of constant 2x2 patches, and the same images enlarged by `factor`."""
    plain = images[:, ::2, ::2].repeat(2, axis=1).repeat(2, axis=2)
    return plain, plain.repeat(factor, axis=1).repeat(factor, axis=2)


@pytest.mark.parametrize(
    ("class_name", "arguments"),
    [
        ("ButterflyViT", {}),
        ("MLPMixer", {}),
        ("ButterflyMixer", {}),
        ("ButterflyMixer", dict(mlp="butterfly_linear", hidden_dim=9)),
    ],
)
def test_resized_model_keeps_outputs_for_repeated_patches(class_name, arguments, tmp_path):
    model = tiny(class_name, **arguments)
    model.save_to_preset(tmp_path / "preset")
    small, large = enlarged(model.make_inputs(0, 2), 2)
    grown = type(model).from_preset(tmp_path / "preset", image_size=16)
    assert_close(to_numpy(grown(large)), to_numpy(model(small)), kind="model")
    other = type(model).from_preset(tmp_path / "preset", image_size=12)
    assert np.isfinite(to_numpy(other(large))).all()
    fresh = type(model).from_preset(tmp_path / "preset", image_size=16, num_classes=5)
    assert fresh.output_shape == (None, 5)
    grown.save_to_preset(tmp_path / "grown")
    again = type(model).from_preset(tmp_path / "grown", image_size=8)
    for path, value in weights(model).items():
        assert_close(weights(again)[path], value)


def test_patch_only_mixer_resizes_only_head(tmp_path):
    model = tiny("PatchOnlyMLPMixer")
    model.save_to_preset(tmp_path / "preset")
    grown = type(model).from_preset(tmp_path / "preset", image_size=12)
    before, after = weights(model), weights(grown)
    head = before.pop("head/kernel").reshape(36, 3, 3)
    assert_close(after["head/kernel"].reshape(144, 3, 3), naive_grid(head, 6, 12) / 4)
    for path, value in before.items():
        np.testing.assert_array_equal(after[path], value)


def test_head_of_smaller_images_sums_positions(tmp_path):
    for name, size, old, new in (("PatchOnlyMLPMixer", 12, 12, 6), ("ButterflyViT", 8, 4, 2)):
        model = tiny(name, image_size=size)
        model.save_to_preset(tmp_path / name)
        shrunk = type(model).from_preset(tmp_path / name, image_size=size // 2)
        head = weights(model)["head/kernel"]
        wanted = naive_merged(head.reshape(old**2, -1), old, new, summed=True)
        assert_close(weights(shrunk)["head/kernel"].reshape(new**2, -1), wanted)


def test_random_order_raises(tmp_path):
    model = tiny("ButterflyViT", random_order=1)
    model.save_to_preset(tmp_path / "preset")
    type(model).from_preset(tmp_path / "preset", image_size=16, patch_size=4)
    with pytest.raises(ValueError, match="`random_order` must be None.*random_order="):
        type(model).from_preset(tmp_path / "preset", image_size=16)


def test_vit_resizes_positions_by_nearest_neighbor(tmp_path):
    model = tiny("ViT")
    model.save_to_preset(tmp_path / "preset")
    arguments = dict(image_size=16, position_resizing="nearest")
    grown = type(model).from_preset(tmp_path / "preset", **arguments)
    before, after = (one.get_layer("position_embedding").table for one in (model, grown))
    wanted = naive_grid(to_numpy(before)[0, :16], 4, 8)
    np.testing.assert_array_equal(to_numpy(after)[0, :64], wanted)
    with pytest.raises(ValueError, match="`position_resizing` must be one of.*bilinear"):
        tiny("ViT", position_resizing="bilinear")


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_positions_of_pixel_sequence_are_resized(pooling, tmp_path):
    arguments = dict(
        vocabulary_size=256, image_size=4, num_classes=3, hidden_dim=8, num_layers=1, mlp_dim=8
    )
    model = LRATransformer(**arguments, positions="learned", pooling=pooling)
    model.save_to_preset(tmp_path / "preset")
    grown = LRATransformer.from_preset(tmp_path / "preset", image_size=8)
    before, after = (weights(one)["embedding/positions"] for one in (model, grown))
    first = pooling == "cls"
    np.testing.assert_array_equal(after[:first], before[:first])
    np.testing.assert_array_equal(after[first:], naive_grid(before[first:], 4, 8))
