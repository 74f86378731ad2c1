"""Test fingerprints of data sets, and the selection of evenly spaced samples."""

import dataclasses

import keras
import numpy as np
import pytest

from keras_permix.data import Dataset, GraphSource, RecordSource, TextSource, TokenSource
from keras_permix.data.dataset import fingerprint, some, split_source
from keras_permix.data.graphs.smiles import cached_molecules

pytestmark = pytest.mark.once

LABELS = np.arange(40) % 2
PIXELS = np.random.default_rng(0).integers(0, 256, (40, 4, 4, 3), "uint8")


def arrays(pixels):
    return pixels, LABELS


def named(pixels):
    return {"pixels": pixels, "ones": np.ones((40, 2), "int32")}, LABELS


def source(pixels):
    records = zip(pixels, LABELS, strict=True)
    return RecordSource([{"image": image, "label": label} for image, label in records]), None


def texts(pixels):
    return [str(image.sum()) for image in pixels], LABELS


def graphs(pixels):
    smiles = ["C" * (1 + int(image.sum()) % 9) for image in pixels]
    return cached_molecules("mine", smiles), LABELS.astype("float32")


@pytest.mark.parametrize("make", [arrays, named, source, texts, graphs])
@pytest.mark.parametrize("part", ["train", "test", "validation"])
def test_fingerprint_detects_one_changed_sample(make, part):
    if make is graphs:
        pytest.importorskip("rdkit")
    data = Dataset("mine", make(PIXELS), make(PIXELS), ("a", "b"), make(PIXELS))
    changed = PIXELS.copy()
    changed[37] = 255 - changed[37]
    original = fingerprint(data)
    assert fingerprint(dataclasses.replace(data, **{part: make(PIXELS.copy())})) == original
    other = fingerprint(dataclasses.replace(data, **{part: make(changed)}))
    assert {name for name in original if original[name] != other[name]} == {part}


def test_fingerprint_depends_on_names_and_shapes_not_order():
    def digest(**inputs):
        return fingerprint(Dataset("mine", (inputs, LABELS), (inputs, LABELS), ("a", "b")))["test"]

    ones, zeros = np.ones((40, 6)), np.zeros((40, 6))
    assert digest(a=ones, b=zeros) == digest(b=zeros, a=ones)
    assert digest(a=ones, b=zeros) != digest(a=zeros, b=ones)
    assert digest(a=ones) != digest(b=ones) and digest(a=ones) != digest(a=ones.reshape(40, 2, 3))


NUMBERS = np.arange(40)
GRAPH = np.array([[8]]), np.zeros((0, 3), int)
PARTS = {
    "array": (PIXELS, NUMBERS),
    "dict": ({"pixels": PIXELS}, NUMBERS),
    "list": (list(PIXELS), list(NUMBERS)),
    "records": (RecordSource([{"image": PIXELS[n], "label": n} for n in NUMBERS]), None),
    "texts": (TextSource([f"{n}" for n in NUMBERS], NUMBERS, 4), None),
    "tokens": (TokenSource(NUMBERS, np.ones(40), NUMBERS, 4), None),
    "graphs": (GraphSource([GRAPH] * 40, NUMBERS[:, None]), None),
}


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("count", [1, 7, 20, 21, 39, 40, 41, None])
def test_some_selects_evenly_spaced_samples(kind, count):
    inputs, targets = some(PARTS[kind], count)
    wanted = min(count or 40, 40)
    if targets is None:
        targets = inputs.read(np.arange(len(inputs)))[1].reshape(-1)
    else:
        pixels = inputs["pixels"] if kind == "dict" else inputs
        np.testing.assert_array_equal(pixels, PIXELS[targets])
    assert len(targets) == wanted
    gaps = np.diff([*targets, 40])
    assert targets[0] == 0 and set(gaps) <= {40 // wanted, -(-40 // wanted)}


def test_parts_of_tensors_are_tensors():
    parts = split_source((keras.ops.convert_to_tensor(PIXELS), NUMBERS), 30, 10)
    for pixels, numbers in parts:
        assert keras.ops.is_tensor(pixels)
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(pixels), PIXELS[numbers])


@pytest.mark.parametrize("make", [
    lambda: TextSource(["a", "b", "c"], [0, 1], 4),
    lambda: TextSource(["a"], [0, 1], 4),
    lambda: GraphSource([(np.ones((1, 1), int), np.ones((0, 3), int))], [[0.5], [1.0]]),
    lambda: TokenSource([5, 6], [1, 1], [0], 4),
])  # fmt: skip
def test_missing_labels_raise(make):
    with pytest.raises(ValueError, match=r"Received: \d samples, \d targets"):
        make()
