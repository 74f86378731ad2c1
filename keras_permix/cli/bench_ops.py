"""`permix bench ops`: every operator against its reference and against a copy of its tensor."""

from keras_permix.cli.memory import peak_megabytes
from keras_permix.cli.timing import medians

SHORT, VISION, LONG = (64, 64, 512), (32, 196, 384), (8, 1024, 128)
# case -> shapes; `_arguments` says what it calls.
CASES = {"csp, pairs": (SHORT, VISION), "channel shift": (SHORT,), "full sort": (LONG, SHORT)}
COLUMNS = (
    "case",
    "shape",
    "implementation",
    "reference_forward_ms",
    "reference_ms",
    "forward_ms",
    "ms",
    "speedup",
    "copy_ms",
    "vs_copy",
    "gb_per_s",
    "peak_mb",
)


def measure(case, repeats, dtype):
    """Time an operator, forward and forward with backward, after checking its values.

    Args:
        case: One of `CASES`; each has one or two shapes.
        repeats: Turns of `medians`.
        dtype: What the tensors are made of.

    Yields:
        A dict with the keys `COLUMNS`: medians in milliseconds; `speedup` is the reference's time
        over the implementation's, `vs_copy` the implementation's over the copy's, both for forward
        and backward together (a copy has a forward alone, counted twice). `gb_per_s` counts the
        tensor four times: read and written, and its gradient, too. `peak_mb` is the memory of
        forward and backward above what was there.

    Raises:
        ValueError: if values or gradients differ from the reference's; nothing is timed then.
    """
    import keras
    import numpy as np

    from keras_permix.ops._runners import runners

    size = 4 if dtype == "float32" else 2  # bytes
    for shape in CASES[case]:
        x = np.random.default_rng(0).normal(size=shape)
        x = keras.ops.convert_to_tensor(x, dtype)
        reference = runners(_call(case, shape, "reference"), x)
        best = runners(_call(case, shape, None), x)
        _check_equal(best, reference, case, shape)
        copy = runners(keras.ops.negative, x)[0]
        peak = peak_megabytes(best[1])
        times = medians([*reference, *best, copy], repeats)
        reference_forward, reference_both, forward, both, copied = times
        yield {
            "case": case,
            "shape": "×".join(map(str, shape)),
            "implementation": _explain(case, shape, x).chosen,
            "reference_forward_ms": round(reference_forward, 2),
            "reference_ms": round(reference_both, 2),
            "forward_ms": round(forward, 2),
            "ms": round(both, 2),
            "speedup": round(reference_both / both, 1),
            "copy_ms": round(copied, 2),
            "vs_copy": round(both / (2 * copied), 1),
            "gb_per_s": round(float(4 * size * np.prod(shape) / both / 1e6), 1),
            "peak_mb": "" if peak is None else round(peak),
        }


def _check_equal(ours, reference, case, shape):
    import keras
    import numpy as np

    for call, other in zip(ours, reference, strict=True):
        for pair in zip(call(), other(), strict=True):
            pair = [keras.ops.convert_to_numpy(keras.ops.cast(t, "float32")) for t in pair]
            if not np.array_equal(*pair):
                raise ValueError(
                    "An operator must equal its reference before it is timed. "
                    f"Received: {case} at {shape}, which differs"
                )


def _arguments(case, shape):
    from keras_permix import ops

    steps = ops.shift_steps("linear", shape[1], shape[2])
    return {
        "csp, pairs": (ops.csp, (steps, 2)),
        "channel shift": (ops.channel_shift, (steps,)),
        "full sort": (ops.slice_sort, ()),
    }[case]


def _call(case, shape, implementation):
    op, arguments = _arguments(case, shape)
    return lambda x: op(x, *arguments, implementation=implementation)


def _explain(case, shape, x):
    from keras_permix import ops

    op, arguments = _arguments(case, shape)
    return ops.explain(op, x, *arguments)
