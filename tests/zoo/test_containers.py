"""Test conversion and checks of inputs, targets and sample weights in various containers."""

import io

import keras
import numpy as np
import pytest
from PIL import Image

from tests.harness import assert_close
from tests.zoo.models import tiny

IMAGES = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3), "uint8")
LABELS = np.array([0, 1, 2, 0])
TEXTS = ["a good film", "a bad one", "so so", "fine"]
SPARSE = keras.losses.SparseCategoricalCrossentropy


def pandas(values):
    return pytest.importorskip("pandas").Series(list(values))


def frame(values):
    return pytest.importorskip("pandas").DataFrame({"column": list(values)})


def column(values, features=None):
    """Return a column of Hugging Face's `datasets`; its `from_dict` fails with PyArrow 26."""
    datasets, pyarrow = pytest.importorskip("datasets"), pytest.importorskip("pyarrow")
    values = values.tolist() if isinstance(values, np.ndarray) else values
    info = features and datasets.DatasetInfo(features=datasets.Features({"column": features}))
    table = pyarrow.table({"column": values})
    return datasets.Dataset(table, info=info, fingerprint="test")["column"]


def column_of_pictures(pictures):
    files = [io.BytesIO() for _ in pictures]
    for picture, file in zip(pictures, files, strict=True):
        picture.save(file, "PNG")
    rows = [{"bytes": file.getvalue(), "path": "a.png"} for file in files]
    return column(rows, pytest.importorskip("datasets").Image())


def foreign(values):
    name = "tensorflow" if keras.config.backend() == "torch" else "torch"
    package = pytest.importorskip(name)
    return getattr(package, {"torch": "tensor", "tensorflow": "constant"}[name])(values)


NUMBERS = {"list": np.ndarray.tolist, "Series": pandas, "column": column, "foreign": foreign}


def compiled(loss=None, **arguments):
    model = tiny(**arguments)
    model.compile("sgd", loss or SPARSE(from_logits=True), weighted_metrics=["accuracy"])
    return model


@pytest.mark.parametrize("kind", NUMBERS)
def test_images_and_targets(kind):
    model, make = compiled(num_classes=3), NUMBERS[kind]
    expected = model.evaluate(IMAGES, LABELS, sample_weight=LABELS + 0.5, verbose=0)
    x, y, weights = make(IMAGES), make(LABELS), make(LABELS + 0.5)
    assert_close(model.evaluate(x, y, sample_weight=weights, verbose=0), expected, kind="model")
    assert_close(model.predict(x, verbose=0), model.predict(IMAGES, verbose=0), kind="model")
    assert model.classify(x) == model.classify(IMAGES)
    history = model.fit(x, y, sample_weight=weights, validation_data=(x, y, weights), verbose=0)
    assert np.isfinite(history.history["val_loss"]).all()


