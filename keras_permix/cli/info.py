"""Show a preset, a model class with the arguments given by `--set`, or a `.keras` file.

MACs are the multiply-adds of one sample, counted by `keras_permix.analysis.count_macs`: those of
matrix products and attention, and one per output of a normalization or activation. Layers without
a rule are listed.
"""

import json
from pathlib import Path

from keras_permix.cli.common import add_overrides, format_scores, format_table
from keras_permix.recipes.load import parse_overrides

METADATA_KEYS = ("data", "data_options", "command", "commit", "license")
RECIPE_KEYS = ("epochs", "batch_size", "precision")
LONGEST = 200  # characters of an argument


def add_arguments(parser):
    parser.add_argument(
        "model",
        help="name (cspvit/cifar10_small), folder or handle of a preset; class (CSPViT); or "
        ".keras file",
    )
    add_overrides(parser, "set an argument of the model, e.g. --set image_size=48")


def run(arguments):
    """Print a table, and return the exit code."""
    from keras_permix.zoo import MODELS

    name, changes = arguments.model, parse_overrides(arguments.overrides)
    classes = {known.lower(): known for known in MODELS}
    if name.lower() in classes:
        name = classes[name.lower()]
        rows = _of_class(MODELS[name], changes)
    elif Path(name).suffix == ".keras":
        rows = _of_file(Path(name), changes)
    else:
        name, rows = _of_preset(name, changes)
    print(format_table((name, ""), rows))
    return 0


def _of_preset(name, changes):
    """Return the name of a preset and its rows."""
    from keras_permix.zoo import preset_info
    from keras_permix.zoo.model import ZooModel

    info = preset_info(name)
    model = ZooModel.from_preset(name, load_weights=False, **changes)
    files = info.metadata.get("files", {})
    changed = any(info.config.get(key) != value for key, value in changes.items())
    of = ", of the preset without --set" if changed else ""
    return info.name, [
        *_of_model(model),
        *(_stored(info, model.labels, of) if info.files else _planned(info.name, of)),
        *_arguments(model.get_config(), ("trainable", *model.asset_files)),
        *((f"  {path}", f"{file['bytes']:,} bytes") for path, file in files.items()),
    ]


def _of_class(cls, changes):
    """Return the rows of a model class with arguments."""
    from keras_permix.recipes.find import known_presets

    model = cls(**changes)
    presets = [name for name in known_presets() if name.startswith(f"{cls.__name__.lower()}/")]
    return [
        *_of_model(model),
        ("presets", ", ".join(presets) or "–"),
        *_arguments(model.get_config()),
    ]


def _of_file(path, changes):
    """Return the rows of a `.keras` file."""
    import keras
    import numpy as np

    from keras_permix.zoo.model import ZooModel

    if changes:
        raise ValueError(f"`--set` requires a preset or a class. Received: {path} with {changes}")
    model = keras.saving.load_model(path, compile=False)
    if isinstance(model, ZooModel):
        return [*_of_model(model), *_arguments(model.get_config())]
    macs = "– (an input has no fixed size)"
    if not any(None in tensor.shape[1:] for tensor in model.inputs):
        sample = keras.tree.map_structure(
            lambda tensor: np.zeros((1, *tensor.shape[1:]), tensor.dtype), model.input
        )
        macs = _macs(model, sample)
    return [
        ("class", type(model).__name__),
        ("parameters", f"{model.count_params():,}"),
        ("MACs", macs),
        ("input", ", ".join(f"{tensor.name} {tensor.shape[1:]}" for tensor in model.inputs)),
    ]


def _of_model(model):
    """Return the rows of a model of the zoo."""
    return [
        ("class", type(model).__name__),
        ("task", model.task_for(model.get_config()) or "–"),
        ("parameters", f"{model.count_params():,}"),
        ("MACs", _macs(model)),
        ("input", ", ".join(f"{key} {value}" for key, value in model.describe_input().items())),
    ]


def _arguments(config, others=()):
    """Return rows of the arguments that make a model of the zoo, without `others`."""
    shown = [key for key in config if key not in ("name", "labels", "frozen", *others)]
    return [(f"  {key}", _plain(key, config[key])) for key in shown]


def _macs(model, inputs=None):
    """Return the MACs of one sample, and the layers that are not counted."""
    from keras_permix.analysis.macs import count_macs

    macs = count_macs(model, inputs)
    left_out = ", ".join(f"{count} {name}" for name, count in macs.uncounted.items())
    return f"{macs.total:,}" + (f", without {left_out}" if left_out else "")


def _stored(info, labels, of):
    """Return the rows of a preset's metadata; `of` notes values that `--set` does not change."""
    metadata, labels = info.metadata, list(labels or ())
    return [
        ("weights", f"yes{of}" if info.has_weights else f"none yet: permix train {info.name}"),
        ("folder", str(info.files.folder)),
        ("measured", format_scores(info.scores) + of),
        ("labels", ", ".join(labels[:10] + ["…"] * (len(labels) > 10)) or "–"),
        ("recipe", str(metadata.get("recipe") or "–")),
        *((key, str(metadata.get(key) or "–")) for key in METADATA_KEYS),
        ("saved", f"{metadata.get('date_saved', '–')}, Keras {metadata.get('keras_version', '–')}"),
    ]


def _planned(name, of):
    """Return the rows of an untrained preset's recipe."""
    from keras_permix.training import plan_run

    run = plan_run(name)
    data, paper = dict(run.recipe.data), dict(run.recipe.paper or {})
    note = paper.pop("note", "no paper reports this configuration")
    expected = ", ".join(f"{metric} {score}" for metric, score in paper.items())
    return [
        ("weights", f"none yet: {run.command}"),
        ("expected", f"{expected or '–'} ({note}){of}"),
        ("data", data.pop("name")),
        ("data_options", str(data or "–")),
        ("recipe", run.source),
        *((key, str(getattr(run.recipe, key))) for key in RECIPE_KEYS),
    ]


def _plain(key, value):
    if key == "dtype" and isinstance(value, dict):
        return value["config"].get("name", "quantized layer by layer")
    text = json.dumps(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"  # A tokenizer is long.
