"""Test the Long Range Arena datasets: loading, batches, evaluation and errors."""

import numpy as np
import pytest

from keras_permix.data import Dataset
from keras_permix.data.lra import pixels
from keras_permix.tasks import TASKS, task_of
from keras_permix.zoo import MEGA, LRATransformer
from tests.data.lra.test_listops import SAMPLE
from tests.data.lra.test_retrieval import SAMPLE as PAIRS
from tests.data.lra.test_retrieval import write_reviews

pytestmark = pytest.mark.once
TINY = dict(hidden_dim=8, num_layers=1, mlp_dim=8, mixer="slice_sort")
FEW = dict(train=6, validation=4, test=2, min_tokens=5, max_tokens=20, max_depth=3)


def listops_task(**changes):
    sizes = dict(vocabulary_size=16, max_sequence_length=64, num_classes=10)
    return task_of(LRATransformer(**{**sizes, **changes}, **TINY))


@pytest.mark.parametrize(
    ("spec", "sizes"),
    [(FEW, (6, 4, 2)), (dict(source="files"), (6, 3, 3))],
    ids=["generated", "files"],
)
def test_listops(spec, sizes):
    task = listops_task()
    data = task.load({"name": "listops", **spec}, SAMPLE)
    assert tuple(len(part[0]) for part in (data.train, data.validation, data.test)) == sizes
    task.check_labels(data)
    inputs, targets = task.batches(data.train, 2, training=True)[0]
    assert inputs["tokens"].shape == (2, 64) and targets.shape == (2, 10)
    assert set(task.evaluate(data.validation, 2)) == {"accuracy"}
    (tokens,) = task.read(["[MAX 2 9 [MIN 4 7 ] 0 ]"])["tokens"]
    assert tokens[:11].tolist() == [12, 3, 10, 11, 5, 8, 15, 1, 15, 0, 0]


@pytest.mark.parametrize(
    ("model", "spec", "rule"),
    [
        ({}, dict(source="web"), r"`data.source` must be one of .*source='web'"),
        (dict(vocabulary_size=15), {}, "`vocabulary_size` must be at least 16. Received: 15"),
        (dict(max_sequence_length=1000), {},
         "`max_sequence_length` must be .*max_sequence_length=1000"),
    ],
)  # fmt: skip
def test_invalid_listops_raises(model, spec, rule):
    with pytest.raises(ValueError, match=rule):
        listops_task(**model).load({"name": "listops", **spec})


def test_retrieval():
    task = task_of(LRATransformer(max_sequence_length=32, pairs=True, **TINY))
    data = task.load({"name": "retrieval"}, PAIRS)
    task.check_labels(data)
    inputs, targets = task.batches(data.train, 2, training=True)[0]
    assert inputs["tokens"].shape == (2, 2, 32) and targets.shape == (2, 2)
    assert "accuracy" in task.evaluate(data.validation, 1)


FEW_PICTURES = dict(train=4, validation=2, test=2, contour_length=4, distractors=1)
TINY_MEGA = dict(hidden_dim=4, inner_dim=4, shared_dim=4, ema_dim=2, num_layers=1, mixer="csp")


@pytest.mark.parametrize("model", ["transformer", "mega"])
@pytest.mark.parametrize(
    ("spec", "sizes"),
    [(FEW_PICTURES, (4, 2, 2)), (dict(source="files"), (3, 1, 1))],
    ids=["generated", "files"],
)
def test_pathfinder(model, spec, sizes):
    sized = dict(image_size=32, num_classes=2)
    tiny = {"transformer": LRATransformer(**sized, **TINY), "mega": MEGA(**sized, **TINY_MEGA)}
    task = task_of(tiny[model])
    data = task.load({"name": "pathfinder", **spec}, SAMPLE.parent)
    assert tuple(len(part[0]) for part in (data.train, data.validation, data.test)) == sizes
    task.check_labels(data)
    assert "top1" in task.evaluate(data.validation, 1)


def test_gray_pixels(monkeypatch):
    colors = np.zeros((12, 32, 32, 3), "uint8")
    part = (colors, np.arange(12) % 10)
    whole = Dataset("cifar10", part, part, tuple("0123456789"))
    monkeypatch.setattr(pixels, "load_images", lambda name, data_dir: whole)
    task = task_of(LRATransformer(image_size=32, num_classes=10, **TINY))
    data = task.load({"name": "cifar10_gray", "validation": 2})
    assert len(data.train[0]) == 10 and len(data.validation[0]) == 2
    assert set(task.evaluate(data.validation, 1)) == {"top1", "top5"}


@pytest.mark.parametrize(
    ("task", "spec"),
    [
        (TASKS["text_classification"], dict(name="listops", source="files", seed=1)),
        (TASKS["image_classification"], dict(name="pathfinder", source="files", seed=1)),
        (TASKS["image_classification"], dict(name="cifar10_gray", seed=1)),
        (TASKS["pair_classification"], dict(name="retrieval", source="imdb", seed=1)),
    ],
)
def test_option_of_another_source_raises(task, spec):
    with pytest.raises(ValueError, match=r"`data` accepts .* Received: \['seed'\]"):
        task.check_data(spec)
    TASKS["text_classification"].check_data(dict(name="listops", seed=1, train=8))


@pytest.mark.parametrize("source", ["files", "imdb"])
def test_retrieval_with_subwords(source, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_permix.data.lra.retrieval.HELD_OUT", 4)
    for part in ("train", "test"):
        write_reviews(tmp_path / "aclImdb" / part, range(20))
    folder = {"files": PAIRS, "imdb": tmp_path}[source]
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    model = LRATransformer(vocabulary_size=100, max_sequence_length=32, pairs=True, **TINY)
    spec = {"name": "retrieval", "source": source, "tokenizer": "bpe"}
    data = task_of(model).load(spec, folder)
    assert model.tokenizer is not None
    inputs, _ = task_of(model).batches(data.test, 1)[0]
    assert inputs["tokens"].shape == (1, 2, 32)
    (first, _), *_ = data.test[0].texts
    assert inputs["mask"][0, 0].sum() < len(first)
