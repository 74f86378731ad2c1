"""`permix train`: run a recipe, or go on with a run that was stopped."""

import argparse
from pathlib import Path

# What a run leaves in its folder. (A smoke run has no card.)
WRITTEN = {
    "preset": "preset",
    "card": "README.md",
    "log": "log.csv",
    "curves": "curves.png",
    "events": "tensorboard",
}


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "train",
        help="train a model from a recipe, or resume a stopped run",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("recipe", help="name (cspvit/cifar10_small) or path of a recipe")
    parser.add_argument("--option", help="one of the recipe's named options")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides",
        help="change a value of the recipe, e.g. --set epochs=2 --set model.width=64",
    )  # fmt: skip
    parser.add_argument("--init", metavar="PRESET", help="start from the weights of a preset")
    parser.add_argument("--out", type=Path, help="folder of the run (default: runs/PRESET)")
    parser.add_argument("--data-dir", type=Path, help="folder with data files")
    parser.add_argument(
        "--smoke", action="store_true", help="two short epochs of generated data of that shape"
    )
    parser.add_argument("--verbose", type=int, choices=(0, 1, 2), default=1, help="progress of fit")
    parser.set_defaults(run=run, keep_memory=True)


def run(arguments):
    """Train, then write the preset and its card. Returns the exit code."""
    from keras_permix.cli.outputs import check_folder
    from keras_permix.scores import format_score
    from keras_permix.training import Run, train
    from keras_permix.training.finish import finished_scores

    init = [f"init={arguments.init!r}"] if arguments.init else []
    overrides = (*arguments.overrides, *init)
    asked = Run(arguments.recipe, arguments.option, overrides, arguments.smoke)
    folder = arguments.out or asked.folder
    epochs = asked.values["epochs"]  # A wrong recipe makes no folder.
    check_folder("--out", folder)
    scores = finished_scores(asked, folder)
    if scores is not None:
        print(f"{folder}: this run is finished, all {epochs} epochs, and nothing is done again")
    else:
        print(f"{asked.name}: {epochs} epochs, kept in {folder}; after a kill, start it again")
        scores = train(
            arguments.recipe,
            arguments.option,
            overrides,
            out=folder,
            data_dir=arguments.data_dir,
            smoke=arguments.smoke,
            verbose=arguments.verbose,
        ).scores
    for key, value in scores.items():
        print(f"{key}: {format_score(key, value)}")
    for name, file in WRITTEN.items():
        if (folder / file).exists():
            print(f"{name}: {folder / file}")
    return 0
