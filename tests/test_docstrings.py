"""What a public name is documented with, read off the syntax trees: what applies to it, no less."""

import ast

import pytest

from tests.test_architecture import FACES, FOLDER, TREES

CLASSES: dict = {}
for _tree in TREES.values():
    for _node in _tree.body:
        if isinstance(_node, ast.ClassDef):
            CLASSES.setdefault(_node.name, []).append(_node)

pytestmark = pytest.mark.once


# Methods that Keras calls, and documents.
KERAS = {"build", "call", "compute_mask", "compute_output_shape", "from_config", "get_config"}
KERAS |= {"on_epoch_end"}


def public():
    """Face, name and definition of every name that a package shows, imported or its own."""
    for face in sorted(FACES):
        said = [node.value for node in TREES[face].body if ast.unparse(node)[:9] == "__all__ ="]
        shown = ast.literal_eval(said[0]) if said else ()
        for name in shown:
            yield from defined(face, face, name)
        for node in TREES[face].body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(FOLDER.name):
                for name in [a.name for a in node.names if a.name in shown or a.asname]:
                    yield from defined(face, node.module.partition(".")[2], name)


def defined(face, module, name):
    for node in TREES[module].body if module in TREES else ():
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            yield face, name, node


def statements(function):
    """Those of a function, not of functions within it."""
    inner = (ast.FunctionDef, ast.Lambda, ast.ClassDef)
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, inner):
            yield node
            yield from statements(node)


def sections(node):
    """The sections that a docstring must have."""
    function = node
    if isinstance(node, ast.ClassDef):
        made = (part for part in node.body if getattr(part, "name", "") == "__init__")
        function = next(made, None)
    if function is not None:
        arguments = {argument.arg for argument in function.args.args + function.args.kwonlyargs}
        found = list(statements(function))
        if arguments - {"self"}:
            yield "Args:"
            if any(isinstance(part, ast.Return) and part.value for part in found):
                yield "Returns:"
        if any(isinstance(part, ast.Raise) and part.exc for part in found):
            yield "Raises:"
    yield "Example:"


def test_public_names_are_documented():
    missing = []
    for face, name, node in public():
        text = ast.get_docstring(node) or ""
        lacking = [section for section in sections(node) if section not in text]
        if lacking or not text:
            missing.append((face, name, lacking))
    assert missing == []


def test_public_methods_are_documented():
    """In a line at least, by their class or by one that it inherits from."""
    missing = []
    for face, name, node in public():
        if isinstance(node, ast.ClassDef):
            undocumented = {method.name for method in methods(node)} - documented(name) - KERAS
            missing += [(face, name, method) for method in sorted(undocumented)]
    assert missing == []


def methods(node):
    functions = [part for part in node.body if isinstance(part, ast.FunctionDef)]
    return [function for function in functions if not function.name.startswith("_")]


def documented(name):
    """Names of the methods that a class of the package, and those it inherits from, document."""
    found = set()
    for node in CLASSES.get(name, ()):
        found |= {method.name for method in methods(node) if ast.get_docstring(method)}
        found = found.union(*(documented(base.id) for base in node.bases if hasattr(base, "id")))
    return found


def test_an_example_is_one_that_runs():
    """`Example:`, an empty line, then `>>>` below it: tests/test_readme.py finds and runs it."""
    wrong = []
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                if text.count("Example:") != text.count("\nExample:\n\n>>> "):
                    wrong.append((name, node.name))
    assert wrong == []
