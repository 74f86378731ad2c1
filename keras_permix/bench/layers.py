"""`permix bench layers`: whole mixers, with their projections, against attention."""

from collections.abc import Callable, Iterator
from functools import partial
from math import isqrt
from typing import Any

from keras_permix._typing import Layer, StrPath
from keras_permix.bench.memory import peak_megabytes
from keras_permix.bench.timing import medians

WIDTH, HEADS = 256, 4
# name -> (batch, tokens): 8192 tokens in all, against attention; 65,536 in all, as they get longer.
SHORT = {"32x256": (32, 256), "8x1024": (8, 1024), "2x4096": (2, 4096)}
LONG = {"64x1024": (64, 1024), "16x4096": (16, 4096), "4x16384": (4, 16384), "1x65536": (1, 65536)}
CASES = {**SHORT, **LONG}
COLUMNS = (
    "tokens",
    "batch",
    "layer",
    "forward_ms",
    "ms",
    "us_per_token",
    "vs_attention",
    "peak_mb",
)
ATTENTION = "MultiHeadAttention"
PROJECTIONS = {"2 projections": 2, "4 projections": 4}
BLOCKS = "attention in blocks"
IN_SHORT_CASES = (ATTENTION, "SoftmaxAttention", *PROJECTIONS, BLOCKS)  # and in no others


def makers() -> dict[str, Callable[..., Layer]]:
    """From names to functions that make a layer for a number of tokens and a dtype policy."""
    from keras_permix.bench.rivals import SelfAttention

    return {
        ATTENTION: lambda tokens, dtype: SelfAttention(HEADS, WIDTH // HEADS, dtype=dtype),
        "SoftmaxAttention": partial(_mixer, {"name": "attention", "num_heads": HEADS}),
        "LinearAttention": partial(_mixer, {"name": "linear_attention", "num_heads": HEADS}),
        "FourierMixer": partial(_mixer, "fourier"),
        "CSP": partial(_mixer, "csp"),
        "SliceSort": partial(_mixer, "slice_sort"),
        "SimpleAttention": partial(_mixer, {"name": "simple_attention", "num_heads": HEADS}),
        "ButterflyBlock": partial(_butterfly, 1),
        "DampedEMA": partial(_mixer, {"name": "damped_ema", "bidirectional": False}),
        **{name: partial(_projections, count) for name, count in PROJECTIONS.items()},
        BLOCKS: partial(_butterfly, 0),  # what `ButterflyBlock` costs without a permutation
    }


def _mixer(spec, tokens, dtype):
    from keras_permix.layers.mixers import make_mixer

    return make_mixer(spec, dtype=dtype)


def _projections(count, tokens, dtype):
    """Dense layers alone: what a mixer with as many of them costs at the least."""
    import keras

    from keras_permix.layers.parts.dense import Dense

    return keras.Sequential([Dense(WIDTH, dtype=dtype) for _ in range(count)])


def _butterfly(stage, tokens, dtype):
    """Attention in blocks of the square root of the tokens, at the stride of a stage."""
    from keras_permix.layers import ButterflyBlock, SoftmaxAttention

    attention = SoftmaxAttention(HEADS, dtype=dtype)
    return ButterflyBlock(attention, isqrt(tokens), stage, axis=1, dtype=dtype)


def measure(case: str, repeats: int, dtype: str) -> Iterator[dict[str, Any]]:
    """Time every layer, forward and forward with backward, on sequences of one length.

    Args:
        case: One of `CASES`.
        repeats: Rounds of `medians`.
        dtype: What the layers compute in; their weights are float32.

    Yields:
        A dict with the keys `COLUMNS`: medians in milliseconds, microseconds per token of forward
        and backward together, the ratio to Keras' `MultiHeadAttention`, and the memory of forward
        and backward in MB above what was there.
    """
    import keras
    import numpy as np

    from keras_permix.bench.runners import runners, seconds

    batch, tokens = CASES[case]
    x = np.random.default_rng(0).normal(size=(batch, tokens, WIDTH))
    x = keras.ops.convert_to_tensor(x, dtype)
    calls = {}
    for name, make in makers().items():
        if case in SHORT or name not in IN_SHORT_CASES:
            layer = make(tokens, dtype="float32" if dtype == "float32" else f"mixed_{dtype}")
            layer.build(x.shape)
            calls[name] = runners(layer, x)
    peaks = {name: peak_megabytes(partial(seconds, both)) for name, (_, both) in calls.items()}
    measured = iter(medians([call for pair in calls.values() for call in pair], repeats, seconds))
    times = dict(zip(calls, zip(measured, measured, strict=True), strict=True))
    for name, (forward, both) in times.items():
        peak = peaks[name]
        attention = times.get(ATTENTION)
        yield {
            "tokens": tokens,
            "batch": batch,
            "layer": name,
            "forward_ms": round(forward, 2),
            "ms": round(both, 2),
            "us_per_token": round(1e3 * both / (batch * tokens), 3),
            "vs_attention": round(attention[1] / both, 1) if attention else "",
            "peak_mb": "" if peak is None else round(peak),
        }


def plot(rows: list[dict[str, Any]], path: StrPath) -> None:
    """Draw time and memory per token against the number of tokens, one line per layer.

    A line holds the cases of the largest batch that the layer was timed with.
    """
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    time, memory = figure.subplots(1, 2)
    time.set_prop_cycle(color=colormaps["tab20"].colors)  # more than there are lines
    for name in dict.fromkeys(row["layer"] for row in rows):
        mine = [row for row in rows if row["layer"] == name]
        most = max(row["batch"] * row["tokens"] for row in mine)
        mine = [row for row in mine if row["batch"] * row["tokens"] == most]
        tokens = [row["tokens"] for row in mine]
        (line,) = time.plot(tokens, [row["us_per_token"] for row in mine], "o-", label=name)
        if all(row["peak_mb"] != "" for row in mine):
            kilobytes = [1e3 * row["peak_mb"] / most for row in mine]
            memory.plot(tokens, kilobytes, "o-", color=line.get_color())
    time.set(ylabel="microseconds per token, forward and backward", xlabel="tokens")
    memory.set(ylabel="kilobytes per token, forward and backward", xlabel="tokens")
    for axes in (time, memory):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.grid(alpha=0.3)
    figure.legend(*time.get_legend_handles_labels(), loc="outside right center")
    figure.savefig(path, dpi=100)
