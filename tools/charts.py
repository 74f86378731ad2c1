"""Draw the charts of `benchmarks/README.md` and `docs/reproduce.md` from measurements and cards.

python tools/charts.py [FOLDER]    # default: benchmarks/
"""

import sys
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parent))
from tables import BACKENDS, ROOT, explorer, read  # noqa: E402

STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "", "axes.spines.top": False, "axes.grid": True,
    "xtick.minor.size": 0, "ytick.minor.size": 0,
    "axes.spines.right": False, "axes.axisbelow": True, "grid.alpha": 0.3,
}  # fmt: skip
TITLES = dict(zip(BACKENDS, ("JAX", "TensorFlow", "PyTorch"), strict=True))
COLORS = dict(zip(BACKENDS, ("tab:blue", "tab:orange", "tab:red"), strict=True))
# Line styles of Keras' attention and of each mixer.
LINES = {
    "MultiHeadAttention": dict(color="black", linewidth=2.5),
    "CSP": dict(color="tab:red", linewidth=2.5),
    "SliceSort": dict(color="tab:orange"),
    "SimpleAttention": dict(color="tab:blue"),
    "ButterflyBlock": dict(color="tab:purple"),
    "DampedEMA": dict(color="tab:green"),
    "LinearAttention": dict(color="tab:cyan"),
    "FourierMixer": dict(color="tab:gray"),
}


def step_times():
    """Draw a group of bars per model, one per backend, labeled with the ratio of step times."""
    measured = [read("epyc", f"models_{backend}") for backend in BACKENDS]
    groups = [rows for rows in zip(*measured, strict=True) if rows[0]["vs_attention_macs"] != "1.0"]
    figure = Figure(figsize=(8, 11), layout="constrained")
    axes = figure.subplots()
    for number, backend in enumerate(BACKENDS):
        positions = [group + 0.27 * (number - 1) for group in range(len(groups))]
        ratios = [float(rows[number]["vs_attention"]) for rows in groups]
        style = dict(color=COLORS[backend], label=TITLES[backend])
        axes.bar_label(
            axes.barh(positions, ratios, 0.26, **style), fmt="%g×", padding=2, fontsize=7
        )
    axes.axvline(1, color="black", linewidth=1)
    labels = [f"{rows[0]['model']}\n{rows[0]['case']}" for rows in groups]
    axes.set_yticks(range(len(groups)), labels)
    axes.tick_params("y", labelsize=8, length=0)
    axes.grid(axis="y", visible=False)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set_xlabel("speed of a training step (attention baseline = 1)")
    axes.legend(loc="lower right")
    return figure


def cost_over_length():
    """Draw time and memory per token over the number of tokens, a panel per backend.

    The resident memory on TensorFlow is left out: memory that it frees stays resident.
    """
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    panels = figure.subplots(2, 3, sharex=True, sharey="row")
    for backend, (time, memory) in zip(BACKENDS, panels.T, strict=True):
        time.set_title(TITLES[backend])
        memory.set_xlabel("tokens")
        rows = read("xeon", f"layers_{backend}")
        for layer, style in LINES.items():
            own = [row for row in rows if row["layer"] == layer]
            most = max(map(total, own))
            own = {int(row["tokens"]): row for row in own if total(row) == most}
            kilobytes = [1000 * float(row["peak_mb"]) / most for row in own.values()]
            microseconds = [float(row["us_per_token"]) for row in own.values()]
            for axes, values in ((time, microseconds), (memory, kilobytes)):
                if axes is time or backend != "tensorflow":
                    axes.loglog([*own], values, marker="o", markersize=3, **style)
        time.set_xscale("log", base=2)
    panels[1, BACKENDS.index("tensorflow")].set_visible(False)
    panels[0, 0].set_ylabel("µs per token")
    panels[1, 0].set_ylabel("kB per token")
    figure.legend(time.lines, LINES, loc="outside lower center", ncols=4)
    return figure


def scores():
    """Draw the accuracy on CIFAR-10 over parameters, and over the speed of a training step."""
    _, *rows = explorer()
    figure = Figure(figsize=(9, 4), layout="constrained")
    size, speed = figure.subplots(1, 2, sharey=True)
    rows = [row for row in rows if row[1:3] == ("cifar10", "top1")]
    for number, (link, _, _, score, parameters, *times) in enumerate(rows):
        name, score = link.split("`")[1].split("/")[0], float(score.removesuffix(" %"))
        millions = int(parameters.replace(",", "")) / 1e6
        size.plot(millions, score, "o", color="black")
        beside = dict(xytext=(5, -10 if number % 2 else 3), textcoords="offset points", fontsize=8)
        size.annotate(name, (millions, score), **beside)
        for backend, time in zip(BACKENDS, times, strict=True):
            if time != "–":
                speed.plot(float(time.removesuffix("×")), score, "o", color=COLORS[backend])
        if times[0] != "–":
            at = (float(times[0].removesuffix("×")), score)
            speed.annotate(name, at, **beside)
    size.set(xscale="log", xlabel="million parameters", ylabel="top-1 on CIFAR-10, %")
    size.set_xticks((0.2, 0.5, 1), ("0.2", "0.5", "1"))
    size.margins(x=0.5)
    speed.set_xlabel("speed of a training step (attention = 1)")
    speed.margins(x=0.25)
    for backend in BACKENDS:
        speed.plot([], [], "o", color=COLORS[backend], label=TITLES[backend])
    speed.legend(loc="lower right")
    return figure


def total(row):
    """Return the number of tokens in a measured batch."""
    return int(row["tokens"]) * int(row["batch"])


def main(folder):
    with matplotlib.rc_context(STYLE):
        for draw in (step_times, cost_over_length, scores):
            draw().savefig(folder / f"{draw.__name__}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "benchmarks")
