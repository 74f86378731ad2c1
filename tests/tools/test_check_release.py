"""Test the release checks: files, metadata, links and snippets."""

import re
import tomllib

import pytest

from tests.harness import ROOT, load_module

tool = load_module("tools/check_release.py")

pytestmark = pytest.mark.once

METADATA = """Metadata-Version: 2.4
Name: keras_permix
Version: 1.0
Summary: Layers
License-Expression: Apache-2.0
Requires-Python: >=3.11

# keras_permix

{}
"""


def described(text):
    return METADATA.format(text).encode("utf-8")


def test_release_readme_has_only_absolute_links():
    """Apply the substitutions in pyproject.toml like the build plugin."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="docs/csp.svg.*zoo/README.md"):
        tool.check_metadata(described(readme))
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    hook = pyproject["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    for each in hook["substitutions"]:
        for pattern in each["pattern"].split("|"):
            assert re.search(pattern, readme), f"{pattern} does not match the README"
        readme = re.sub(each["pattern"], each["replacement"], readme)
    tool.check_metadata(described(readme))
    assert "The table lists a selection of all presets." in readme and "docs/" not in readme


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (described("[a](zoo/README.md)"), r"absolute links. Received: \['zoo/README.md'\]"),
        (described('<img src="docs/a.png">'), r"absolute links. Received: \['docs/a.png'\]"),
        (described("[a](https://example.org)").replace(b"Summary", b"Other"), "No .'Summary'"),
    ],
)
def test_invalid_metadata_raises(metadata, message):
    with pytest.raises(ValueError, match=message):
        tool.check_metadata(metadata)


def test_unexpected_files_raise():
    names = ["keras_permix/__init__.py", "weights/README.md", "a-1.0.dist-info/METADATA", "LICENSE"]
    tool.check_names(names)
    with pytest.raises(ValueError, match=r"Received: \['tools'\]"):
        tool.check_names([*names, "tools/publish.py"])


def test_snippets_include_expected_output():
    page = """One:
```python
print(1)  # 1
x = 2  # no output
print(x,
      x)
```
```sh
permix list  # no Python
```
```python
print("a")  # a
print("b")  # b
```
"""
    one, two = tool.snippets(page)
    assert one == ("print(1)  # 1\nx = 2  # no output\nprint(x,\n      x)\n", "1\n")
    assert two[1] == "a\nb\n"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(printed for _, printed in tool.snippets(readme))
