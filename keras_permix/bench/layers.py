"""Benchmark mixers with their projections against attention."""

from collections.abc import Callable, Iterator
from functools import partial
from math import isqrt
from typing import Any

from keras_permix._typing import Layer, StrPath
from keras_permix.bench.plots import plot_curves
from keras_permix.bench.timing import medians, peak_megabytes, runners, seconds

HEAD = 64  # channels


def _cases(channels, *sizes):
    return {f"{batch}x{tokens}": (batch, tokens, channels) for batch, tokens in sizes}


# name -> (batch, tokens, channels): 8192 tokens per batch with attention, 65,536 without, and about
# 250,000 for accelerators.
SHORT = _cases(256, (32, 256), (8, 1024), (2, 4096))
LONG = _cases(256, (64, 1024), (16, 4096), (4, 16384), (1, 65536))
HUGE = _cases(768, (1280, 196), (256, 1024), (64, 4096), (16, 16384))
CASES = {**SHORT, **LONG, **HUGE}
OF_ACCELERATORS = tuple(HUGE)  # not run on a CPU by default
ATTENTION = "MultiHeadAttention"
PROJECTIONS = {"2 projections": 2, "4 projections": 4}
BLOCKS = "attention in blocks"
# Layers of the long and huge cases; the short cases measure all layers.
FAST = ("LinearAttention", "CSP", "SliceSort", "SimpleAttention")
IN_LONG = (*FAST, "FourierMixer", "ButterflyBlock", "DampedEMA")
IN_HUGE = (*FAST, ATTENTION, *PROJECTIONS)


def makers(tokens: int, width: int, dtype: str) -> dict[str, Callable[[], Layer]]:
    """Return functions that make the layers of a benchmark, by name."""
    import keras

    from keras_permix.bench.rivals import SelfAttention
    from keras_permix.layers import ButterflyBlock, SoftmaxAttention
    from keras_permix.layers.mixers import make_mixer
    from keras_permix.layers.parts.wrappers import Dense

    heads = width // HEAD

    def mixer(name, **arguments):
        return partial(make_mixer, {"name": name, **arguments}, dtype=dtype)

    def projections(count):
        """Return only dense layers: the lower bound for a mixer with this many projections."""
        return keras.Sequential([Dense(width, dtype=dtype) for _ in range(count)])

    def butterfly(stage):
        """Return attention in blocks of sqrt(tokens) tokens, at the stride of a stage."""
        attention = SoftmaxAttention(heads, dtype=dtype)
        return ButterflyBlock(attention, isqrt(tokens), stage, axis=1, dtype=dtype)

    return {
        ATTENTION: partial(SelfAttention, heads, HEAD, dtype=dtype),
        "SoftmaxAttention": mixer("attention", num_heads=heads),
        "LinearAttention": mixer("linear_attention", num_heads=heads),
        "FourierMixer": mixer("fourier"),
        "CSP": mixer("csp"),
        "SliceSort": mixer("slice_sort"),
        "SimpleAttention": mixer("simple_attention", num_heads=heads),
        "ButterflyBlock": partial(butterfly, 1),
        "DampedEMA": mixer("damped_ema", bidirectional=False),
        **{name: partial(projections, count) for name, count in PROJECTIONS.items()},
        BLOCKS: partial(butterfly, 0),  # what `ButterflyBlock` costs without a permutation
    }


def measure(case: str, repeats: int, dtype: str) -> Iterator[dict[str, Any]]:
    """Time every layer, forward and forward plus backward, on sequences of one length.

    Columns are medians in milliseconds, microseconds per token of forward plus backward, the
    speedup over Keras' `MultiHeadAttention`, and the peak memory of forward plus backward in MB.
    """
    import keras

    batch, tokens, width = CASES[case]
    x = keras.ops.cast(keras.random.normal((batch, tokens, width), seed=0), dtype)
    policy = dtype if dtype == "float32" else f"mixed_{dtype}"
    calls = {}
    for name, make in makers(tokens, width, policy).items():
        if case in SHORT or name in (IN_HUGE if case in HUGE else IN_LONG):
            layer = make()
            layer.build(x.shape)
            calls[name] = runners(layer, x)
    peaks = {name: peak_megabytes(partial(seconds, both)) for name, (_, both) in calls.items()}
    measured = iter(medians([call for pair in calls.values() for call in pair], repeats, seconds))
    times = dict(zip(calls, zip(measured, measured, strict=True), strict=True))
    attention = times.get(ATTENTION)
    for name, (forward, both) in times.items():
        peak = peaks[name]
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
    """Plot time and memory per token against the number of tokens, one line per layer.

    Each line shows the cases of about the most tokens per batch for which the layer was timed.
    """
    totals = [row["batch"] * row["tokens"] for row in rows]
    most: dict[str, int] = {}
    for row, total in zip(rows, totals, strict=True):
        most[row["layer"]] = max(total, most.get(row["layer"], 0))
    shown = [
        {**row, "kb_per_token": row["peak_mb"] and 1e3 * row["peak_mb"] / total}
        for row, total in zip(rows, totals, strict=True)
        if total > 0.9 * most[row["layer"]]
    ]
    labels = {
        "us_per_token": "microseconds per token, forward and backward",
        "kb_per_token": "kilobytes per token, forward and backward",
    }
    plot_curves(shown, "layer", labels, path)
