"""Score a preset on a test set.

For classification, the accuracy per class is printed, and for two classes also F1 and AUC. For
several labels per sample, F1 and AUC per label are printed. `--out FILE.json` writes the scores.
`--out FILE.csv` writes the predictions, and for classes the confusion matrix to
`FILE_confusion.csv` and `FILE_confusion.png`.
"""

import csv
import json
from itertools import compress
from pathlib import Path

from keras_permix.cli.common import add_data_dir, add_overrides, check_output, given_path
from keras_permix.utils.formatting import counted

MOST_CLASSES = 20  # printed


def add_arguments(parser):
    parser.add_argument("preset", help="name (cspvit/cifar10_small), folder, or handle")
    data = parser.add_mutually_exclusive_group()
    data.add_argument(
        "--data",
        metavar="NAME",
        help="name of a data set (default: the data set of the preset)",
    )
    data.add_argument(
        "--data-path", type=given_path, metavar="PATH",
        help="folder of images (scores test/ or val/ if present, else all), or file of samples",
    )  # fmt: skip
    add_data_dir(parser)
    add_overrides(parser, "set an argument of the model, e.g. --set image_size=48")
    parser.add_argument(
        "--by-order",
        action="store_true",
        help="match classes of data and model by position instead of name",
    )
    parser.add_argument("--batch-size", type=int, default=250, help="samples per batch")
    parser.add_argument(
        "--out", type=given_path, metavar="FILE",
        help="write scores (.json), or predictions and, for classes, the confusion matrix (.csv)",
    )  # fmt: skip


def run(arguments):
    """Print the scores, and return the exit code."""
    from keras_permix.data.dataset import size_of
    from keras_permix.recipes.load import parse_overrides
    from keras_permix.tasks import task_of
    from keras_permix.utils.checks import import_extra
    from keras_permix.utils.formatting import format_score
    from keras_permix.zoo import preset_info
    from keras_permix.zoo.presets.load import load_preset

    if out := arguments.out:
        check_output(out, endings=(".json", ".csv"))
    info = preset_info(arguments.preset)
    spec = data_of(info, arguments.data, arguments.data_path, arguments.data_dir)
    task = task_of(load_preset(None, info, **parse_overrides(arguments.overrides)))
    task.check_data(spec)
    if out and out.suffix == ".csv" and task.predicts == "class":
        import_extra("matplotlib", "train", "The confusion matrix")
    dataset = task.load(spec, arguments.data_dir)
    task.check_labels(dataset, arguments.by_order)
    predictions = task.predictions(dataset.test, arguments.batch_size, verbose=True)
    measured = task.measure(*predictions)
    if "train" not in spec or spec["train"] != spec.get("test") or "splits" in spec:
        measured |= task.baseline(dataset)  # of the training part
    scores = {f"{dataset.name}/test/{key}": float(f"{v:.5g}") for key, v in measured.items()}
    for key, value in scores.items():
        print(f"{key}: {format_score(key, value)}")
    held_out = ", held out from training" if spec.get("test_fraction") else ""
    print(f"scored: {counted(size_of(dataset.test[0]), 'sample')}{held_out}")
    pairs = zip(dataset.labels, task.model.labels or dataset.labels, strict=True)
    names = [data if data == ours else f"{data} = {ours}" for data, ours in pairs]
    if task.predicts != "values":
        print(*score_lines(names, task.predicts, *predictions), sep="\n")
    if out:
        if out.suffix == ".csv":
            write_predictions(out, dataset, task.predicts, *predictions)
        else:
            out.write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")
    return 0


def score_lines(names, predicts, targets, outputs):
    """Yield lines with the scores of each class or label, or of those with the lowest ones."""
    from keras_permix.tasks.classification import class_accuracies, confusion_matrix, label_scores

    if predicts == "class":
        confusion = confusion_matrix(targets.argmax(-1), outputs.argmax(-1), len(names))
        scores, totals = class_accuracies(confusion), confusion.sum(axis=1)
        cells = [f"{100 * score:6.2f} %  of" if score >= 0 else "     –   of" for score in scores]
        title, lowest = "accuracy per class", "classes with the lowest accuracy"
    else:
        scores, auc = label_scores(targets, outputs)
        totals = targets.sum(axis=0)
        cells = [f"{one:.4f}  {two:.4f} " for one, two in zip(scores, auc, strict=True)]
        title, lowest = "F1 and AUC per label", "labels with the lowest F1"
    order = list(range(len(names)))
    if len(names) > MOST_CLASSES:
        known = (n for n in order if scores[n] >= 0)  # not NaN
        order = sorted(known, key=lambda n: scores[n])[:MOST_CLASSES]
        title = f"the {len(order)} {lowest}"
    yield f"{title}:"
    width = max(len(names[n]) for n in order)
    for n in order:
        yield f"  {names[n]:{width}}  {cells[n]} {counted(int(totals[n]), 'sample')}"


