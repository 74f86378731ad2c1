"""Train a recipe over a grid of values and seeds.

Finished runs are skipped. To resume, run the same command again.
"""

from keras_permix.cli.common import add_overrides, add_training, given_path


def add_arguments(parser):
    parser.add_argument("recipe", help="name or .toml file of a recipe")
    parser.add_argument(
        "--grid", action="append", default=[], metavar="KEY=VALUE,VALUE",
        help="values of a key of the recipe, e.g. --grid model.mixer.group_size=1,2,4; repeat it "
        "for all combinations with another key",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N",
        help="seeds per combination, counted from 0; for others, use --grid seed=1,2",
    )  # fmt: skip
    parser.add_argument("--option", help="use a named option of the recipe")
    add_overrides(parser, "set a value of the recipe in all runs")
    parser.add_argument("--epochs", type=int, metavar="N", help="number of epochs of each run")
    parser.add_argument("--out", type=given_path, required=True, help="folder of the sweep")
    smoke = "train each run for two short epochs on generated data"
    add_training(parser, smoke, verbose=2)


def run(arguments):
    """Train all runs, print the table, and return the exit code."""
    from keras_permix.cli.common import format_table
    from keras_permix.recipes.load import parse_overrides
    from keras_permix.training import sweep
    from keras_permix.training.sweep import parse_grid

    epochs = [] if arguments.epochs is None else [f"epochs={arguments.epochs}"]
    rows = sweep(
        arguments.recipe,
        parse_grid(arguments.grid),
        out=arguments.out,
        seeds=arguments.seeds,
        option=arguments.option,
        data_dir=arguments.data_dir,
        smoke=arguments.smoke,
        verbose=arguments.verbose,
        **parse_overrides([*arguments.overrides, *epochs]),
    )
    header = list(dict.fromkeys(key for row in rows for key in row if key != "folder"))
    print(format_table(header, [[row.get(key, "") for key in header] for row in rows]))
    for name in ("sweep.csv", "sweep.png"):
        print(f"{name}: {arguments.out / name}")
    return 0
