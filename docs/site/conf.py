"""Configure the documentation site (`make site`)."""

import inspect
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

project = "keras_permix"
copyright = "the authors of keras_permix, Apache-2.0"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
html_theme = "furo"
html_title = project
html_static_path = [str(ROOT / "build" / "static")]
html_copy_source = False
html_show_sphinx = False

# Docstrings write code in single backticks, as Markdown does.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # Keras' own, of `call` and `build`
autodoc_mock_imports = ["keras_hub"]  # which nothing else here needs
myst_enable_extensions = ["html_image"]
myst_heading_anchors = 3


def setup(app):
    app.connect("autodoc-skip-member", skip_others)
    app.connect("autodoc-process-signature", signature_of_init)


def skip_others(app, what, name, thing, skip, options):
    """Skip what a class has from Keras and PyTorch, with Keras' methods that look at inputs."""
    routine = getattr(thing, "fget", thing)
    others = not str(getattr(routine, "__module__", "")).startswith("keras_permix")
    return skip or inspect.isroutine(routine) and others


def signature_of_init(app, what, name, thing, options, signature, returns):
    """The arguments of a class are those of its `__init__`: Keras' `__new__` takes any."""
    if what == "class":
        first, *others = inspect.signature(thing.__init__).parameters.values()
        return str(inspect.Signature(others)), returns
