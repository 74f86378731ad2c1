"""`permix train`: run a recipe, or go on with a run that was stopped."""

import argparse
from pathlib import Path

SMOKE = dict(epochs=2, batch_size=8, validation_images=16)
SMOKE_IMAGES = 32


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
    parser.add_argument("--out", type=Path, help="folder of the run (default: runs/RECIPE)")
    parser.add_argument("--data-dir", type=Path, help="folder with data files")
    parser.add_argument(
        "--smoke", action="store_true", help="two short epochs on generated images of that shape"
    )
    parser.add_argument("--verbose", type=int, choices=(0, 1, 2), default=1, help="progress of fit")
    parser.set_defaults(run=run, keep_memory=True)


def run(arguments):
    """Train, then write the preset and its card. Returns the exit code."""
    from keras_permix.training import finish, load_recipe, train

    recipe = load_recipe(arguments.recipe, arguments.option, arguments.overrides)
    name = "/".join(part for part in (arguments.recipe, arguments.option) if part)
    out = arguments.out or Path("runs", name)
    if arguments.smoke:
        recipe = {**recipe, **SMOKE}
        out = out.with_name(out.name + "_smoke")
    images = _images(recipe, arguments)
    model, rows = train(recipe, images, out, verbose=arguments.verbose)
    scores = finish(model, recipe, images, rows, out, name)
    for key, value in scores.items():
        print(f"{key}: {100 * value:.2f} %")
    print(f"preset: {out / 'preset'}\ncard: {out / 'README.md'}")
    return 0


def _images(recipe, arguments):
    from keras_permix import data

    if arguments.smoke:
        spec = recipe["model"]
        shape = (spec["image_size"], spec["image_size"], spec.get("channels", 3))
        return data.generated_images(
            shape, spec["num_classes"], count=SMOKE_IMAGES, seed=recipe["seed"]
        )
    spec = {**recipe["data"], "data_dir": arguments.data_dir}
    if spec.pop("source", None) == "tfds":
        name, size = spec.pop("name"), recipe["model"]["image_size"]
        return data.tfds_images(name, size, seed=recipe["seed"], **spec)
    return data.load_images(**spec)
