"""Show or set the default backend of Keras.

The setting is stored in keras.json, in ~/.keras or in KERAS_HOME. It applies to all Keras programs
that do not set KERAS_BACKEND.
"""


def add_arguments(parser):
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="backend to set: jax, tensorflow or torch (default: show the current one)",
    )
    parser.set_defaults(needs_keras=False)


def run(arguments):
    """Print or set the backend, without importing Keras. Return the exit code."""
    import json

    from keras_permix import _backend
    from keras_permix.utils.files import write_text

    installed, first = _backend.installed_backends(), _backend.set_by_user()
    if arguments.name is None:
        kept = _backend.settings().get("backend", _backend.DEFAULT)
        name = first or kept
        absent = "" if name in installed else ", which is not installed"
        taken = f"; permix uses {installed[0]}" if absent and installed and not first else ""
        known = ", ".join(installed) or "none"
        print(f"default backend: {name}{absent} (installed: {known}){taken}")
        return 0
    _backend.check_installed("NAME", arguments.name)
    path, settings = _backend.settings_file(), _backend.settings()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({**settings, "backend": arguments.name}, indent=4) + "\n")
    beside = f"; KERAS_BACKEND={first} overrides it" if first else ""
    print(f"default backend: {arguments.name}, saved in {path}{beside}")
    return 0
