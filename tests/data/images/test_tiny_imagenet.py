"""Test Tiny-ImageNet: its folder, the cache of decoded images and errors."""

import numpy as np
import pytest
from PIL import Image

from keras_permix.data import load_images
from keras_permix.data.images import tiny_imagenet

WNIDS = ("n03126707", "n01443537", "n02012849")
WORDS = "n01443537\tgoldfish, Carassius auratus\nn02012849\tcrane\nn03126707\tcrane, lifter\n"
LABELS = ("goldfish", "crane (n02012849)", "crane (n03126707)")


def save(path, color):
    """Save a JPEG of a single color, with one channel if `color` is an int."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = "L" if isinstance(color, int) else "RGB"
    Image.new(mode, (64, 64), color).save(path, "JPEG")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Write the official layout, with two training images and one test image per class."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    path = tmp_path / "tiny-imagenet-200"
    path.mkdir()
    (path / "words.txt").write_text(WORDS)
    (path / "wnids.txt").write_text("\n".join(WNIDS))
    rows = []
    for number, wnid in enumerate(WNIDS):
        save(path / f"train/{wnid}/images/{wnid}_0.JPEG", 40 * number)
        save(path / f"train/{wnid}/images/{wnid}_1.JPEG", (200, 40 * number, 0))
        save(path / f"val/images/val_{number}.JPEG", (0, 0, 50 * number))
        rows.append(f"val_{number}.JPEG\t{wnid}\t0\t0\t9\t9\n")
    (path / "val/val_annotations.txt").write_text("".join(rows))
    return path


@pytest.fixture
def decoded(monkeypatch):
    """Record the paths of the decoded files."""
    paths = []
    read = tiny_imagenet.read_image
    monkeypatch.setattr(
        tiny_imagenet, "read_image", lambda path: (paths.append(path), read(path))[1]
    )
    return paths


def test_images_labels_and_names(folder, tmp_path):
    data = load_images("tiny_imagenet", tmp_path)
    (x, y), (test_x, test_y) = data.train, data.test
    assert data.labels == LABELS
    assert y.tolist() == [0, 0, 1, 1, 2, 2] and test_y.tolist() == [2, 0, 1]
    assert (x.shape, x.dtype, y.dtype) == ((6, 64, 64, 3), "uint8", "int32")
    # Sorted by folder, the classes are 1, 2 and 0 of `WNIDS`.
    colors = [(40,) * 3, (200, 40, 0), (80,) * 3, (200, 80, 0), (0,) * 3, (200, 0, 0)]
    np.testing.assert_allclose(x.mean((1, 2)), colors, atol=2)
    np.testing.assert_allclose(
        test_x.mean((1, 2)), [(0, 0, 50 * number) for number in range(3)], atol=2
    )


def test_other_folders_are_not_classes(folder, tmp_path):
    save(folder / "train/n00000001/images/n00000001_0.JPEG", 9)
    assert load_images("tiny_imagenet", tmp_path).labels == LABELS


def test_files_are_decoded_again_only_after_changes(folder, tmp_path, decoded):
    first = load_images("tiny_imagenet", tmp_path)
    again = load_images("tiny_imagenet", tmp_path)
    assert len(decoded) == 9
    np.testing.assert_array_equal(again.train[0], first.train[0])
    save(folder / "train/n01443537/images/n01443537_7.JPEG", (0, 250, 0))
    assert len(load_images("tiny_imagenet", tmp_path).train[0]) == 7 and len(decoded) == 19
    changed = folder / "val/images/val_0.JPEG"
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype="uint8")).save(changed, "JPEG")
    assert load_images("tiny_imagenet", tmp_path).test[0][0].std() > 30


def test_class_without_images_raises(folder, tmp_path):
    (folder / "train/n01443537/images").rename(folder / "elsewhere")
    with pytest.raises(ValueError, match=r"must have images in .* images of \['n01443537'\]"):
        load_images("tiny_imagenet", tmp_path)
    assert not (tmp_path / "home").exists()


def test_missing_folder_raises(tmp_path, monkeypatch):
    monkeypatch.delenv("KERAS_PERMIX_DATA", raising=False)
    with pytest.raises(
        FileNotFoundError, match="that contains tiny-imagenet-200. Received: no folder"
    ):
        load_images("tiny_imagenet")
    with pytest.raises(
        FileNotFoundError, match="that contains tiny-imagenet-200. Received: .* without"
    ):
        load_images("tiny_imagenet", tmp_path)
