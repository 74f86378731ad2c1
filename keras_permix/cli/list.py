"""`permix list`: the presets that the package knows."""


def add_parser(subparsers):
    parser = subparsers.add_parser("list", help="list the presets", description=__doc__)
    parser.set_defaults(run=run)


def run(arguments):
    """Print a table of presets. Returns the exit code."""
    from keras_permix.cli.table import format_scores, format_table
    from keras_permix.zoo import list_presets

    rows = []
    for name, info in list_presets().items():
        parameters = f"{info.parameters:,}" if info.parameters else "–"
        weights = "yes" if info.has_weights else f"permix train {name}"
        rows.append((name, info.class_name, parameters, weights, format_scores(info.scores)))
    print(format_table(("preset", "class", "parameters", "weights", "measured"), rows))
    return 0
