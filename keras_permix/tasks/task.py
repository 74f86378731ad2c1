"""Define the base class of tasks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from inspect import getfullargspec
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_permix._typing import Model, StrPath
from keras_permix.data import Dataset, Pipeline
from keras_permix.data.pipeline import Augment
from keras_permix.recipes.images import IMAGE_SOURCES


class Task(ABC):
    """Load data, define loss and metrics, and format predictions for a model.

    Args:
        model: A `ZooModel`. Its configuration and inputs define the sizes of the data.

    Example:
        >>> from keras_permix.tasks import task_of
        >>> from keras_permix.zoo import CSPViT
        >>> task = task_of(CSPViT.from_preset("test"))
        >>> sorted(task.evaluate(task.generate(8).test, batch_size=2))
        ['top1']
    """

    name: str
    predicts = "class"  # or "labels", "values"
    arguments_per_input = 1  # on the command line
    # Values of `data.source` for folders and lists that need no recipe.
    own_sources: tuple[str, ...] = ()

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def config(self) -> dict[str, Any]:
        """Return the configuration of the model. This imports TensorFlow if it is installed."""
        return self.model.get_config()

    @property
    def num_classes(self) -> Any:
        """Return the number of classes, `None` for other targets."""
        return self.config["num_classes"] if self.predicts == "class" else None

    @classmethod
    def check_data(cls, spec: dict[str, Any]) -> None:
        """Check `data` of a recipe, without a model and without reading files."""
        if spec.get("source") in IMAGE_SOURCES and spec["source"] not in cls.own_sources:
            raise ValueError(
                "Folders and lists of images require a model of images. For other files, write a "
                "recipe with `data = { name = 'mine', train = 'train.csv', test = 'test.csv' }`. "
                f"Received: data={spec} for {cls.name}"
            )

    @classmethod
    def data_at(cls, path: Path, options: dict[str, Any]) -> dict[str, Any] | None:
        """Return `data` of a recipe that scores a model on a file or folder, or `None`.

        The test part contains all samples outside a training part. `options` are those of the data
        that the model was trained on.
        """
        if not path.is_file():
            return None
        return {"name": path.stem, "train": str(path), "test": str(path), **read_alike(options)}

    @abstractmethod
    def load(self, spec: dict[str, Any], data_dir: StrPath | None = None, seed: int = 0) -> Dataset:
        """Load a data set.

        Args:
            spec: `data` of a recipe: dict with the "name" of the set and its options.
            data_dir: Folder of the files. Defaults to `None`, the folder of downloads.
            seed: Integer ≥ 0 for random parts of reading. Defaults to 0.

        Returns:
            A `keras_permix.data.Dataset`.
        """

    @abstractmethod
    def generate(self, count: int, seed: int = 0) -> Dataset:
        """Generate a data set that a model can learn.

        `count` is the number of training samples. The test part has a quarter of this number.
        `seed` is an integer ≥ 0; equal seeds generate equal data.
        """

    def batches(
        self,
        part: tuple[Any, Any],
        batch_size: int,
        *,
        training: bool = False,
        seed: int = 0,
        steps: int | None = None,
        augmentation: dict[str, Any] | None = None,
    ) -> Pipeline:
        """Make a `Pipeline` from a part of a data set.

        Args:
            part: `train`, `validation` or `test` of a `Dataset`.
            batch_size: Samples per batch.
            training: Whether to shuffle, and drop an incomplete batch. Defaults to `False`.
            seed: Integer ≥ 0. Defaults to 0.
            steps: Batches per epoch. Defaults to `None`, one pass over the data.
            augmentation: `augmentation` of a recipe. Defaults to `None`.

        Returns:
            A `keras_permix.data.Pipeline`.
        """
        return Pipeline(
            *part,
            batch_size=batch_size,
            num_classes=self.num_classes,
            shuffle=training,
            drop_remainder=training,
            seed=seed,
            steps=steps,
            augment=self.preparation(augmentation, seed),
        )

    def preparation(self, augmentation: dict[str, Any] | None, seed: int) -> Augment | None:
        """Return the function that a `Pipeline` applies to each batch, or `None`."""
        return self.augment(augmentation, seed)

    def augment(self, augmentation: dict[str, Any] | None, seed: int) -> Augment | None:
        """Return the function that augments a batch, or `None`; raise if it is not supported."""
        if augmentation:
            raise ValueError(f"`augmentation` requires images. Received: {augmentation=}")
        return None

    def of_classes(self, dataset: Dataset) -> Dataset:
        """Return generated data with the targets of this task instead of classes."""
        return dataset

    def scale(self, dataset: Dataset) -> dict[str, Any]:
        """Return model arguments that depend on the training data, such as the mean of targets."""
        return {}

    def domain(self, dataset: Dataset) -> dict[str, Any]:
        """Return model arguments that describe its training inputs, to warn about other inputs."""
        return {}

    @abstractmethod
    def loss(self, label_smoothing: float = 0.0) -> Any:
        """Make the Keras loss."""

    @abstractmethod
    def metrics(self) -> list[Any]:
        """Make Keras metrics, which name the scores."""

    @abstractmethod
    def read(self, arguments: Sequence[str]) -> Any:
        """Return a batch of one input of the model.

        `arguments` are `arguments_per_input` strings of the command line.
        """

    def predictions(
        self, part: tuple[Any, Any], batch_size: int, verbose: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the targets of a part of a data set, and the outputs of the model.

        `part` is `validation` or `test` of a `Dataset`, predicted in batches of `batch_size`
        samples. With `verbose`, a progress bar is shown.
        """
        batches = self.batches(part, batch_size)
        progress = keras.utils.Progbar(len(batches), verbose=int(verbose))
        targets, outputs = [], []
        for index in range(len(batches)):
            inputs, expected = batches[index]
            targets.append(expected)
            outputs.append(self.model.predict_on_batch(inputs))
            progress.add(1)
        return np.concatenate(targets), np.concatenate(outputs)

    @abstractmethod
    def measure(self, targets: np.ndarray, outputs: np.ndarray) -> dict[str, float]:
        """Return the scores of `predictions`."""

    @abstractmethod
    def answer(self, output: np.ndarray, top: int) -> list[str]:
        """Format the output for one input, without the batch axis, as lines of `top` classes."""

    @abstractmethod
    def record(self, output: np.ndarray, top: int) -> dict[str, Any]:
        """Return the values that `answer` formats, as a dict from column names."""

    def check_labels(self, dataset: Dataset, by_order: bool = False) -> None:
        """Raise a `ValueError` unless the labels of a data set match the outputs of the model.

        With `by_order`, the names may differ, but not the order of the same names.
        """
        outputs, ours = self.model.output_shape[-1], tuple(self.model.labels or ())
        if len(dataset.labels) != outputs:
            missing = [label for label in ours if label not in dataset.labels]
            others = [label for label in dataset.labels if label not in ours]
            rule = "The model must have one output per class or target of the data"
            found = f"{len(dataset.labels)} labels for {outputs} outputs, {dataset.name}"
            names = f"with missing {missing[:10]} and others {others[:10]}"
            raise ValueError(f"{rule}. Received: {found} {names}")
        pairs = zip(dataset.labels, ours, strict=False)  # empty for a model without labels
        others = [f"{n}: {a!r}, not {b!r}" for n, (a, b) in enumerate(pairs) if a != b]
        reordered = set(dataset.labels) == set(ours)
        if others and (reordered or not by_order):
            advice = "" if reordered else " If only names differ, pass `by_order` (`--by-order`)."
            raise ValueError(
                f"The data must have the classes or targets of the model, in this order.{advice} "
                f"Received: {dataset.name}, where {len(others)} of {outputs} names differ: "
                f"{'; '.join(others[:10])}"
            )

    def evaluate(
        self, part: tuple[Any, Any], batch_size: int, verbose: int | str = 0
    ) -> dict[str, float]:
        """Score the model on a part of a data set.

        Args:
            part: `validation` or `test` of a `Dataset`.
            batch_size: Samples per batch.
            verbose: As in Keras' `evaluate`. Defaults to 0.

        Returns:
            A dict from names of metrics to floats.
        """
        return self.measure(*self.predictions(part, batch_size, bool(verbose)))

    def baseline(self, dataset: Dataset) -> dict[str, float]:
        """Score a constant prediction on the test part, for comparison."""
        return {}


FILES = ("train", "test", "splits")  # keys of `data` for your files


def read_alike(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `data` that define how the rows of a file are read."""
    return {key: options[key] for key in ("labels", "fields", "separator") if key in options}


def options_of(load: Callable[..., Any], given: Iterable[str] = ("encode", "predicts")) -> set[str]:
    """Return the keywords of a loader that a recipe sets; the task sets those in `given`."""
    return set(getfullargspec(load).kwonlyargs).difference(given)
