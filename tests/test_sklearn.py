"""Test models for the scikit-learn wrapper of Keras and the snippet in fine_tune.md."""

import importlib.util
import re

import keras
import numpy as np
import pytest

from keras_permix.sklearn import classifier
from keras_permix.zoo import ZooModel
from tests.harness import ROOT, assert_close, to_numpy

PAGE = (ROOT / "docs" / "guides" / "fine_tune.md").read_text(encoding="utf-8")


@pytest.mark.once
@pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="scikit-learn is absent")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_snippet_runs(capsys):
    (snippet,) = re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)
    scores = {}
    exec(compile(snippet, "snippet", "exec"), scores)
    assert scores["scores"].shape == (3,) and np.isfinite(scores["scores"]).all()


ROWS = np.zeros((4, 192))


@pytest.mark.once
@pytest.mark.parametrize(
    ("X", "preset", "message"),
    [
        (ROWS, "simpletron/test", "must classify images.*simpletron/test"),
        (ROWS, "graphormer/test", r"Graphormer accepts .*Received: \['num_classes'\]"),
        (ROWS + 600, "cspvit/test", "images of 0–255.* Received: x from 600"),
        (ROWS[:, 1:], "cspvit/test", r"images of \(8, 8, 3\).*\(4, 191\)"),
    ],
)
def test_invalid_arguments_raise(X, preset, message):
    with pytest.raises(ValueError, match=message):
        classifier(X, np.eye(2)[[0, 1, 0, 1]], preset)


@pytest.mark.once
def test_changed_task_raises():
    with pytest.raises(ValueError, match="must classify images. Received: .*'labels'"):
        classifier(ROWS, np.eye(2)[[0, 1, 0, 1]], "cspvit/test", predicts="labels")


@pytest.mark.once
def test_predict_returns_class_probabilities():
    images = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3)).astype("float32")
    classes = np.eye(3)[[0, 1, 2, 1]]
    model = classifier(images.reshape(4, -1), classes, "cspvit/test", optimizer="sgd")
    (zoo_model,) = [layer for layer in model.layers if isinstance(layer, ZooModel)]
    logits = to_numpy(zoo_model(images))
    wanted = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert_close(model.predict(images.reshape(4, -1), verbose=0), wanted)
    assert isinstance(model.optimizer, keras.optimizers.SGD)
