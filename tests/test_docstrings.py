"""Test that docstrings of public names have all sections that apply to them."""

import ast
import re

import pytest

from tests.test_architecture import FOLDER, PACKAGES, TREES

CLASSES: dict = {}
for _tree in TREES.values():
    for _node in _tree.body:
        if isinstance(_node, ast.ClassDef):
            CLASSES.setdefault(_node.name, []).append(_node)

pytestmark = pytest.mark.once


# Methods that Keras calls and documents.
INHERITED = {"build", "call", "compute_mask", "compute_output_shape", "from_config", "get_config"}
INHERITED |= {"on_epoch_end"}


def public():
    """Yield package, name and definition of every name that a package exports."""
    for package in sorted(PACKAGES):
        nodes = TREES[package].body
        declared = [node.value for node in nodes if ast.unparse(node)[:9] == "__all__ ="]
        exported = ast.literal_eval(declared[0]) if declared else ()
        for name in exported:
            yield from defined(package, package, name)
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(FOLDER.name):
                for name in [a.name for a in node.names if a.name in exported or a.asname]:
                    yield from defined(package, node.module.partition(".")[2], name)


def defined(package, module, name):
    for node in TREES[module].body if module in TREES else ():
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            yield package, name, node


def statements(function):
    """Yield the statements of a function, except those of nested functions and classes."""
    inner = (ast.FunctionDef, ast.Lambda, ast.ClassDef)
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, inner):
            yield node
            yield from statements(node)


def sections(node):
    """Yield the sections that a docstring must have."""
    function = node
    if isinstance(node, ast.ClassDef):
        inits = (part for part in node.body if getattr(part, "name", "") == "__init__")
        function = next(inits, None)
    if function is not None:
        arguments = {argument.arg for argument in function.args.args + function.args.kwonlyargs}
        found = list(statements(function))
        if arguments - {"self"}:
            yield "Args:"
            returns = any(isinstance(part, ast.Return) and part.value for part in found)
            if returns and getattr(function.returns, "id", "") not in CLASSES:
                yield "Returns:"
        if any(isinstance(part, ast.Raise) and part.exc for part in found):
            yield "Raises:"
    if not is_variant(node):
        yield "Example:"


def is_variant(node):
    """Return whether a class only sets attributes of its base classes, such as a name."""
    body = node.body[1:] if isinstance(node, ast.ClassDef) and node.bases else []
    return bool(body) and all(isinstance(part, ast.Assign) for part in body)


def test_public_names_are_documented():
    missing = []
    for package, name, node in public():
        text = ast.get_docstring(node) or ""
        lacking = [section for section in sections(node) if section not in text]
        if lacking or not text:
            missing.append((package, name, lacking))
    assert missing == []


def test_public_methods_are_documented():
    """A docstring in the class or in a base class is enough."""
    missing = []
    for package, name, node in public():
        if isinstance(node, ast.ClassDef):
            undocumented = {method.name for method in methods(node)} - documented(name) - INHERITED
            missing += [(package, name, method) for method in sorted(undocumented)]
    assert missing == []


def methods(node):
    functions = [part for part in node.body if isinstance(part, ast.FunctionDef)]
    return [function for function in functions if not function.name.startswith("_")]


def documented(name):
    """Return the names of methods with a docstring, or named in that of a class or its bases."""
    found = set()
    for node in CLASSES.get(name, ()):
        found |= set(re.findall(r"`(\w+)\(", ast.get_docstring(node) or ""))
        found |= {method.name for method in methods(node) if ast.get_docstring(method)}
        found = found.union(*(documented(base.id) for base in node.bases if hasattr(base, "id")))
    return found


def test_examples_are_doctests():
    """`tests/test_readme.py` runs only examples with this layout."""
    wrong = []
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                if text.count("Example:") != text.count("\nExample:\n    >>> "):
                    wrong.append((name, node.name))
    assert wrong == []
