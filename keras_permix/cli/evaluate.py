"""`permix evaluate`: scores of a preset on a test set."""

import json
from pathlib import Path

from keras_permix.cli.parser import add_data_dir, add_overrides, given, given_path
from keras_permix.utils.formatting import counted


def add_arguments(parser):
    parser.add_argument("preset", help="name (cspvit/cifar10_small), folder, or handle")
    parser.add_argument(
        "--data", type=given, metavar="DATA",
        help="name of a data set; a folder of images; a CSV file (default: the preset's own)",
    )  # fmt: skip
    add_data_dir(parser)
    add_overrides(parser, "change an argument of the model, e.g. --set image_size=48")
    parser.add_argument(
        "--by-order",
        action="store_true",
        help="take the classes of the data for those of the model whatever they are called",
    )
    parser.add_argument("--batch-size", type=int, default=250)
    parser.add_argument(
        "--json", type=given_path, help="also write the scores to this file; its folder is made"
    )
    parser.set_defaults(run=run)


def run(arguments):
    """Print the scores. Returns the exit code."""
    from keras_permix.cli.common import check_file, trained_preset
    from keras_permix.data.dataset import size_of
    from keras_permix.recipe import merge_overrides
    from keras_permix.tasks import task_of
    from keras_permix.utils.checks import check_integer
    from keras_permix.utils.formatting import format_score
    from keras_permix.zoo.presets.load import load_preset

    if arguments.json:
        check_file("--json", arguments.json)
    check_integer("--batch-size", arguments.batch_size)  # before data are read or downloaded
    info = trained_preset(arguments.preset)
    spec = data_of(info, arguments.data)
    task = task_of(load_preset(None, info, **merge_overrides({}, arguments.overrides)))
    task.check_data(spec)
    try:
        dataset = task.load(spec, arguments.data_dir)
    except FileNotFoundError as error:
        said = arguments.data is not None or arguments.data_dir is not None
        if said or not {"source", "train"} & set(spec):
            raise
        raise FileNotFoundError(
            f"{error} (Where these data lie elsewhere now, `--data` says it.)"
        ) from error
    task.check_labels(dataset, arguments.by_order)
    measured = task.evaluate(dataset.test, arguments.batch_size, verbose="auto")
    if not _is_one_part(spec):
        measured |= task.baseline(dataset)
    scores = {f"{dataset.name}/test/{key}": float(f"{v:.5g}") for key, v in measured.items()}
    for key, value in scores.items():
        print(f"{key}: {format_score(key, value)}")
    print(f"scored: {counted(size_of(dataset.test[0]), 'sample')}")
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")
    return 0


def data_of(info, data=None):
    """How a recipe would write the data that are scored.

    Args:
        info: The `PresetInfo` of a preset.
        data: Name of a set; a folder of images or a file of samples, all of which are scored but
            for those set apart for training; `None`: what the preset was trained on. Where that
            are files, a folder or file that has the name of the set is what is meant by it.

    Raises:
        ValueError: if there are neither such data nor the preset's own, such as of a smoke run.
    """
    from keras_permix.tasks import TASKS
    from keras_permix.zoo import MODELS

    own = info.metadata.get("data")
    options = info.metadata.get("data_options") or {}
    task = TASKS[MODELS[info.class_name].task_for(info.config)]
    files = [Path(options[key]) for key in ("path", "train") if isinstance(options.get(key), str)]
    in_one = options.get("test") in (None, options.get("train"))  # as both parts of it are
    is_own = in_one and Path(data or "").resolve() in [file.resolve() for file in files]
    if data is None or data == own and not (files and Path(data).exists()) or is_own:
        try:
            task.check_data({"name": own, **options})
        except ValueError as error:
            raise ValueError(
                f"`--data` must say what to score {info.name} on, a folder, a file, or the name of "
                "a set, since it was trained on none that is known. Received: no `--data`"
            ) from error
        return {"name": own, **options}
    try:
        task.check_data({"name": data})
    except ValueError as error:
        if found := task.data_at(Path(data), options):
            return found
        raise ValueError(
            "`--data` must be a folder or file that exists, or the name of a set. "
            f"Received: {data!r} ({error})"
        ) from error
    return {"name": data}


def _is_one_part(spec):
    """Whether all data are scored, so that there is no training part to compare with."""
    return "train" in spec and spec["train"] == spec.get("test") and "splits" not in spec
