"""Draw `docs/csp.svg`: channels shifted by different steps, then pairs of tokens sorted.

    python examples/draw_csp.py --out docs/csp.svg

The values come from `ops.channel_shift` and `ops.group_sort`, applied to random tokens. The
attention map beside them is that of scaled dot products of the same tokens.
"""

import argparse
from pathlib import Path

from keras_permix import ops

import keras
import numpy as np

TOKENS, CHANNELS, CELL, GAP = 8, 4, 22, 74
TOP, LOW, HEIGHT = 34, 68, 250
FONT = 'font-family="Helvetica, Arial, sans-serif" font-size="13" fill="#444"'


def shade(value):
    """Return a color from pale to dark blue for a value from 0 to 1."""
    pale, dark = np.array([222, 235, 247]), np.array([8, 81, 156])
    red, green, blue = (pale + value * (dark - pale)).astype(int)
    return f"rgb({red},{green},{blue})"


def text(x, y, words, anchor="middle"):
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" {FONT}>{words}</text>'


def grid(left, top, values):
    """Draw a matrix `(rows, columns)` of values from 0 to 1 as shaded cells."""
    return [
        f'<rect x="{left + column * CELL}" y="{top + row * CELL}" width="{CELL - 1}" '
        f'height="{CELL - 1}" rx="2" fill="{shade(values[row, column])}"/>'
        for row in range(values.shape[0])
        for column in range(values.shape[1])
    ]


def arrow(left, first, second):
    """Draw an arrow between two grids, with a caption of two lines."""
    y, right = LOW + CHANNELS * CELL / 2, left + GAP - 10
    head = f"{right},{y} {right - 7},{y - 4} {right - 7},{y + 4}"
    return [
        f'<path d="M {left + 10} {y} H {right - 6}" stroke="#444" stroke-width="1.5"/>',
        f'<polygon points="{head}" fill="#444"/>',
        text(left + GAP / 2, y - 26, first),
        text(left + GAP / 2, y - 11, second),
    ]


def pairs(left):
    """Frame the groups of two tokens that are sorted together."""
    return [
        f'<rect x="{left + group * 2 * CELL - 1.5}" y="{LOW - 2.5}" width="{2 * CELL + 1}" '
        f'height="{CHANNELS * CELL + 3}" rx="4" fill="none" stroke="#d95f02" stroke-width="1.5"/>'
        for group in range(TOKENS // 2)
    ]


def draw():
    """Return the drawing as the text of an SVG file."""
    x = np.random.default_rng(4).random((1, TOKENS, CHANNELS)).astype("float32")
    shifted = keras.ops.convert_to_numpy(ops.channel_shift(x, np.arange(CHANNELS)))
    mixed = keras.ops.convert_to_numpy(ops.group_sort(shifted, 2))
    scores = np.exp(4 * (x[0] - 0.5) @ (x[0] - 0.5).T)
    attention = scores / scores.max(axis=1, keepdims=True)

    step = TOKENS * CELL + GAP
    under, bottom = LOW + CHANNELS * CELL + 24, TOP + TOKENS * CELL + 24
    parts = [text(TOKENS * CELL / 2 + 10, LOW - 14, "tokens \u2192, one row per channel")]
    for index, values in enumerate((x, shifted, mixed)):
        parts += grid(10 + index * step, LOW, values[0].T)
    parts += arrow(10 + TOKENS * CELL, "shift", "channels")
    parts += arrow(10 + step + TOKENS * CELL, "sort", "pairs")
    parts += pairs(10 + 2 * step)
    parts.append(text(10 + (3 * step - GAP) / 2, under, "permutation: no parameters, cost N"))
    left = 3 * step
    parts += grid(left, TOP, attention)
    parts.append(text(left + TOKENS * CELL / 2, TOP - 14, "attention map"))
    parts.append(text(left + TOKENS * CELL / 2, bottom, "queries \u00d7 keys: cost N\u00b2"))
    width = left + TOKENS * CELL + 10
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" role="img">'
    title = "<title>CSP shifts each channel by a different step, then sorts pairs of tokens</title>"
    back = f'<rect width="{width}" height="{HEIGHT}" fill="white"/>'
    return "\n".join([head, title, back, *parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/csp.svg"))
    parser.parse_args().out.write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
