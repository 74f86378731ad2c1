"""Plot measurements."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_permix._typing import StrPath


def plot_curves(
    rows: list[dict[str, Any]], line: str, labels: Mapping[str, str], path: StrPath
) -> None:
    """Plot columns against the number of tokens, one line per value of the column `line`.

    There is a panel per column in `labels`. It omits rows without a positive number.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2 + 4 * len(labels), 4), layout="constrained")
    panels = figure.subplots(1, len(labels))
    for axes, (column, label) in zip(panels, labels.items(), strict=True):
        for index, name in enumerate(dict.fromkeys(row[line] for row in rows)):
            mine = [row for row in rows if row[line] == name and row[column] not in ("", "OOM", 0)]
            mine.sort(key=lambda row: row["tokens"])
            tokens, values = ([row[key] for row in mine] for key in ("tokens", column))
            if mine:  # Matplotlib cannot draw an empty line on a logarithmic axis.
                axes.plot(tokens, values, "o-", color=colormaps["tab20"](index), label=name)
        axes.set(xlabel="tokens", ylabel=label, yscale="log")
        axes.set_xscale("log", base=2)
        axes.grid(alpha=0.3)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    figure.savefig(path, dpi=100)


def plot_bars(
    labels: Sequence[str], bars: Mapping[str, Sequence[float]], xlabel: str, path: StrPath
) -> None:
    """Plot a group of bars per label, with one of the values in each entry of `bars`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1 + 0.6 * len(labels)), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(bars)
    for number, (name, widths) in enumerate(bars.items()):
        positions = [group + number * height for group in range(len(labels))]
        axes.barh(positions, widths, height, align="edge", label=name)
    axes.set_yticks([group + 0.4 for group in range(len(labels))], labels, fontsize=8)
    axes.set(xscale="log", xlabel=xlabel)
    axes.invert_yaxis()
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=100)
