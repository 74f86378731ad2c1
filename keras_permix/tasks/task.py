"""What every task knows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_permix._typing import Model, StrPath
from keras_permix.data import Dataset, Pipeline


class Task:
    """What a model is for: its data, loss, metrics, and how people ask and are answered.

    Args:
        model: The `ZooModel` that the task is done with; its configuration and inputs say which
            sizes data must have.
    """

    name: str
    arguments_per_input = 1  # of a command line

    def __init__(self, model: Model) -> None:
        self.model = model
        self.config = model.get_config()

    def load(self, spec: dict[str, Any], data_dir: StrPath | None = None, seed: int = 0) -> Dataset:
        """Load a data set.

        Args:
            spec: `data` of a recipe: a dict of the set's "name" and how it is read.
            data_dir: Folder of the files, or `None`.
            seed: Integer ≥ 0, of what is random about reading.

        Returns:
            A `keras_permix.data.Dataset`.
        """
        raise NotImplementedError

    def generate(self, count: int, seed: int = 0) -> Dataset:
        """Make up a data set that can be learned, of `count` samples and a quarter for testing."""
        raise NotImplementedError

    def batches(
        self,
        part: tuple[Any, Any],
        batch_size: int,
        *,
        training: bool = False,
        seed: int = 0,
        epoch: int = 0,
        augmentation: dict[str, Any] | None = None,
    ) -> Pipeline:
        """A `Pipeline` of a part of a data set; shuffled, whole batches only, for training.

        Args:
            part: `train` or `test` of a `Dataset`.
            batch_size: Samples in a batch.
            training: Whether to shuffle and augment.
            seed: Integer ≥ 0.
            epoch: The epoch to start with.
            augmentation: The recipe's dict, or `None`.
        """
        raise NotImplementedError

    def loss(self, label_smoothing: float = 0.0) -> Any:
        """The Keras loss."""
        raise NotImplementedError

    def metrics(self) -> list[Any]:
        """New Keras metrics; their names become those of scores."""
        raise NotImplementedError

    def read(self, arguments: Sequence[str]) -> Any:
        """Read one input, given by `arguments_per_input` words of a command line.

        Returns:
            What the model takes, with a batch axis of one.
        """
        raise NotImplementedError

    def answer(self, output: np.ndarray, top: int) -> list[str]:
        """What to print for the model's output of one input: a list of lines.

        Args:
            output: NumPy array, without the batch axis.
            top: Number of classes to name, by the model's labels.
        """
        raise NotImplementedError

    def check_labels(self, dataset: Dataset) -> None:
        """Check that a data set names one class or target per output, as the model does if it does.

        Raises:
            ValueError: if it does not.
        """
        outputs = self.model.output_shape[-1]
        if len(dataset.labels) != outputs:
            raise ValueError(
                "The model must have one output per class or target of the data. "
                f"Received: labels={list(dataset.labels)[:10]}, {len(dataset.labels)} in all, "
                f"outputs={outputs}"
            )
        if self.model.labels and tuple(self.model.labels) != tuple(dataset.labels):
            raise ValueError(
                "The classes or targets of the data must be those of the model, in their order. "
                f"Received: labels={list(dataset.labels)[:10]} of {dataset.name}, and "
                f"{list(self.model.labels)[:10]} of the model"
            )

    def evaluate(
        self, part: tuple[Any, Any], batch_size: int, verbose: int | str = 0
    ) -> dict[str, float]:
        """Measure the model on a part of a data set: a dict from metrics to floats."""
        self.model.compile(loss=self.loss(), metrics=self.metrics())
        batches = self.batches(part, batch_size)
        measured = self.model.evaluate(batches, return_dict=True, verbose=verbose)
        return {name: float(value) for name, value in measured.items() if name != "loss"}

    def refuse_augmentation(self, augmentation: dict[str, Any] | None) -> None:
        """Raise if a recipe asks this task for augmentation, which it has none of."""
        if augmentation:
            raise ValueError(
                f"`augmentation` must be empty for {self.name}. Received: {augmentation}"
            )
