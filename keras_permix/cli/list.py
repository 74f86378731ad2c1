"""List the presets of the package."""

import json

from keras_permix.cli.common import format_scores, format_table


def add_arguments(parser):
    parser.set_defaults(needs_keras=False)


def run(arguments):
    """Print a table of presets without importing Keras, and return the exit code."""
    from keras_permix.recipes.find import known_presets

    rows = [_row(name, folder) for name, folder in known_presets().items()]
    print(format_table(("preset", "class", "parameters", "weights", "measured"), rows))
    return 0


def _row(name, folder):
    from keras_permix.recipes.find import CONFIG_FILE, METADATA_FILE, WEIGHTS_FILE
    from keras_permix.recipes.load import load_recipe

    untrained = f"permix train {name}"
    if folder is None:
        class_name = load_recipe(name).model.get("class_name", "–")
        return name, class_name, "–", untrained, "–"
    metadata = json.loads((folder / METADATA_FILE).read_text(encoding="utf-8"))
    count = metadata.get("parameter_count")
    weights = "yes" if (folder / WEIGHTS_FILE).is_file() else untrained
    config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    scores = format_scores(metadata.get("scores"))
    return name, config["class_name"], "–" if count is None else f"{count:,}", weights, scores