@pytest.mark.parametrize("kind", [*NUMBERS, "DataFrame"])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (LABELS + 1, "`y` must contain classes from 0 to 2"),
        (LABELS - 0.5, "`y` must contain classes from 0 to 2"),
    ],
)
def test_invalid_classes_raise(kind, y, message):
    model, make = compiled(num_classes=3), {**NUMBERS, "DataFrame": frame}[kind]
    for call in (
        lambda: model.fit(IMAGES, make(y), verbose=0),
        lambda: model.evaluate(IMAGES, make(y), verbose=0),
        lambda: model.fit(IMAGES, LABELS, validation_data=(IMAGES, make(y)), verbose=0),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("kind", NUMBERS)
def test_invalid_numbers_and_sample_weights_raise(kind):
    model, make = compiled("mse", num_classes=3), NUMBERS[kind]
    with pytest.raises(ValueError, match="`y` must (contain finite|be an array of) numbers"):
        model.fit(IMAGES, make(np.full((4, 3), np.nan)), verbose=0)
    with pytest.raises(ValueError, match=r"`y` must be \(samples, 3\).*y.shape=\(4, 2\)"):
        model.fit(IMAGES, make(np.ones((4, 2))), verbose=0)
    with pytest.raises(ValueError, match="`sample_weight` must be finite"):
        weights = np.array([1, np.nan, 1, 1])
        model.fit(IMAGES, np.ones((4, 3)), sample_weight=make(weights), verbose=0)


def test_missing_values_and_strings_in_pandas_raise():
    table = pytest.importorskip("pandas")
    for y in (table.Series([0, 1, None, 2], dtype="Int64"), pandas(["a", "b", "a", "b"])):
        with pytest.raises(ValueError, match="`y` must (contain classes|be an array of numbers)"):
            compiled(num_classes=3).fit(IMAGES, y, verbose=0)
    compiled(num_classes=3).fit(IMAGES, table.Series([0, 1, 2, 0], dtype="Int64"), verbose=0)
    with pytest.raises(ValueError, match="`texts` must be a list of str"):
        texts = table.Series([None, "a text"], dtype=object)
        tiny("SimpleTRON", max_sequence_length=16).predict(texts, verbose=0)


def test_pillow_images():
    model = compiled(num_classes=3)
    pictures = [Image.fromarray(image) for image in IMAGES]
    expected = model.predict(IMAGES, verbose=0)
    assert_close(model.predict(pictures, verbose=0), expected, kind="model")
    assert_close(model.predict(pandas(pictures), verbose=0), expected, kind="model")
    assert_close(model.predict(column_of_pictures(pictures), verbose=0), expected, kind="model")
    assert len(model.classify([*pictures, pictures[0].resize((5, 9))])) == 5
    gray = tiny(channels=1, mean=(0.5,), std=(0.5,))
    assert gray.predict([picture.convert("L") for picture in pictures], verbose=0).shape[0] == 4


class Batches(keras.utils.PyDataset):
    def __init__(self, *batch):
        super().__init__()
        self.batch = batch

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return self.batch if len(self.batch) > 1 else self.batch[0]


@pytest.mark.parametrize("make", [list, np.array, pandas, frame, column])
def test_texts(make):
    model, texts = compiled(class_name="SimpleTRON", max_sequence_length=16), make(TEXTS)
    expected = model.predict(TEXTS, verbose=0)
    assert_close(model.predict(texts, verbose=0), expected, kind="model")
    assert model.classify(texts) == model.classify(TEXTS)
    assert_close(model.predict(Batches(texts), verbose=0)[:4], expected, kind="model")
    batches = (texts for _ in range(2))
    assert_close(model.predict(batches, steps=1, verbose=0), expected, kind="model")
    y = LABELS % 2
    model.fit(Batches(texts, y), validation_data=Batches(texts, y), verbose=0)
    model.fit(((texts, y) for _ in range(3)), steps_per_epoch=1, shuffle=False, verbose=0)


def test_text_pairs_in_data_frame():
    table = pytest.importorskip("pandas").DataFrame({"a": TEXTS, "b": TEXTS[::-1]})
    model = tiny("LRATransformer", pairs=True, vocabulary_size=257)
    expected = model.predict(list(zip(TEXTS, TEXTS[::-1], strict=True)), verbose=0)
    assert_close(model.predict(table, verbose=0), expected, kind="model")


@pytest.mark.parametrize("make", [np.array, pandas, frame, column])
def test_molecules(make):
    pytest.importorskip("rdkit")
    from keras_permix.zoo import Graphormer

    model = Graphormer.from_preset("test")
    expected = model.predict(["CCO", "CC"], verbose=0)
    assert_close(model.predict(make(["CCO", "CC"]), verbose=0), expected, kind="model")


def loader(*arrays):
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(*map(torch.as_tensor, arrays))
    return torch.utils.data.DataLoader(data, batch_size=2)


def dataset(*arrays):
    tensorflow = pytest.importorskip("tensorflow")
    return tensorflow.data.Dataset.from_tensor_slices(arrays).batch(2)


@pytest.mark.everywhere
@pytest.mark.parametrize("make", [Batches, loader, dataset])
def test_64_bit_batches_do_not_warn(make):
    """JAX warns if it truncates 64-bit numbers to 32 bits."""
    model = compiled(num_classes=3)
    model.fit(make(IMAGES, LABELS, LABELS + 0.5), verbose=0, shuffle=False)
    model.evaluate(make(IMAGES, LABELS, LABELS + 0.5), verbose=0)


def test_64_bit_arrays_do_not_warn():
    model = compiled(num_classes=3)
    held_out = (IMAGES, LABELS, LABELS + 0.5)
    model.fit(IMAGES.astype("int64"), LABELS, validation_data=held_out, verbose=0)
    model.evaluate(IMAGES, LABELS, verbose=0)


def test_user_module_named_datasets():
    batches = type("Batches", (list,), {"__module__": "datasets"})([IMAGES[0], IMAGES[1]])
    np.testing.assert_array_equal(tiny(num_classes=3).to_arrays(batches), IMAGES[:2])

    class Batches(keras.utils.PyDataset):
        __module__ = "datasets.mine"

        def __len__(self):
            return 2

        def __getitem__(self, index):
            return IMAGES[2 * range(2)[index] :][:2], LABELS[:2]

    compiled(num_classes=3).fit(Batches(), verbose=0)


def test_integers_beyond_32_bits_raise():
    large = LABELS.astype("int64") + 2**32
    with pytest.raises(ValueError, match="4294967296"):
        compiled(num_classes=3).fit(IMAGES, large, verbose=0)
