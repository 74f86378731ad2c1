"""`permix train`: run a recipe, or go on with a run that was stopped."""

import shlex

from keras_permix.cli.parser import add_data_dir, add_overrides, add_verbose, given, given_path
from keras_permix.utils.formatting import counted

# What a run leaves in its folder. (A smoke run has no card.)
WRITTEN = {
    "preset": "preset",
    "card": "README.md",
    "log": "log.csv",
    "curves": "curves.png",
    "events": "tensorboard",
}


def add_arguments(parser):
    parser.add_argument(
        "recipe",
        type=given,
        help="name (cspvit/cifar10_small) or path of a recipe; or, with --init, images: a folder "
        "per class, perhaps in train/, val/ and test/, or a CSV file of path,label, perhaps split",
    )
    parser.add_argument("--option", help="one of the recipe's named options")
    add_overrides(
        parser, "change a value of the recipe, e.g. --set epochs=2 --set model.hidden_dim=64"
    )
    parser.add_argument("--init", metavar="PRESET", help="start from the weights of a preset")
    parser.add_argument("--freeze", metavar="PART", help='what stays as it is: "backbone", a layer')
    parser.add_argument("--epochs", type=int, metavar="N", help="how often to go through the data")
    parser.add_argument(
        "--skip-unreadable", action="store_true", help="train without images that cannot be read"
    )
    parser.add_argument("--out", type=given_path, help="folder of the run (default: runs/PRESET)")
    add_data_dir(parser)
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="two short epochs of generated data of that shape, or of a few images of your own",
    )
    parser.add_argument(
        "--distribute", choices=("data", "model", "auto"),
        help="divide batches, or on JAX weights, among devices and the processes that are there",
    )  # fmt: skip
    parser.add_argument(
        "--steps-per-execution", type=int, default=1, metavar="N",
        help="steps between two looks at the loss; more keep a TPU or GPU busy",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="threads that make batches"
    )
    add_verbose(parser, default=1)
    parser.set_defaults(run=run, keep_memory=True)


def run(arguments):
    """Train, then write the preset and its card. Returns the exit code."""
    from keras_permix.cli.common import check_folder, trained_preset
    from keras_permix.recipes.load import parse_overrides
    from keras_permix.training import plan_run, train
    from keras_permix.training.distribute import distributed
    from keras_permix.training.finish import finished_scores
    from keras_permix.training.run import FLAGS
    from keras_permix.training.start import check_data
    from keras_permix.utils.formatting import format_score

    given = {key: getattr(arguments, key) for key in FLAGS}
    short = [f"{key}={value}" for key, value in given.items() if value is not None]
    if arguments.skip_unreadable:
        short.append("data.skip_unreadable=true")
    changes = parse_overrides([*arguments.overrides, *short])
    asked = plan_run(arguments.recipe, arguments.option, arguments.smoke, **changes)
    folder = arguments.out or asked.folder
    check_data(asked.recipe)  # A wrong recipe makes no folder.
    if asked.recipe.init:
        trained_preset(asked.recipe.init)
    length = counted(asked.recipe.epochs, "epoch")
    check_folder("--out", folder)
    with distributed(arguments.distribute) as distribution:
        say = print if distribution.is_chief else _nothing
        scores = distribution.from_chief(finished_scores, asked, folder, arguments.data_dir)
        if scores is not None:
            say(f"{folder}: this run of {length} is finished; another --out trains anew")
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
        if not arguments.smoke:  # Those of a smoke run know nothing.
            say(f"ask it: {shlex.join(['permix', 'predict', str(folder / 'preset')])} INPUT")
    return 0


def _nothing(line):
    """What all but the first process of a run say."""
