"""Run a preset on images, texts or molecules.

All images of a folder are predicted. If an input cannot be read, the error is printed, the other
inputs are predicted, and the exit code is 1.
"""

import json
import os
from pathlib import Path

from keras_permix.cli.common import check_output, given_path, say_error
from keras_permix.utils.formatting import counted, printable


def add_arguments(parser):
    parser.add_argument("preset", help="name such as cspvit/cifar10_small, folder or handle")
    parser.add_argument(
        "inputs", nargs="*", metavar="INPUT",
        help="image files or folders; texts, or @FILE to read one text from a file (two per pair); "
        "SMILES, or JSON files with one graph each",
    )  # fmt: skip
    parser.add_argument(
        "--from", type=given_path, metavar="FILE", dest="source",
        help="read more inputs from FILE, one per line; separate pairs by a tab",
    )  # fmt: skip
    parser.add_argument("--top", type=int, default=5, help="number of labels to print")
    parser.add_argument(
        "--out",
        type=given_path,
        metavar="FILE",
        help="write predictions to FILE (.csv or .jsonl), which is replaced, instead of stdout",
    )


def run(arguments):
    """Print or write the predictions. Return the exit code, 1 if an input cannot be read."""
    from keras.utils import Progbar

    from keras_permix.ops.backend import running
    from keras_permix.tasks import task_of
    from keras_permix.utils.checks import check_integer
    from keras_permix.zoo.presets.load import load_preset

    check_integer("--top", arguments.top)
    if out := arguments.out:
        check_output(out, endings=(".csv", ".jsonl"))
    task = task_of(load_preset(None, arguments.preset))
    groups = read_inputs(task, arguments.inputs, arguments.source)
    progress = Progbar(len(groups), verbose=1 if out else 0)
    rows, failed = [], False
    try:
        for group in groups:
            row, lines = {"input": "\t".join(group)}, []
            try:
                (output,) = running.outputs_of(task.model, task.read(group))
                if out:
                    values = task.record(output, arguments.top).items()
                    row |= {f"output {k}" if k in ("input", "error") else k: v for k, v in values}
                else:
                    answer = task.answer(output, arguments.top)
                    lines = [" ".join(group), *(f"  {printable(line)}" for line in answer)]
            except ValueError as error:
                say_error(error)
                row["error"], failed = printable(error), True
            rows.append(row)
            for line in lines:
                print(line)
            progress.add(1)
    finally:
        if out and rows:
            write_rows(out, rows)
    return int(failed)


def read_inputs(task, words, source):
    """Return the arguments of each input, from the command line and from a file."""
    from keras_permix.data.images.folders import images_in
    from keras_permix.utils.tables import LISTS

    size = task.arguments_per_input
    groups = [words[start : start + size] for start in range(0, len(words), size)]
    if source and size == 1 and source.suffix.lower() in LISTS:
        raise ValueError(f"`--from` must be a text file, one input per line. Received: {source}")
    if source:
        lines = source.read_text(encoding="utf-8-sig").split("\n")
        groups += [line.split("\t") if size > 1 else [line] for line in lines if line.strip()]
    if task.own_sources:  # images
        groups = [
            [str(path)]
            for (word,) in groups
            for path in (images_in(Path(word)) if os.path.isdir(word) else [word])
        ]
    wrong = [group for group in groups if len(group) != size]
    if wrong or not groups:
        found = wrong or words or source
        rule = f"`INPUT` or `--from` must give {counted(size, 'input')} per prediction"
        raise ValueError(f"{rule}. Received: {found or 'none'}")
    return groups


def write_rows(path, rows):
    """Write rows as CSV or JSON lines, depending on the file name extension."""
    from keras_permix.utils.files import write_bytes
    from keras_permix.utils.tables import format_csv

    if path.suffix == ".csv":
        text = format_csv(rows)
    else:
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_bytes(path, text.encode("utf-8", "backslashreplace"))  # Names may not be in UTF-8.
