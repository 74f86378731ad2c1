"""Test rules of the repository: folders, sizes, presets, wheel, versions and CI."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from keras_permix import zoo
from keras_permix.recipes.find import recipe_folders, weights_folders
from tests.harness.processes import environment

ROOT = Path(__file__).resolve().parents[1]
MEGABYTE = 2**20

pytestmark = pytest.mark.once


def test_only_two_top_level_packages():
    # tests/ is a package for `python -m tests` and for imports between tests.
    found = {path.relative_to(ROOT).parts[0] for path in ROOT.glob("[!.]*/**/__init__.py")}
    environments = {path.parent.name for path in ROOT.glob("*/pyvenv.cfg")}
    assert found - environments == {"keras_permix", "tests"}


def test_weights_are_small():
    sizes = {path: path.stat().st_size for path in ROOT.glob("weights/**/*") if path.is_file()}
    assert sizes, "there are presets"
    assert sum(sizes.values()) < 64 * MEGABYTE
    assert max(sizes.values()) < 16 * MEGABYTE


@pytest.mark.parametrize("name", [n for n, info in zoo.list_presets().items() if info.has_weights])
def test_presets_are_complete(name):
    info = zoo.preset_info(name)
    assert info.files.folder == ROOT / "weights" / name
    info.files.verify()
    found = {path.name for path in info.files.folder.iterdir()}
    assert found == {*info.files.names, "metadata.json"}


def test_wheel_includes_recipes_and_weights():
    wheel = pyproject()["tool"]["hatch"]["build"]["targets"]["wheel"]
    included = {ROOT / folder for pair in wheel["sources"].items() for folder in pair}
    assert included == {*recipe_folders(), *weights_folders()}
    assert {pair[0] for pair in wheel["sources"].items()} < set(wheel["only-include"])


def pyproject():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_minimum_versions_match_tested_versions():
    project = pyproject()["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["jax"]]
    oldest = re.findall(r"^OLDEST_\w+ \?= (\w+)==(\d+\.\d+)\.0\b", makefile(), re.MULTILINE)
    assert [name for name, _ in oldest] == ["keras", "jax"]
    assert {f"{name}>={version}" for name, version in oldest} <= set(needed)


def makefile():
    return (ROOT / "Makefile").read_text(encoding="utf-8")


def test_tables_are_up_to_date():
    command = [sys.executable, ROOT / "tools" / "tables.py", "--check"]
    done = subprocess.run(command, env=environment())
    assert done.returncode == 0


def test_text_io_sets_encoding():
    calls = {
        f"{path.relative_to(ROOT)}:{call.lineno}": call
        for folder in ("keras_permix", "tools", "examples", "zoo", "docs")
        for path in ROOT.glob(f"{folder}/**/*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and opens_text(call)
    }
    assert calls, "there are text files"
    missing = [
        line
        for line, call in calls.items()
        if "encoding" not in {keyword.arg for keyword in call.keywords}
    ]
    assert missing == []


def opens_text(call):
    """Return whether a call opens a file or a process in text mode."""
    if any(word.arg in ("text", "universal_newlines") for word in call.keywords):
        return True
    if getattr(call.func, "attr", None) in ("read_text", "write_text"):
        return True
    if getattr(call.func, "id", None) != "open":
        return False
    given = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
    return not any("b" in str(getattr(mode, "value", "")) for mode in given)


def test_ci_workflow_commands():
    """Commits run one script and the weekly job runs all cases.

    A variable of pip selects PyTorch's CPU build.
    """
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    commit, *week = re.findall(r"^ +- run: (.*)$", workflow, re.MULTILINE)
    assert commit == "bash .ci/run"
    assert week == [
        "make test ARGS=--thorough", "make test-accelerators", "make test-jax-triton",
        "make test-exports",
    ]  # fmt: skip
    assert (ROOT / ".ci" / "run").is_file()
    (setting,) = re.findall(r"^ +(PIP_\w+): https://\S+/cpu$", workflow, re.MULTILINE)
    assert setting in makefile()
