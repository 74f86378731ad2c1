"""Test the documentation: snippets, docstring examples, links, commands and recipes."""

import ast
import doctest
import importlib
import pkgutil
import re
import shlex
from importlib.util import find_spec

import keras
import numpy as np
import pytest

import keras_permix
from keras_permix.cli.common import VERBS, parse
from keras_permix.training import load_recipe
from keras_permix.training.data import check_data
from tests.harness import ROOT
from tests.test_architecture import PACKAGES, TREES

PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "benchmarks/kernels.md",
    "benchmarks/waiting.md",
    "docs/get_started.md",
    "docs/guides/convert.md",
    "docs/guides/devices.md",
    "docs/guides/export.md",
    "docs/guides/fine_tune.md",
    "docs/guides/inspect.md",
    "docs/guides/long_sequences.md",
    "docs/guides/pretrained.md",
    "docs/guides/recipes.md",
    "docs/guides/replace_attention.md",
    "docs/guides/streaming.md",
    "docs/mixers.md",
    "docs/models.md",
    "docs/reference/cli.md",
    "docs/reference/data_formats.md",
    "docs/reference/recipe_keys.md",
    "weights/README.md",
    "docs/reproduce.md",
    "zoo/README.md",
    *(f"docs/models/{path.name}" for path in sorted(ROOT.glob("docs/models/*.md"))),
    *(f"docs/mixers/{path.name}" for path in sorted(ROOT.glob("docs/mixers/*.md"))),
)
TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in PAGES}
# Snippets and their expected output: in a block below, or in comments next to `print`.
SHOWN = [
    shown
    for page in TEXTS.values()
    for shown in re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", page, re.DOTALL)
]
SHOWN = [
    (snippet, printed or "".join(re.findall(r"print\(.*\)  # (.*\n)", snippet)))
    for snippet, printed in SHOWN
]
SNIPPETS = [snippet for snippet, _ in SHOWN]


@pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning")  # from PyTorch's ONNX exporter
@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_snippet_runs(number, tmp_path, monkeypatch, capsys):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    snippet, printed = SHOWN[number]
    backend = re.match(r"# KERAS_BACKEND=(\w+)\n", snippet)
    if backend and backend[1] != keras.backend.backend():
        pytest.skip(f"the snippet runs on {backend[1]}")
    exec(compile(snippet, f"snippet {number}", "exec"), {})
    assert printed in ("", capsys.readouterr().out)


def test_readme_snippets_show_their_output():
    snippets = re.findall(r"```python\n(.*?)```", TEXTS["README.md"], re.DOTALL)
    assert snippets and all(printed for snippet, printed in SHOWN if snippet in snippets)


@pytest.mark.parametrize("name", TEXTS)
def test_links_are_valid(name):
    folder = (ROOT / name).parent
    assert [link for link in links(TEXTS[name]) if not (folder / link).exists()] == []


def test_links_include_images():
    assert {"zoo/README.md", "docs/csp.svg"} <= set(links(TEXTS["README.md"]))


def links(text):
    """Return the relative links and image sources of a page."""
    found = re.findall(r'\]\((?!https?:)([^)#]+)|src="([^"]+)"', text)
    return [link or picture for link, picture in found]


@pytest.mark.parametrize("name", TEXTS)
def test_commands_exist(name):
    commands = set(re.findall(r"\bpermix ([a-z]+)\b", TEXTS[name]))
    assert commands or name != "README.md"
    assert commands <= set(VERBS)
    goals = set(re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)", TEXTS[name], re.MULTILINE))
    rules = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {goal for pair in goals for goal in pair if goal} <= rules


LINES = [
    shlex.split(line, comments=True)
    for name, text in TEXTS.items()
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    for line in re.findall(r"^permix [a-z].*", block.replace("\\\n", " "), re.MULTILINE)
]


@pytest.mark.once
def test_command_lines_are_accepted():
    assert len(LINES) > 20
    for line in LINES:
        parse(line[1:], lambda verb: importlib.import_module(f"keras_permix.cli.{verb}"))


RECIPES = [
    recipe
    for name, text in TEXTS.items()
    if name.startswith("docs/")
    for recipe in re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
]


@pytest.mark.once
@pytest.mark.parametrize("number", range(len(RECIPES)))
def test_recipe_is_accepted(number, tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPES[number], encoding="utf-8")
    check_data(load_recipe(path))


ONE_BACKEND = tuple(
    f"keras_permix.ops.backend.{name}" for name in ("jax", "tensorflow", "torch", "triton")
)


def examples():
    """Return all docstrings with examples, except in modules for a single backend."""
    finder, found = doctest.DocTestFinder(), {}
    for module in pkgutil.walk_packages(keras_permix.__path__, "keras_permix."):
        one_backend = module.name.startswith(ONE_BACKEND)
        missing_hub = module.name == "keras_permix.hub" and not find_spec("keras_hub")
        if not (one_backend or missing_hub or module.name.endswith("__main__")):
            for test in finder.find(importlib.import_module(module.name)):
                if test.examples:
                    found[test.name] = test
    return found


EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_docstring_example_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    test = EXAMPLES[name]
    test.globs |= {"keras": keras, "np": np}
    output = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=output.append)
    assert runner.failures == 0, "".join(output)


@pytest.mark.once
def test_every_docstring_example_is_found():
    """Compare with the syntax trees, and require an example in each package."""
    shown = [
        (f"keras_permix.{name}.", f".{node.name}")
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and ">>> " in (ast.get_docstring(node) or "")
        and (name != "hub" or find_spec("keras_hub"))
    ]
    missing = [
        ends
        for ends in shown
        if not any(name.startswith(ends[0]) and name.endswith(ends[1]) for name in EXAMPLES)
    ]
    assert [ends for ends in missing if not ends[0].startswith(ONE_BACKEND)] == []
    packages = {name for name in PACKAGES if name and "." not in name}
    assert packages <= {name.split(".")[1] for name in EXAMPLES}
