"""Train a preset from a recipe."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from keras_permix._typing import Model, StrPath
from keras_permix.data.files import data_folder
from keras_permix.recipes.images import is_images
from keras_permix.tasks import task_of
from keras_permix.training.callbacks import Estimate
from keras_permix.training.data import check_data, load_data
from keras_permix.training.distribute import Distribution, distributed
from keras_permix.training.fit import fit_recipe
from keras_permix.training.model import fit_outputs, make_model, take_assets
from keras_permix.training.optimizers import make_optimizer
from keras_permix.training.preset import write_preset
from keras_permix.training.run import Recorder, Run, plan_run
from keras_permix.training.run_folder import check_place
from keras_permix.utils.checks import check_integer
from keras_permix.utils.files import release_folder


class Trained(NamedTuple):
    """Hold the results of `train`."""

    model: Model  # trained `ZooModel`
    rows: list[dict[str, Any]]  # of the log, one per epoch
    scores: dict[str, float]  # of the preset
    folder: Path  # of the run


def train(
    recipe: StrPath | Run,
    option: str | None = None,
    *,
    out: StrPath | None = None,
    data_dir: StrPath | None = None,
    smoke: bool = False,
    verbose: int = 1,
    callbacks: Iterable[Any] = (),
    distribute: str | Distribution | None = None,
    steps_per_execution: int = 1,
    workers: int = 1,
    **changes: Any,
) -> Trained:
    """Train a preset from a recipe, or resume an interrupted run.

    A recipe may start from a preset (`init`) and freeze parts of it (`freeze`). The head gets one
    output per label unless the recipe sets `num_classes`. A folder of images, or a CSV file that
    lists them, needs no recipe: `train("photos", init="cspvit/cifar10_small", epochs=5)`.

    The folder of the run receives a checkpoint and the log after each epoch. At the end it receives
    the preset (`preset/`) and, except for a smoke run, its card (`README.md`).

    Args:
        recipe: Name (`"cspvit/cifar10_small"`) or path of a recipe, path of images, or a `Run`
            from `plan_run`, which includes `option`, `smoke` and `changes`.
        option: Named option of the recipe. Defaults to `None`.
        out: Folder of the run. Defaults to `runs/` followed by the name of the preset.
        data_dir: Folder with data files. Defaults to `None`, the folder of downloads.
        smoke: Whether to train for two short epochs on generated data, or on a few of your images.
            Defaults to `False`.
        verbose: 0 is silent, 1 shows a progress bar, 2 prints a line per epoch. Defaults to 1.
        callbacks: Additional Keras callbacks; the card names them. A run that a callback stops
            early resumes when started again. Defaults to none.
        distribute: "data" divides each batch among devices or processes, "model" divides the
            parameters (JAX only), "auto" is "data" if there are several devices. A `Distribution`
            from `distributed` is used as it is. Defaults to `None`, one device.
        steps_per_execution: Training steps between calls of callbacks; on TensorFlow, one call of
            the compiled function. Must be 1 on PyTorch and with several processes on TensorFlow.
            Defaults to 1.
        workers: Threads that prepare batches. With more than one, batches are prepared during the
            training step, with the same results. Defaults to 1.
        **changes: New values of the recipe: `epochs=2`, `model={"hidden_dim": 64}`.

    Raises:
        ValueError: for an unknown recipe, option or value, or a folder that holds another run or
            other files, or lies inside the training images.
        FloatingPointError: if the loss or a weight is not finite.
        OSError: for data that cannot be read or downloaded, or a folder that another process uses.
        ImportError: if a package of the extra `train` is missing.
        ConnectionError: if another process of the run has ended.

    Example:
        >>> from keras_permix.training import train
        >>> done = train("cspvit/mnist", smoke=True, out="run", verbose=0)
        >>> sorted(done.scores)
        ['generated/test/top1', 'generated/test/top5']
    """
    if isinstance(recipe, Run) and (option or smoke or changes):
        rule = "A `Run` must come without `option`, `smoke` and changes"
        raise ValueError(f"{rule}. Received: {option=}, {smoke=}, {changes=}")
    run = recipe if isinstance(recipe, Run) else plan_run(recipe, option, smoke, **changes)
    if data_dir is not None and is_images(Path(run.source)):
        rule = "`data_dir` must be None for a path of images"
        raise ValueError(f"{rule}. Received: {data_dir} with {run.source}")
    folder, values = Path(out or run.folder), run.recipe
    check_data(values)
    check_place(folder)
    if values.data.get("source") == "folder":
        images = Path(data_dir or ".", values.data.get("path") or values.data["name"]).resolve()
        if folder.resolve().is_relative_to(images):  # The run would become a class.
            raise ValueError(f"`out` must lie outside {images}. Received: out={folder}")
    check_integer("steps_per_execution", steps_per_execution)
    check_integer("workers", workers)
    with distributed(distribute) as distribution:
        distribution.check(values.batch_size, steps_per_execution)
        with distribution.scope():
            model = make_model(values)
        task = task_of(model)
        # Errors in the recipe are raised before data are read or downloaded.
        make_optimizer(values, steps_per_epoch=1)
        task.preparation(values.augmentation, values.seed)
        if data_dir is not None:
            data_folder(data_dir)
        if not run.smoke:
            take_assets(model, folder)
        dataset = load_data(task, values, data_dir, run.smoke)
        with distribution.scope():
            model = fit_outputs(model, values, dataset)
        task_of(model).check_labels(dataset)
        callbacks = list(callbacks)
        recorder = Recorder(folder, run, callbacks)
        if distribution.is_chief:
            callbacks = [recorder, *([Estimate()] if verbose else []), *callbacks]
        try:
            rows = fit_recipe(
                model, values, dataset, folder, verbose, callbacks,
                distribution, steps_per_execution, workers,
            )  # fmt: skip
            scores = distribution.from_chief(
                write_preset, model, run, dataset, rows, folder, recorder.record
            )
        finally:
            release_folder(folder)
    return Trained(model, rows, scores, folder)
