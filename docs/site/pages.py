"""Write the pages of the documentation site from the pages of the repository.

python docs/site/pages.py FOLDER
"""

import json
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Guides, in the order of the sidebar.
GUIDES = (
    "pretrained", "fine_tune", "replace_attention", "convert", "long_sequences", "recipes",
    "devices", "export", "inspect", "streaming",
)  # fmt: skip
TUTORIALS = ("fine_tune_photos", "swap_attention", "long_texts")
TABLES = ("cli", "recipe_keys", "data_formats")
# Pages that are a whole file.
FILES = {
    "index": "README.md",
    "demo": "docs/site/demo.md",
    "explorer": "docs/site/explorer.md",
    "get_started": "docs/get_started.md",
    **{f"guides/{name}": f"docs/guides/{name}.md" for name in GUIDES},
    "models/index": "docs/models.md",
    **{f"models/{path.stem}": f"docs/models/{path.name}" for path in ROOT.glob("docs/models/*.md")},
    **{f"tutorials/{name}": f"docs/tutorials/{name}.ipynb" for name in TUTORIALS},
    "reproduce": "docs/reproduce.md",
    "examples": "examples/README.md",
    **{f"reference/{name}": f"docs/reference/{name}.md" for name in TABLES},
    "zoo/index": "zoo/README.md",
    "zoo/weights": "weights/README.md",
    "benchmarks/index": "benchmarks/README.md",
    "benchmarks/kernels": "benchmarks/kernels.md",
    "benchmarks/waiting": "benchmarks/waiting.md",
    "contributing": "CONTRIBUTING.md",
    "changelog": "CHANGELOG.md",
}
CARDS = sorted(path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("zoo/*/*/README.md"))
FILES |= {page: f"{page}/README.md" for page in CARDS}
# Where a link to a file of the repository leads on the site.
LEADS = {"docs/mixers.md": "mixers/index"}
MIXERS = {
    f"mixers/{path.stem}": f"docs/mixers/{path.name}" for path in ROOT.glob("docs/mixers/*.md")
}
LEADS |= {source: page for page, source in (FILES | MIXERS).items()}

BASES = ("Model", "Layer", "PyDataset", "tuple", "object")  # whose members are not shown
# Modules with a reference page.
PACKAGES = (
    "layers", "ops", "zoo", "data", "training", "training.distribute", "surgery", "analysis", "hub",
    "sklearn",
)  # fmt: skip
LINK = re.compile(r'(?P<text>!?\[[^\]]*\]\()(?P<to>[^)\s#]+)(?P<at>#[^)]*)?\)|(?<=<img src=")[^"]+')
# The tables of benchmarks/README.md with rows of mixers, and where they are explained.
MEASURED = {
    "layers": "Speed relative to attention ([Mixers](../benchmarks/index.md#mixers))",
    "growth": "Cost per token, by length ([Sequences](../benchmarks/index.md#long-sequences))",
}


def main(folder):
    for page, text in pages().items():
        file = folder / f"{page}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def pages():
    """Return the Markdown of every page, by its path without a suffix."""
    made = {page: rebased(markdown(ROOT / source), source, page) for page, source in FILES.items()}
    made["guides/convert"] += rst(
        ".. autofunction:: keras_permix.surgery.swap_mixer\n   :no-index:"
    )
    for page in CARDS:
        made[page] += card_files(page)
    for name in TUTORIALS:
        file = f"../../../docs/tutorials/{name}.ipynb"
        made[f"tutorials/{name}"] += f"\n{{download}}`Download this notebook <{file}>`\n"
    mixers = mixer_pages()
    made |= mixers | {f"reference/{package}": reference(package) for package in PACKAGES}
    made["zoo/index"] += contents([*CARDS, "zoo/weights"], "zoo/")
    made["benchmarks/index"] += contents(
        ["benchmarks/kernels", "benchmarks/waiting"], "benchmarks/"
    )
    families = sorted(
        page for page in FILES if page.startswith("models/") and page != "models/index"
    )
    made["models/index"] += contents(families, "models/")
    index = (ROOT / "docs/mixers.md").read_text(encoding="utf-8")
    made["mixers/index"] = rebased(index, "docs/mixers.md", "mixers/index")
    made["mixers/index"] += contents(mixers, "mixers/")
    groups = {
        "Guides": ["get_started", *(f"guides/{name}" for name in GUIDES)],
        "Tutorials": [f"tutorials/{name}" for name in TUTORIALS],
        "Look": [
            "demo",
            "explorer",
            "mixers/index",
            "models/index",
            "zoo/index",
            "benchmarks/index",
            "reproduce",
            "examples",
        ],
        "Reference": [f"reference/{name}" for name in (*TABLES, *PACKAGES)],
        "Project": ["contributing", "changelog"],
    }
    made["index"] += "".join(contents(group, "", name) for name, group in groups.items())
    return made


