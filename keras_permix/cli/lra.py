"""Train and score models on the Long Range Arena, and compare them with published scores.

All combinations of task, model and seed are trained one after another, each in a separate folder.
To resume, run the same command again. Runs that are in the file of results are skipped.
"""

from pathlib import Path

from keras_permix.cli.common import (
    add_overrides,
    add_training,
    check_output,
    format_table,
    given_path,
    say_error,
)
from keras_permix.lra.published import TASKS, published_rows
from keras_permix.lra.recipes import MODELS, SCALES
from keras_permix.utils.formatting import counted

ALL = ("listops", "text", "retrieval", "image", "pathfinder")
GUESSING = {
    "listops": "The most frequent of 10 classes makes up about 15 %.",
    "image": "Chance gives 10 %.",
}


def add_arguments(parser):
    parser.add_argument(
        "tasks", nargs="+", choices=(*TASKS, "all"), metavar="TASK",
        help=f"{', '.join(TASKS)}; or all, which excludes pathx",
    )  # fmt: skip
    parser.add_argument(
        "--model", nargs="+", choices=MODELS, required=True, metavar="MODEL", dest="models",
        help=", ".join(MODELS),
    )  # fmt: skip
    parser.add_argument(
        "--scale", choices=SCALES, default="small",
        help="paper: sizes of the papers; small: reduced tasks for two CPU cores",
    )  # fmt: skip
    parser.add_argument("--seed", nargs="+", type=int, default=[0], metavar="N", dest="seeds",
                        help="one run per seed")  # fmt: skip
    add_overrides(parser, "set a value of the recipes, e.g. --set batch_size=16")
    parser.add_argument("--runs", type=given_path, default=Path("runs"), help="folder of the runs")
    parser.add_argument(
        "--out", type=given_path, metavar="FILE.csv", help="file of results (default: RUNS/lra.csv)"
    )
    smoke = "train for a few steps on generated data, and record no result"
    add_training(parser, smoke, verbose=2)


def run(arguments):
    """Train runs without a result, print all results, and return the exit code."""
    from keras_permix.lra.results import read_results
    from keras_permix.lra.run import lra_run

    tasks = [task for given in arguments.tasks for task in (ALL if given == "all" else [given])]
    runs = {
        task: [
            lra_run(task, model, arguments.scale, seed, arguments.overrides, arguments.smoke)
            for model in arguments.models
            for seed in arguments.seeds
        ]
        for task in tasks
    }
    results = arguments.out or arguments.runs / "lra.csv"
    check_output(results)
    read_results(results)
    failed = False
    for of_task in runs.values():
        for run in of_task:
            try:
                measure(run, results, arguments)
            except (FileNotFoundError, ConnectionError, ImportError) as error:  # no data or package
                say_error(f"{run.task}: {error}")
                failed = True
                break
            except FloatingPointError as error:
                say_error(f"{run.task}, {run.model}, seed {run.seed}: {error}")
                failed = True
        if not arguments.smoke:
            print(table(of_task[0], read_results(results)))
    return 2 if failed else 0


def measure(run, results, arguments):
    """Train or resume a run, and write its row, unless the row exists."""
    from keras_permix.lra.results import append_result, holds, read_results, result_of
    from keras_permix.training import train
    from keras_permix.training.preset import finished_scores

    called = f"{run.task}, {run.model}, {run.scale}, seed {run.seed}"
    if not run.smoke and holds(read_results(results), run):
        print(f"{called}: already in {results}", flush=True)
        return
    folder = arguments.runs / run.folder.relative_to("runs")
    print(f"{called}: {run.recipe.epochs} × {run.recipe.steps_per_epoch} steps in {folder}",
          flush=True)  # fmt: skip
    if finished_scores(run, folder, arguments.data_dir) is None:
        train(run, out=folder, data_dir=arguments.data_dir, verbose=arguments.verbose)
    if run.smoke:
        return
    row = result_of(run, folder)
    append_result(results, row)
    print(
        f"{called}: {100 * row['score']:.2f} %, {row['parameters']:,} parameters, "
        f"{counted(row['steps'], 'step')} in {row['seconds']:,} s",
        flush=True,
    )


def table(run, results):
    """Format the measured scores of a task and the published ones as a table."""
    from keras_permix.lra.results import in_words, key_of, means

    task, _, scale, _, changes = key_of(run).values()
    rows = [row for row in results if (row["scale"], row["changes"]) == (scale, changes)]
    ours = [
        (model, in_words(*found), f"here, seeds: {found[-1]}")
        for (of, model), found in means(rows).items()
        if of == task
    ]
    # The small retrieval is another task than that of the papers.
    published = [] if (task, scale) == ("retrieval", "small") else published_rows(task)
    theirs = [(model, f"{score:.2f}", paper) for model, score, paper in published]
    chance = GUESSING.get(task, "Chance gives 50 %.")
    if scale != "paper":
        only = "compare rows measured here only with each other"
        chance += f" The task is reduced (scale {scale}): {only}."
    elif changes:
        chance += f" Rows measured here use {changes} instead of the papers' values."
    return f"\n{format_table((task, 'accuracy, %', 'source'), [*ours, *theirs])}\n{chance}\n"
