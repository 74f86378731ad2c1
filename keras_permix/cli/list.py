"""`permix list`: the presets that the package knows."""

import json


def add_parser(subparsers):
    parser = subparsers.add_parser("list", help="list the presets", description=__doc__)
    parser.set_defaults(run=run)


def run(arguments):
    """Print a table of presets, without Keras. Returns the exit code."""
    from keras_permix.cli.table import format_table
    from keras_permix.preset_folders import known_presets

    rows = [_row(name, folder) for name, folder in known_presets().items()]
    print(format_table(("preset", "class", "parameters", "weights", "measured"), rows))
    return 0


def _row(name, folder):
    from keras_permix.cli.table import format_scores
    from keras_permix.preset_folders import METADATA_FILE
    from keras_permix.recipe import load_recipe

    untrained = f"permix train {name}"
    if folder is None:
        return name, load_recipe(name)["model"]["class_name"], "–", untrained, "–"
    metadata = _read(folder / METADATA_FILE)
    weights = "yes" if "model.weights.h5" in metadata["files"] else untrained
    class_name = _read(folder / "config.json")["class_name"]
    scores = format_scores(metadata["scores"])
    return name, class_name, f"{metadata['parameter_count']:,}", weights, scores


def _read(path):
    return json.loads(path.read_text(encoding="utf-8"))
