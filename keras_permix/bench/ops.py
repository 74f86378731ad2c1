"""Benchmark ops against their references, a copy, and attention on the same tensor."""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

from keras_permix._typing import StrPath
from keras_permix.bench.plots import plot_bars
from keras_permix.bench.timing import medians, peak_megabytes, runners, seconds

SHORT, VISION, LONG, LONGER = (64, 64, 512), (32, 196, 384), (8, 1024, 128), (2, 4096, 128)
TEXT = (32, 512, 256)
# At least 1 GB in 16 bits, more than the cache of any accelerator.
HUGE_VISION, HUGE, HUGE_LONG = (8192, 196, 384), (2048, 1024, 256), (512, 4096, 256)


class Case(NamedTuple):
    """Hold the name of an op, the shapes of its tensor, and the kind of its mask."""

    operator: str
    shapes: tuple[tuple[int, int, int], ...]
    masked: bool = False  # between an eighth and all of the tokens are real
    gaps: bool = False  # real tokens are at random positions instead of at the start


CASES = {
    "csp, pairs": Case("csp, pairs", (SHORT, VISION)),
    "channel shift": Case("channel shift", (SHORT,)),
    "full sort": Case("full sort", (SHORT, LONG, LONGER)),
    "max exchange": Case("max exchange", (LONG,)),
    "simple attention": Case("simple attention", (LONG, LONGER)),
    "damped EMA": Case("damped EMA", (LONG,)),
    "csp, pairs, masked": Case("csp, pairs", (TEXT,), masked=True),
    "csp, pairs, masked with gaps": Case("csp, pairs", (TEXT,), masked=True, gaps=True),
    "channel shift, masked": Case("channel shift", (TEXT,), masked=True),
    "channel shift by power, masked": Case("channel shift by power", (TEXT,), masked=True),
    "groups of 8, masked": Case("groups of 8", (TEXT,), masked=True),
    "full sort, masked": Case("full sort", (TEXT,), masked=True),
    "max exchange, masked": Case("max exchange", (TEXT,), masked=True),
    "csp, pairs, huge": Case("csp, pairs", (HUGE_VISION, HUGE, HUGE_LONG)),
    "channel shift, huge": Case("channel shift", (HUGE,)),
    "groups of 4, huge": Case("groups of 4", (HUGE,)),
    "full sort, huge": Case("full sort", (HUGE_VISION, HUGE, HUGE_LONG)),
}
# Not run on a CPU by default.
OF_ACCELERATORS = tuple(name for name in CASES if name.endswith("huge"))
ROUNDING = ("simple attention", "damped EMA")  # the other ops only move values
TOLERANCES = {"float32": 1e-4, "bfloat16": 5e-2, "float16": 1e-2}  # of the largest value
RIVALS = ("attention", "linear_attention", "fourier", "sort", "unmasked")


def measure(case: str, repeats: int, dtype: str) -> Iterator[dict[str, Any]]:
    """Time an op, forward and forward plus backward, after checking its values.

    There is a row per shape. Times are medians in milliseconds, and ratios are for forward plus
    backward:

    * `speedup` and `vs_…`: time of the reference or the rival divided by that of the op.
    * `vs_copy`: time of the op divided by twice that of a copy.
    * `gb_per_s`: throughput for reading and writing the tensor and its gradient.
    * `peak_mb`: memory of forward plus backward above the memory in use before.

    Rivals run on the same tensor, in heads of 64 channels, without projections: the fastest
    softmax attention of the backend, linear attention and a Fourier transform. A full sort is also
    compared with the sort of the backend, and a masked op with itself without a mask. The reference
    of the damped EMA is its implementation "fft".
    """
    import keras

    size = 4 if dtype == "float32" else 2  # bytes
    for shape in CASES[case].shapes:
        x = keras.ops.cast(keras.random.normal(shape, seed=0), dtype)
        operator, reference, served_by = _functions(CASES[case], x)
        best, reference = runners(operator, x), runners(reference, x)
        _check_equal(best, reference, TOLERANCES[dtype] if case in ROUNDING else 0, case, shape)
        copy = runners(keras.ops.negative, x)[0]
        rivals = {name: runners(rival, x)[1] for name, rival in _rivals(CASES[case], x).items()}
        peak = peak_megabytes(partial(seconds, best[1]))
        times = medians([*reference, *best, copy, *rivals.values()], repeats, seconds)
        reference_forward, reference_both, forward, both, copied, *left = times
        others = dict(zip(rivals, left, strict=True))
        yield {
            "case": case,
            "shape": "×".join(map(str, shape)),
            "implementation": served_by[0],
            "reference_forward_ms": round(reference_forward, 2),
            "reference_ms": round(reference_both, 2),
            "forward_ms": round(forward, 2),
            "ms": round(both, 2),
            "speedup": round(reference_both / both, 1),
            "copy_ms": round(copied, 2),
            "vs_copy": round(both / (2 * copied), 1),
            "gb_per_s": round(4 * size * math.prod(shape) / both / 1e6, 1),
            "peak_mb": "" if peak is None else round(peak),
            **{
                f"vs_{name}": round(others[name] / both, 2) if name in others else ""
                for name in RIVALS
            },
        }


