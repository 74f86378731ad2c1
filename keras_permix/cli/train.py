"""Train a model from a recipe, or resume an interrupted run.

To resume, run the same command again.
"""

import shlex

from keras_permix.cli.common import add_overrides, add_training, given_path


def add_arguments(parser):
    parser.add_argument(
        "recipe",
        help="name (cspvit/cifar10_small) or .toml file of a recipe; with --init, also a folder of "
        "images with a subfolder per class (optionally below train/, val/ and test/), or a CSV "
        "file with the columns path, label and optionally split",
    )
    parser.add_argument("--option", help="use a named option of the recipe")
    add_overrides(
        parser, "set a value of the recipe, e.g. --set epochs=2 --set model.hidden_dim=64"
    )
    parser.add_argument("--init", metavar="PRESET", help="start from the weights of a preset")
    parser.add_argument("--freeze", metavar="PART", help='freeze "backbone" or a layer')
    parser.add_argument("--epochs", type=int, metavar="N", help="number of epochs")
    parser.add_argument(
        "--skip-unreadable", action="store_true", help="skip images that cannot be read"
    )
    parser.add_argument("--out", type=given_path, help="folder of the run (default: runs/PRESET)")
    parser.add_argument(
        "--distribute", choices=("data", "model", "auto"),
        help="distribute batches (data) or parameters (model, JAX only) over devices or processes",
    )  # fmt: skip
    parser.add_argument(
        "--steps-per-execution", type=int, default=1, metavar="N",
        help="training steps between calls of callbacks (on TensorFlow, one compiled call)",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="threads that prepare batches"
    )
    smoke = "train for two short epochs on generated data, or on a few of your images"
    add_training(parser, smoke, verbose=1)


def run(arguments):
    """Train, write the preset and its card, and return the exit code."""
    from keras_permix.recipes.load import parse_overrides
    from keras_permix.training import plan_run, train
    from keras_permix.training.distribute import distributed
    from keras_permix.training.preset import finished_scores
    from keras_permix.training.run import FLAGS
    from keras_permix.training.run_folder import WRITTEN
    from keras_permix.utils.formatting import format_score

    short = [f"{k}={v}" for k in FLAGS if (v := getattr(arguments, k)) is not None]
    if arguments.skip_unreadable:
        short.append("data.skip_unreadable=true")
    changes = parse_overrides([*arguments.overrides, *short])
    asked = plan_run(arguments.recipe, arguments.option, arguments.smoke, **changes)
    folder = arguments.out or asked.folder
    with distributed(arguments.distribute) as distribution:
        say = print if distribution.is_chief else lambda line: None
        scores = distribution.from_chief(finished_scores, asked, folder, arguments.data_dir)
        if scores is not None:
            say(f"{folder}: this run is finished; pass another --out to train again")
        else:
            scores = train(
                asked,
                out=folder,
                data_dir=arguments.data_dir,
                verbose=arguments.verbose,
                distribute=distribution,
                steps_per_execution=arguments.steps_per_execution,
                workers=arguments.workers,
            ).scores
        for key, value in scores.items():
            say(f"{key}: {format_score(key, value)}")
        for name, file in WRITTEN.items():
            if (folder / file).exists():
                say(f"{name}: {folder / file}")
        if not arguments.smoke:  # The model of a smoke run is untrained.
            preset = (folder / "preset").as_posix()
            say(f"predict: {shlex.join(['permix', 'predict', preset])} INPUT")
    return 0
