"""Tables in plain text."""


def format_table(header, rows):
    """Lay out rows of strings in columns as wide as they need."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def format_scores(scores):
    """Scores in words, shortened to what was measured; a dash where nothing was."""
    from keras_permix.utils.formatting import format_score

    measured = {key: value for key, value in (scores or {}).items() if value is not None}
    return ", ".join(f"{key} {format_score(key, value)}" for key, value in measured.items()) or "–"