def markdown(path):
    """Return the text of a Markdown file, or the cells of a notebook as Markdown."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    shown = {"markdown": "{}\n", "code": "```python\n{}\n```\n"}
    cells = json.loads(text)["cells"]
    return "\n".join(shown[cell["cell_type"]].format("".join(cell["source"])) for cell in cells)


def rebased(text, source, page):
    """Return the Markdown of a file with its links adapted to the site."""
    fenced = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    fenced[::2] = [LINK.sub(lambda link: lead(link, source, page), part) for part in fenced[::2]]
    return "".join(fenced)


def lead(link, source, page):
    """Return a link to a page or to a file of the repository; for a folder, only its text."""
    to = link["to"] or link[0]
    if re.match(r"\w+:", to):
        return link[0]
    target = os.path.normpath(os.path.join(os.path.dirname(source), to))
    target = LEADS.get(target) or LEADS.get(f"{target}/README.md") or target
    if target in LEADS.values():
        target = f"{target}.md"
    elif not (ROOT / target).exists():
        raise ValueError(f"A link must lead to a file. Received: {to} in {source}")
    elif (ROOT / target).is_dir():
        return link["text"].strip("[](")
    else:
        # The site's sources stand two folders below the repository: build/site/.
        target = f"../../{target}"
    target = os.path.relpath(target, os.path.dirname(page) or ".")
    return f"{link['text']}{target}{link['at'] or ''})" if link["to"] else target


def card_files(page):
    """Return the Markdown of a card's curves and recipe, if its folder contains them."""
    folder = os.path.relpath(f"../../{page}", os.path.dirname(page))
    shown = {
        "curves.png": f"\n![loss and score by epoch]({folder}/curves.png)\n",
        "recipe.toml": f"\n```{{literalinclude}} {folder}/recipe.toml\n:language: toml\n```\n",
    }
    return "".join(text for name, text in shown.items() if (ROOT / page / name).is_file())


def mixer_pages():
    """Return a page for each mixer: its file in docs/mixers, measurements, docstring."""
    made = {}
    for page, source in sorted(MIXERS.items()):
        name = page.removeprefix("mixers/")
        text = (ROOT / source).read_text(encoding="utf-8")
        made[page] = rebased(text, source, page) + measured(name)
        made[page] += rst(f".. autoclass:: keras_permix.layers.{name}\n   :no-index:")
    return made


def measured(name):
    """Return the rows of a mixer in the tables of the benchmarks, with links to these."""
    text = (ROOT / "benchmarks/README.md").read_text(encoding="utf-8")
    row = f"| `{name}` |"
    made = ""
    for table, said in MEASURED.items():
        head, line, *rows = re.search(rf"<!-- {table} -->\n(.*?)<!--", text, re.S)[1].splitlines()
        own = [each for each in rows if each.startswith(row)]
        if own:
            made += "\n".join([f"\n{said}:\n", head, line, *own, ""])
    return made and f"\n## Measured\n{made}"


def reference(package):
    """Return a page with all public names and inherited members, except those of Keras."""
    name = f"keras_permix.{package}"
    options = (":members:", ":imported-members:", f":inherited-members: {', '.join(BASES)}")
    return f"# `{name}`\n" + rst("\n   ".join((f".. automodule:: {name}", *options)))


def rst(directive):
    return f"\n```{{eval-rst}}\n{directive}\n```\n"


def contents(pages, below, caption=""):
    """Return a list of pages for the sidebar."""
    names = "\n".join(page.removeprefix(below) for page in pages)
    caption = f":caption: {caption}\n" if caption else ""
    return f"\n```{{toctree}}\n:hidden:\n{caption}\n{names}\n```\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
