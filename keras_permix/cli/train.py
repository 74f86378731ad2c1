"""`permix train`: run a recipe, or go on with a run that was stopped."""

import argparse
from pathlib import Path


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
    from keras_permix.tasks.scores import format_score
    from keras_permix.training import train

    init = [f"init={arguments.init!r}"] if arguments.init else []
    done = train(
        arguments.recipe,
        arguments.option,
        [*arguments.overrides, *init],
        out=arguments.out,
        data_dir=arguments.data_dir,
        smoke=arguments.smoke,
        verbose=arguments.verbose,
    )
    for key, value in done.scores.items():
        print(f"{key}: {format_score(key, value)}")
    print(f"preset: {done.folder / 'preset'}")
    if not arguments.smoke:
        print(f"card: {done.folder / 'README.md'}")
    return 0
