"""Read JSON lines, CSV and TSV files as dicts, one per line, and write CSV."""

import csv
import gzip
import io
import json
import lzma
import zlib
from pathlib import Path
from typing import Any

UNPACK = {".gz": gzip.decompress, ".xz": lzma.decompress}
LISTS = (".csv", ".tsv", ".jsonl")
SEPARATORS = (";", "|")  # between labels of one sample


class Row(dict[str, Any]):
    """Hold a row of a data file, with its path and line number."""

    __slots__ = ("line", "path")

    def __init__(self, values: Any, path: Path, line: int) -> None:
        super().__init__(values)
        self.path, self.line = path, line


Rows = list[dict[str, Any]]


def shown(row: dict[str, Any]) -> str:
    """Format a row for an error message, with its file and line if known."""
    at = f" in {row.path}, line {row.line}" if isinstance(row, Row) else ""
    return f"{str(dict(row))[:200]}{at}"


def parse_rows(blob: bytes, path: Path, columns: tuple[str, ...] | None = None) -> Rows:
    """Parse the rows of a `.jsonl`, `.tsv` or `.csv` file, optionally compressed (`.gz`, `.xz`).

    The endings of `path` select the format. The first line of a table names the columns, unless
    `columns` is given.

    Example:
        >>> parse_rows(b"text,label\\nwell done,good\\n", Path("mine.csv"))
        [{'text': 'well done', 'label': 'good'}]
    """
    try:
        text = unpack(blob, path.suffix.lower()).decode("utf-8-sig")  # of files from Windows
        kinds = [suffix for suffix in map(str.lower, path.suffixes) if suffix not in UNPACK]
        rows = READ.get(kinds[-1] if kinds else "", _json_rows)(text, columns)
        return [Row(values, path, line) for line, values in rows]
    except (ValueError, lzma.LZMAError, EOFError, OSError, zlib.error) as error:
        rule = "A .csv, .tsv or .jsonl file must be complete and in UTF-8"
        raise ValueError(f"{rule}. Received: {path} ({error})") from error


def format_csv(rows: Rows) -> str:
    """Format rows as CSV, with a column for each key."""
    text = io.StringIO()
    keys = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.DictWriter(text, keys, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def unpack(blob: bytes, suffix: str) -> bytes:
    """Decompress a `.gz` or `.xz` file; return other files unchanged."""
    return UNPACK[suffix](blob) if suffix in UNPACK else blob


def _comma_rows(text, columns):
    lines = io.StringIO(text, newline="")
    limit = csv.field_size_limit(len(text))
    reader = csv.DictReader(lines, columns, strict=True, skipinitialspace=True)
    try:
        for row in reader:
            if None in row:
                raise ValueError(f"line {reader.line_num} has more values than columns")
            yield reader.line_num, row
    except csv.Error as error:
        raise ValueError(f"line {reader.reader.line_num}: {error}") from error
    finally:
        csv.field_size_limit(limit)


def _tab_rows(text, columns):
    lines = (line.removesuffix("\r").split("\t") for line in text.split("\n"))
    header = columns or next(lines)
    for number, values in enumerate(lines, start=1 if columns else 2):
        if values != [""]:
            if len(values) > len(header):
                raise ValueError(f"line {number} has more values than columns")
            yield number, zip(header, values, strict=False)


def _json_rows(text, columns):
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            where = f"line {number}, character {error.pos + 1}"
            raise ValueError(f"{where}: {error.msg}") from error
        if not isinstance(row, dict):
            raise ValueError(f"line {number} is not a JSON object")
        yield number, row


READ = {".csv": _comma_rows, ".tsv": _tab_rows}