def write_predictions(out, dataset, predicts, targets, outputs):
    """Write a row per sample, and the confusion matrix of classes."""
    import keras

    names, source = list(dataset.labels), dataset.test[0]
    files = getattr(getattr(source, "records", None), "files", None)
    samples = [files[i][0] for i in source.chosen] if files else range(len(targets))
    if predicts == "values":
        header = ["sample", *names, *(f"predicted {name}" for name in names)]
        rows = [(s, *y, *x) for s, y, x in zip(samples, targets, outputs, strict=True)]
        _write_rows(out, header, rows)
        return
    if predicts == "labels":
        shares = keras.ops.sigmoid(outputs)
        label, predicted = (
            [";".join(compress(names, row)) for row in flags]
            for flags in (targets > 0.5, outputs > 0)
        )
    else:
        shares = keras.ops.softmax(outputs)
        label, predicted = ([names[n] for n in y.argmax(-1)] for y in (targets, outputs))
    shares = keras.ops.convert_to_numpy(shares)
    rows = [
        (sample, given, best, *(f"{part:.6f}" for part in row))
        for sample, given, best, row in zip(samples, label, predicted, shares, strict=True)
    ]
    _write_rows(out, ["sample", "label", "predicted", *names], rows)
    if predicts == "class":
        _write_confusion(out, names, targets.argmax(-1), outputs.argmax(-1))


def _write_confusion(out, names, labels, predicted):
    """Write the confusion matrix as CSV and PNG."""
    from matplotlib.figure import Figure

    from keras_permix.tasks.classification import confusion_matrix

    confusion = confusion_matrix(labels, predicted, len(names))
    table = [[name, *row] for name, row in zip(names, confusion.tolist(), strict=True)]
    _write_rows(out.with_name(f"{out.stem}_confusion.csv"), ["label", *names], table)
    side = max(4.0, min(0.4 * len(names), 20.0))
    figure = Figure(figsize=(side + 1, side), layout="constrained")
    axes = figure.subplots()
    figure.colorbar(axes.imshow(confusion, cmap="Blues"), label="samples")
    ticks = range(len(names))
    axes.set(xlabel="predicted", ylabel="label", xticks=ticks, yticks=ticks, yticklabels=names)
    axes.set_xticks(ticks, names, rotation=90)
    figure.savefig(out.with_name(f"{out.stem}_confusion.png"), dpi=120)


def _write_rows(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8", errors="backslashreplace") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def data_of(info, name=None, path=None, data_dir=None):
    """Return the data to score with the preset `info`, in the form of a recipe's `data`.

    By default, this is the data set of the preset. `name` is another data set, `path` a folder of
    images or a file of samples. If the preset was trained on `path`, the held-out part is scored.
    """
    from keras_permix.tasks import TASKS
    from keras_permix.zoo import MODELS

    own = info.metadata.get("data")
    options = info.metadata.get("data_options") or {}
    task = TASKS[MODELS[info.class_name].task_for(info.config)]
    if path is not None:
        files = [options[key] for key in ("path", "train") if isinstance(options.get(key), str)]
        in_one = options.get("test") in (None, options.get("train"))
        if in_one and Path(path).resolve() in [Path(data_dir or ".", f).resolve() for f in files]:
            return {"name": own, **options}
        at = Path(path).absolute() if data_dir else Path(path)  # not relative to `data_dir`
        found = task.data_at(at, options) if at.exists() else None
        if found is None:
            raise ValueError(f"`--data-path` must be data for {task.name}. Received: {path}")
        return found
    if name is None and own is None and info.has_weights:
        raise ValueError(
            f"The preset names no data: give `--data` or `--data-path`. Received: {info.name}"
        )
    return {"name": own, **options} if name in (None, own) else {"name": name}