def plot(rows: list[dict[str, Any]], path: StrPath) -> None:
    """Plot the time of every op, its reference, a copy and attention, a group of bars per row."""
    bars = {"operator": [row["ms"] for row in rows]}
    bars["reference"] = [row["reference_ms"] for row in rows]
    bars["copy, twice"] = [2 * row["copy_ms"] for row in rows]
    bars["attention"] = [
        math.nan if row["vs_attention"] == "" else row["ms"] * row["vs_attention"] for row in rows
    ]
    labels = [f"{row['case']}\n{row['shape']}" for row in rows]
    plot_bars(labels, bars, "milliseconds, forward and backward", path)


def _check_equal(ours, reference, tolerance, case, shape):
    import keras

    from keras_permix.ops.backend import running

    exact = running.module("runtime").full_precision if tolerance else nullcontext
    for call, other in zip(ours, reference, strict=True):
        with exact():
            results = list(zip(call(), other(), strict=True))
        for mine, right in results:
            # Compared on the device, because copying gigabytes to the host is slow.
            atol = tolerance * keras.ops.max(keras.ops.abs(right))
            if not keras.ops.all(keras.ops.abs(mine - right) <= atol):
                raise ValueError(f"The op must equal its reference. Received: {case=}, {shape=}")


def _functions(case, x):
    """Return an op and its reference as functions of a tensor, and the op's implementation.

    The implementation is a list that is filled by the first call, because the choice can differ
    under a compiler.
    """
    from keras_permix import ops
    from keras_permix.bench.rivals import in_heads, on_heads, quadratic_attention

    if case.operator == "simple attention":
        served_by = [ops.explain("simple_attention", *[in_heads(x)] * 3).chosen]
        return on_heads(ops.simple_attention), on_heads(quadratic_attention), served_by
    op, arguments = _call(case.operator, x)
    masks = _masks(x, case.gaps) if case.masked else lambda x: {}
    served_by = []

    def call(x, implementation=None):
        if not (implementation or served_by):
            served_by.append(ops.explain(op, x, *arguments, **masks(x)).chosen)
        return op(x, *arguments, **masks(x), implementation=implementation)

    # TensorFlow cannot compile the gradient of a recurrence.
    reference = "fft" if op is ops.damped_ema else "reference"
    return call, lambda x: call(x, reference), served_by


def _call(operator, x):
    """Return the op of a name, and its arguments after the tensor."""
    import keras

    from keras_permix import layers, ops

    if operator == "damped EMA":
        layer = layers.DampedEMA()
        layer.build(x.shape)
        return ops.damped_ema, [keras.ops.copy(weight) for weight in layer.op_weights]
    steps = ops.ShiftSchedule("linear", x.shape[2])
    return {
        "csp, pairs": (ops.csp, (steps, 2)),
        "channel shift": (ops.channel_shift, (steps,)),
        "channel shift by power": (ops.channel_shift, (ops.ShiftSchedule("power", x.shape[2]),)),
        "groups of 4": (ops.group_sort, (4,)),
        "groups of 8": (ops.group_sort, (8,)),
        "full sort": (ops.slice_sort, ()),
        "max exchange": (ops.max_exchange, ()),
    }[operator]


def _masks(x, gaps):
    """Return a function from a tensor of the shape of `x` to a dict of a mask of random lengths.

    The mask depends on the tensor, so that a compiler cannot treat it as a constant.
    """
    import keras
    import numpy as np

    batch, tokens = x.shape[:2]
    lengths = np.random.default_rng(0).integers(tokens // 8, tokens + 1, (batch, 1))
    order = np.arange(tokens)
    if gaps:
        order = np.random.default_rng(0).permutation(tokens)
    order, lengths = (keras.ops.convert_to_tensor(a, "int32") for a in (order, lengths))
    return lambda x: {"mask": order < lengths + keras.ops.cast(0 * x[0, 0, 0], "int32")}


def _rivals(case, x):
    """Return the functions to compare an op with, by name."""
    import keras

    from keras_permix.bench.rivals import on_heads
    from keras_permix.layers.attention.linear_attention import linear_attention
    from keras_permix.layers.mixing.baselines import fourier_transform

    functions = {
        "attention": on_heads(keras.ops.dot_product_attention),
        "linear_attention": on_heads(linear_attention),
        "fourier": fourier_transform,
    }
    if HUGE in case.shapes:  # In float32, attention maps would not fit into memory.
        dtype = keras.backend.standardize_dtype(x.dtype)
        functions = {} if dtype == "float32" else {"attention": functions["attention"]}
    if case.masked:
        functions["unmasked"] = _functions(Case(case.operator, case.shapes), x)[0]
    elif case.operator == "full sort":
        functions["sort"] = lambda x: keras.ops.sort(x, axis=1)
    return functions
