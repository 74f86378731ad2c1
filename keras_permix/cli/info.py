"""`permix info`: what is known of a preset."""

import json

SAID = ("data", "data_options", "recipe", "command", "commit", "license")


def add_parser(subparsers):
    parser = subparsers.add_parser("info", help="show a preset", description=__doc__)
    parser.add_argument("preset", help="name (cspvit/cifar10_small), folder, or handle")
    parser.set_defaults(run=run)


def run(arguments):
    """Print a preset's record. Returns the exit code."""
    from keras_permix.cli.table import format_scores, format_table
    from keras_permix.zoo import MODELS, preset_info

    info = preset_info(arguments.preset)
    metadata = info.metadata
    labels = metadata.get("labels") or []
    rows = [
        ("class", info.class_name),
        ("task", MODELS[info.class_name].task or "–"),
        ("weights", "yes" if info.has_weights else f"none yet: permix train {info.name}"),
        ("folder", str(info.files.folder) if info.files else "–"),
        ("parameters", f"{info.parameters:,}" if info.parameters else "–"),
        ("measured", format_scores(info.scores)),
        ("labels", ", ".join(labels[:10] + ["…"] * (len(labels) > 10)) or "–"),
        *((key, str(metadata.get(key) or "–")) for key in SAID),
        ("saved", f"{metadata.get('date_saved', '–')}, Keras {metadata.get('keras_version', '–')}"),
        *((f"  {key}", _plain(key, value)) for key, value in info.config.items()),
    ]
    files = metadata.get("files", {})
    rows += [(f"  {name}", f"{entry['bytes']:,} bytes") for name, entry in files.items()]
    print(format_table((info.name, ""), rows))
    return 0


def _plain(key, value):
    if key == "dtype" and isinstance(value, dict):
        return value["config"].get("name", "quantized layer by layer")
    return json.dumps(value)
