"""What a public name is documented with, read off the syntax trees: what applies to it, no less."""

import ast

import pytest

from tests.test_architecture import FACES, FOLDER, TREES

pytestmark = pytest.mark.once


def public():
    """Face, name and definition of every name that a package shows."""
    for face in sorted(FACES):
        said = [node.value for node in TREES[face].body if ast.unparse(node)[:9] == "__all__ ="]
        shown = ast.literal_eval(said[0]) if said else ()
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
