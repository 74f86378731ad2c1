"""What every task knows."""

from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from keras_permix._typing import Model, StrPath
from keras_permix.data import Dataset, Pipeline
from keras_permix.data.pipeline import Augment
from keras_permix.recipes.images import IMAGE_SOURCES
from keras_permix.utils.checks import check_names


class Task:
    """What a model is for: its data, loss, metrics, and how people ask and are answered.

    Args:
        model: The `ZooModel` that the task is done with; its configuration and inputs say which
            sizes data must have.

    Example:

    >>> from keras_permix.tasks import task_of
    >>> from keras_permix.zoo import CSPViT
    >>> task = task_of(CSPViT.from_preset("test"))
    >>> sorted(task.evaluate(task.generate(8).test, batch_size=2))
    ['top1']
    """

    name: str
    arguments_per_input = 1  # of a command line
    # Values of "source" in `data` for which a folder by class, or a list, stands for a recipe.
    of_ones_own: tuple[str, ...] = ()

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def config(self) -> dict[str, Any]:
        """The model's configuration, for which Keras imports TensorFlow where it is installed."""
        return self.model.get_config()

    @property
    def num_classes(self) -> int | None:
        """Number of classes; `None` where targets are none."""
        return None

    @classmethod
    def check_data(cls, spec: dict[str, Any]) -> None:
        """Check how a data set is to be loaded, before there is a model and a file is read.

        A task of its own calls this one as well.

        Args:
            spec: As for `load`.

        Raises:
            ValueError: for a set, or an option of it, that `load` does not know, or images of one's
                own, if the task does not take these.
        """
        if spec.get("source") in IMAGE_SOURCES and spec["source"] not in cls.of_ones_own:
            raise ValueError(
                "Folders and lists of images are for a model that classifies images; a recipe "
                "names other data, as in `data = { name = 'mine', train = 'train.csv', "
                "test = 'test.csv' }`, and for molecules the targets as `labels = ['logS']`. "
                f"Received: data={spec} for {cls.name}"
            )

    @classmethod
    def data_at(cls, path: Path, options: dict[str, Any]) -> dict[str, Any] | None:
        """How a recipe would write the data of a file or folder of one's own, to score a model.

        Args:
            path: What a command line names.
            options: How the data that the model was trained on are read.

        Returns:
            A dict as for `load`, whose test part is all that is not set apart for training; `None`
            for a path that holds no data for this task.
        """
        if not path.is_file():
            return None
        read = {key: value for key, value in options.items() if key in ("labels", "fields")}
        return {"name": path.stem, "train": str(path), "test": str(path), **read}

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
        steps: int | None = None,
        augmentation: dict[str, Any] | None = None,
    ) -> Pipeline:
        """A `Pipeline` of a part of a data set; shuffled, whole batches only, for training.

        Args:
            part: `train` or `test` of a `Dataset`.
            batch_size: Samples in a batch.
            training: Whether to shuffle and augment.
            seed: Integer ≥ 0.
            epoch: The epoch to start with.
            steps: Batches of an epoch, or `None`: one pass.
            augmentation: The recipe's dict, or `None`.
        """
        return Pipeline(
            *part,
            batch_size=batch_size,
            num_classes=self.num_classes,
            shuffle=training,
            drop_remainder=training,
            seed=seed,
            epoch=epoch,
            steps=steps,
            augment=self.preparation(augmentation, seed),
        )

    def preparation(self, augmentation: dict[str, Any] | None, seed: int) -> Augment | None:
        """The function of `Pipeline` that makes of samples what the model and the loss take.

        Args:
            augmentation: The recipe's dict, or `None`.
            seed: Integer ≥ 0.
        """
        self.refuse_augmentation(augmentation)
        return None

    def scale(self, dataset: Dataset) -> dict[str, Any]:
        """Arguments of a model that is to be trained on a data set, such as the targets' mean."""
        return {}

    def domain(self, dataset: Dataset) -> dict[str, Any]:
        """Arguments of a model that say which inputs it was trained on, to warn of others."""
        return {}

    def loss(self, label_smoothing: float = 0.0) -> Any:
        """The Keras loss."""
        raise NotImplementedError

    def metrics(self) -> list[Any]:
        """New Keras metrics; their names become those of scores."""
        raise NotImplementedError

    def read(self, arguments: Sequence[str]) -> Any:
        """Read one input, given by `arguments_per_input` words of a command line.

        Returns:
            What the model takes, a batch of one.
        """
        raise NotImplementedError

    def answer(self, output: np.ndarray, top: int) -> list[str]:
        """What to print for the model's output of one input: a list of lines.

        Args:
            output: NumPy array, without the batch axis.
            top: Number of classes to name, by the model's labels.
        """
        raise NotImplementedError

    def record(self, output: np.ndarray, top: int) -> dict[str, Any]:
        """Return what `answer` prints as values by their column names, for a file of answers."""
        raise NotImplementedError

    def check_labels(self, dataset: Dataset, by_order: bool = False) -> None:
        """Check that a data set names one class or target per output, as the model does if it does.

        Args:
            dataset: The `Dataset`.
            by_order: Whether names may differ, as where classes are the same in other words.

        Raises:
            ValueError: if it does not; says what differs.
        """
        outputs, ours = self.model.output_shape[-1], tuple(self.model.labels or ())
        if len(dataset.labels) != outputs:
            if ours and not by_order:
                missing = [label for label in ours if label not in dataset.labels]
                others = [label for label in dataset.labels if label not in ours]
                raise ValueError(
                    "The data must have the classes or targets of the model, all and no others. "
                    "Add what is missing, and leave out the rest. Received: "
                    f"{dataset.name} without {missing[:10]}, and with {others[:10]} that the model "
                    "lacks"
                )
            raise ValueError(
                "The model must have one output per class or target of the data. "
                f"Received: labels={list(dataset.labels)[:10]}, {len(dataset.labels)} in all, "
                f"outputs={outputs}"
            )
        pairs = zip(dataset.labels, ours, strict=False)  # none where the model has no names
        others = [f"{n}: {a!r}, not {b!r}" for n, (a, b) in enumerate(pairs) if a != b]
        if others and not by_order:
            raise ValueError(
                "The classes or targets of the data must be those of the model, in their order. "
                "If they are the same under other names, compare them by their order "
                "(`permix evaluate --by-order`). "
                f"Received: {dataset.name}, of whose {outputs} names {len(others)} differ: "
                f"{'; '.join(others[:10])}"
            )

    def evaluate(
        self, part: tuple[Any, Any], batch_size: int, verbose: int | str = 0
    ) -> dict[str, float]:
        """Measure the model on a part of a data set: a dict from metrics to floats."""
        self.model.compile(loss=self.loss(), metrics=self.metrics())
        batches = self.batches(part, batch_size)
        measured = self.model.evaluate(batches, return_dict=True, verbose=verbose)
        return {name: float(value) for name, value in measured.items() if name != "loss"}

    def baseline(self, dataset: Dataset) -> dict[str, float]:
        """Scores on the test part that need no model, to judge its own by: a dict of floats.

        Args:
            dataset: A `keras_permix.data.Dataset`.
        """
        return {}

    def refuse_augmentation(self, augmentation: dict[str, Any] | None) -> None:
        """Raise if a recipe asks this task for augmentation, which it has none of."""
        if augmentation:
            raise ValueError(
                f"`augmentation` must be empty for {self.name}. Received: {augmentation}"
            )


FILES = ("train", "test", "splits")  # of a set of one's own


def check_options(
    spec: dict[str, Any],
    load: Callable[..., Any],
    *more: str,
    given: tuple[str, ...] = ("seed", "encode"),
) -> None:
    """Refuse what is neither a keyword of the function that loads a set, nor one of `more`.

    Keywords that the task itself gives, `given`, are refused as well.
    """
    parameters = signature(load).parameters.values()
    names = {option.name for option in parameters if option.kind is option.KEYWORD_ONLY}
    check_names("`data`", spec, {"name", *names.difference(given), *more})


def check_set(
    spec: dict[str, Any], known: Iterable[str], options: Iterable[str], form: str
) -> None:
    """Refuse a set that is not `known` and has none of the `options` of one's own."""
    if spec["name"] not in known and not set(options) & set(spec):
        raise ValueError(
            f"`data` must name one of the sets {', '.join(known)}, or {form}. Received: data={spec}"
        )
