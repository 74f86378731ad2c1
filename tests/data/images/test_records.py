"""Test `RecordSource` and `ResizeCrop`: images of different sizes, resized per batch."""

import numpy as np
import pytest

from keras_permix.data import Pipeline, RecordSource, ResizeCrop


def ramp(height, width, channels=3):
    """Return an image that increases to the right in channel 0, and downwards in the others."""
    x = np.linspace(0, 255, width)[None, :, None]
    y = np.linspace(0, 255, height)[:, None, None]
    planes = [np.broadcast_to(y if c else x, (height, width, 1)) for c in range(channels)]
    return np.concatenate(planes, -1).astype("uint8")


RECORDS = [{"image": ramp(40 + i, 60 - i), "label": i % 3} for i in range(10)]


def test_center_crop():
    image = ResizeCrop(16, keep=0.5)(ramp(40, 80))
    assert image.shape == (16, 16, 3) and image.dtype == "uint8"
    # The central 20 x 20 pixels of 40 x 80: 3/8 to 5/8 of the width.
    np.testing.assert_allclose(image[:, [0, -1], 0].mean(0), [98, 157], atol=3)
    np.testing.assert_allclose(image[[0, -1], :, 1].mean(1), [66, 189], atol=5)


def test_one_channel_and_invalid_keep():
    assert ResizeCrop(16)(ramp(20, 30, 1)).shape == (16, 16, 1)
    for keep in (0, 1.5):
        with pytest.raises(ValueError, match=f"`keep` must be .*keep={keep}"):
            ResizeCrop(16, keep=keep)


def test_random_crops_respect_area_and_aspect():
    crop = ResizeCrop(32, random=True, area=(0.2, 0.5), aspect=(0.5, 2.0))
    image, rng = ramp(200, 200), np.random.default_rng(0)
    boxes = []
    for _ in range(40):
        cut = crop(image, rng).astype(float)
        boxes.append((np.ptp(cut[..., 0]) / 255, np.ptp(cut[..., 1]) / 255))
    widths, heights = np.array(boxes).T
    assert np.all((widths * heights > 0.15) & (widths * heights < 0.52))
    assert np.ptp(widths * heights) > 0.15
    assert (widths / heights).min() < 0.8 and (widths / heights).max() > 1.25


def test_elongated_image_falls_back_to_center_crop():
    long = ramp(4, 400)
    cut = ResizeCrop(8, random=True, area=(0.9, 1.0))(long, np.random.default_rng(0))
    np.testing.assert_array_equal(cut, ResizeCrop(8)(long))


def test_record_batches_depend_on_seed_and_epoch():
    def batches(epoch, seed=0):
        source = RecordSource(RECORDS, ResizeCrop(16, random=True), seed)
        made = Pipeline(source, None, batch_size=4, num_classes=3, shuffle=True, epoch=epoch)
        return [made[2], made[0]]

    (tail, tail_labels), (head, _) = batches(1)
    assert head.shape == (4, 16, 16, 3) and tail.shape == (2, 16, 16, 3)
    assert tail_labels.dtype == "int32"
    np.testing.assert_array_equal(head, batches(1)[1][0])
    assert not np.array_equal(head, batches(0)[1][0])
    assert not np.array_equal(head, batches(1, seed=1)[1][0])


@pytest.mark.parametrize("when", [dict(epoch=1), dict(index=1)], ids=str)
def test_random_crops_differ_between_batches(when):
    source = RecordSource(RECORDS, ResizeCrop(16, random=True))
    assert not np.array_equal(source.read([0, 1])[0], source.read([0, 1], **when)[0])


def test_shuffled_labels_match_images():
    source = RecordSource([{"image": np.full((2, 2, 1), i), "label": i} for i in range(9)])
    images, labels = Pipeline(source, None, batch_size=9, num_classes=9, shuffle=True)[0]
    np.testing.assert_array_equal(images[:, 0, 0, 0], labels)
    assert sorted(labels) == list(range(9)) and list(labels) != list(range(9))


def test_source_can_be_sliced():
    source = RecordSource(RECORDS, ResizeCrop(8))
    part = source[3:7][1:]
    assert (len(part), len(source)) == (3, 10)
    np.testing.assert_array_equal(part.read([0, 2])[1], [4 % 3, 6 % 3])
    with pytest.raises(TypeError, match=r"slices and arrays. Received: source\[0\]"):
        source[0]
