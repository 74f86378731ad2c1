"""Test the prose checker on Markdown and docstrings."""

import pytest

from tests.harness import load_module

tool = load_module("tools/check_voice.py")

pytestmark = pytest.mark.once

LONG = " ".join(["Word"] * 31)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("One.\nIt depends on tokens\nalone.", 3, "alone"),
        ("A token hears\nothers.", 1, "hears"),
        ("of so\nmany tokens", 1, "so many"),
        ("a layer of your own", 1, "of your own"),
        ("It starts anew.", 1, "anew"),
        ("This is none of them.", 1, "is none"),
        (f"Short.\nOne two.\n{LONG}.", 3, "31 words"),
    ],
)
def test_markdown(tmp_path, capsys, text, line, words):
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    assert tool.main([str(path)]) == 1
    assert capsys.readouterr().out.startswith(f"{path}:{line}: {words}")


@pytest.mark.parametrize(
    "text",
    [
        "It can stand alone. `alone`",
        "```python\nso many\n```",
        "| anew |",
        f"<!--\n{LONG}\n-->",
        f"<div>\n{LONG}\n</div>",
        f"See [here](https://{LONG.replace(' ', '/')}).",
        "* " + LONG[:70] + "\n* " + LONG[:70] + "\n* " + LONG[:70],
        f"# {LONG[:80]}\n{LONG[:100]}",
    ],
)
def test_code_tables_links_and_short_items_pass(tmp_path, text):
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    assert tool.main([str(path)]) == 0


def test_docstrings(tmp_path, capsys):
    path = tmp_path / "module.py"
    path.write_text(
        '"""Good."""\n\n\ndef one(x):\n    """What it is.\n\n    Args:\n'
        f'        x: {LONG}.\n\n    Example:\n\n    >>> anew\n    """\n    return "anew"\n',
        encoding="utf-8",
    )
    assert tool.main([str(tmp_path)]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{path}:5: starts with What"
    assert second.startswith(f"{path}:8: 32 words")
