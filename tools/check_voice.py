"""Find words and sentences in Markdown and docstrings that read badly.

It prints `file:line: words`, and exits with 1 if there are any. It skips code, tables and URLs.

    python tools/check_voice.py README.md keras_permix/ops
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

LONGEST = 30
WORDS = [
    r"(?<!stand )(?<!stands )(?<!left )(?<!leave )(?<!let )\balone\b(?=\W*$|[.,;:)])",
    r"\bhears?\b",
    r"\bso many\b",
    r"\bof (?:one's|its|his|her|my|your|our|their) own\b",
    r"\banew\b",
    r"\b(?:is|are) (?-i:none)\b",
]
FORBIDDEN = re.compile("|".join(WORDS).replace(" ", r"\s"), re.IGNORECASE)
RIDDLE = re.compile(r"(?:What|Which|How|Where)\b")
SENTENCE = re.compile(r"(?<=[.!?])[)\"”*_]*\s+(?=[\"“(*_`A-Z0-9])")
SECTION = re.compile(r"\s*(?:Args|Returns|Yields|Raises|Example):")
ENTRY = re.compile(r"\s*(?:[-*+] |\d+\. |#+ |[*\w`][\w`*, ]{0,60}: )")

Lines = list[tuple[int, str]]


def paragraphs(lines: Lines, docstring: bool) -> Iterator[Lines]:
    """Split lines into paragraphs of prose, without code, tables, directives and references."""
    current: Lines = []
    skipping = ""
    for number, line in lines:
        text = line.strip()
        if skipping:
            if not text if skipping == "blank" else skipping in text:
                skipping = ""
            continue
        if text.startswith(("```", "~~~", ":::")):
            skipping = text[:3]
        elif text.startswith("<!--"):
            skipping = "" if "-->" in text else "-->"
        elif text.startswith((">>>", "..") if docstring else "<"):
            skipping = "blank"
        elif docstring and text == "Reference:":
            break
        elif SECTION.fullmatch(line) or text.startswith("|"):
            pass
        elif text and (docstring or not line.startswith("    ")):
            if ENTRY.match(line) and (docstring or not line[0].isalnum()):
                yield current
                current = []
            current.append((number, line))
            if not text.startswith("#"):
                continue
        yield current
        current = []
    yield current


def prose(paragraph: Lines) -> str:
    """Join the lines of a paragraph, with code, links and URLs reduced to what is read."""
    text = "\n".join(line.strip() for _, line in paragraph)
    text = re.sub(r"``?[^`]+``?", lambda code: "`x`" + "\n" * code[0].count("\n"), text)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"https?://\S+|\$[^$]+\$", "x", text)


def complaints(paragraph: Lines) -> Iterator[tuple[int, str]]:
    """Yield the line and the words of each problem in a paragraph."""
    text = prose(paragraph)
    for found in FORBIDDEN.finditer(text):
        line = paragraph[text[: found.start()].count("\n")][0]
        yield line, " ".join(found[0].split())
    start = 0
    for gap in [*SENTENCE.finditer(text), None]:
        sentence = text[start : gap.start() if gap else len(text)]
        words = re.findall(r"[^\W_](?:[\w'’.,-]*\w)?", sentence)
        if len(words) > LONGEST:
            line = paragraph[text[:start].count("\n")][0]
            yield line, f"{len(words)} words: {' '.join(sentence.split())[:60]} …"
        start = gap.end() if gap else len(text)


def docstrings(source: str) -> Iterator[Lines]:
    """Yield the lines of each docstring with their numbers."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                string = node.body[0].value  # type: ignore[attr-defined]
                yield list(enumerate(string.value.splitlines(), start=string.lineno))


def check(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the words of each problem in a file."""
    source = path.read_text(encoding="utf-8")
    docstring = path.suffix == ".py"
    for lines in docstrings(source) if docstring else [list(enumerate(source.splitlines(), 1))]:
        if docstring and lines and RIDDLE.match(lines[0][1]):
            yield lines[0][0], f"starts with {lines[0][1].split()[0]}"
        for paragraph in paragraphs(lines, docstring):
            yield from complaints(paragraph)


def main(paths: list[str]) -> int:
    count = 0
    for path in map(Path, paths):
        files = sorted(path.rglob("*.py")) + sorted(path.rglob("*.md")) if path.is_dir() else [path]
        for file in files:
            for line, words in check(file):
                print(f"{file}:{line}: {words}")
                count += 1
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
