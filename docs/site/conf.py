"""The documentation site: `make site`."""

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
myst_enable_extensions = ["html_image"]
myst_heading_anchors = 3


def setup(app):
    app.connect("autodoc-process-signature", signature_of_init)


def signature_of_init(app, what, name, thing, options, signature, returns):
    """The arguments of a class are those of its `__init__`: Keras' `__new__` takes any."""
    if what == "class":
        first, *others = inspect.signature(thing.__init__).parameters.values()
        return str(inspect.Signature(others)), returns
