"""`permix info`: what is known of a preset.

MACs are the multiply-adds of one sample, as `keras_permix.analysis.count_macs` counts them: those
of matrix products and attention, and one for each output of a normalization or activation. Layers
that it has no rule for are named.
"""

import json

from keras_permix.recipe import recipe_folders

SAID = ("data", "data_options", "command", "commit", "license")
PLANNED = ("epochs", "batch_size", "precision")  # what a recipe says, too


def add_parser(subparsers):
    parser = subparsers.add_parser("info", help="show a preset", description=__doc__)
    parser.add_argument("preset", help="name (cspvit/cifar10_small), folder, or handle")
    parser.set_defaults(run=run)


def run(arguments):
    """Print a preset's record. Returns the exit code."""
    from keras_permix.cli.table import format_table
    from keras_permix.zoo import MODELS, preset_info
    from keras_permix.zoo.model import ZooModel

    info = preset_info(arguments.preset)
    model = ZooModel.from_preset(arguments.preset, load_weights=False)
    files = info.metadata.get("files", {})
    rows = [
        ("class", info.class_name),
        ("task", MODELS[info.class_name].task_for(info.config) or "–"),
        ("parameters", f"{model.count_params():,}"),
        ("MACs", _macs(model)),
        ("input", ", ".join(f"{key} {value}" for key, value in model.describe_input().items())),
        *(_stored(info) if info.files else _planned(info.name)),
        *((f"  {key}", _plain(key, value)) for key, value in info.config.items()),
        *((f"  {name}", f"{file['bytes']:,} bytes") for name, file in files.items()),
    ]
    print(format_table((info.name, ""), rows))
    return 0


def _macs(model):
    """The multiply-adds of one sample, and what they leave out."""
    from keras_permix.analysis.macs import count_macs

    macs = count_macs(model)
    left_out = ", ".join(f"{count} {name}" for name, count in macs.uncounted.items())
    return f"{macs.total:,}" + (f", without {left_out}" if left_out else "")


def _stored(info):
    """What the files of a preset say of it."""
    from keras_permix.cli.table import format_scores

    metadata = info.metadata
    labels = metadata.get("labels") or []
    return [
        ("weights", "yes" if info.has_weights else f"none yet: permix train {info.name}"),
        ("folder", str(info.files.folder)),
        ("measured", format_scores(info.scores)),
        ("labels", ", ".join(labels[:10] + ["…"] * (len(labels) > 10)) or "–"),
        ("recipe", _file(metadata.get("recipe"))),
        *((key, str(metadata.get(key) or "–")) for key in SAID),
        ("saved", f"{metadata.get('date_saved', '–')}, Keras {metadata.get('keras_version', '–')}"),
    ]


def _planned(name):
    """What the recipe says of a preset that nobody has trained yet."""
    from keras_permix.training import Run

    run = Run(name)
    data, paper = dict(run.values["data"]), dict(run.values["paper"] or {})
    note = paper.pop("note", "no paper reports this configuration")
    expected = ", ".join(f"{metric} {score}" for metric, score in paper.items())
    return [
        ("weights", f"none yet: {run.command}"),
        ("expected", f"{expected or '–'} ({note})"),
        ("data", data.pop("name")),
        ("data_options", str(data or "–")),
        ("recipe", _file(run.source)),
        *((key, str(run.values[key])) for key in PLANNED),
    ]


def _file(source):
    """Where the recipe of a record lies on this machine; else what the record says of it."""
    known = [folder.parent / source for folder in recipe_folders()] if source else []
    return next((str(path) for path in known if path.is_file()), str(source or "–"))


def _plain(key, value):
    if key == "dtype" and isinstance(value, dict):
        return value["config"].get("name", "quantized layer by layer")
    return json.dumps(value)
