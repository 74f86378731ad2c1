"""Benchmark an encoder of long texts with each mixer, for several lengths."""

from collections.abc import Iterator
from typing import Any

from keras_permix._typing import StrPath
from keras_permix.bench.models import TEXT, make
from keras_permix.bench.plots import plot_curves
from keras_permix.bench.timing import medians, peak_megabytes
from keras_permix.utils.machine import is_out_of_memory

CASES = {"1K": 1024, "2K": 2048, "3K": 3072, "4K": 4096}  # tokens
BATCH, HEADS = 4, 4
BLOCK = 64  # of the butterfly: divides all lengths, and is the square root of the longest
MEASURED = ("parameters", "train_steps_per_s", "infer_steps_per_s", "peak_mb")


def mixers() -> dict[str, dict[str, Any]]:
    """Return the mixers of `LRATransformer` by name, with four heads if they have heads."""
    from keras_permix.layers.mixers import MIXERS, arguments_of

    found = {}
    for name in MIXERS:
        heads = {"num_heads": HEADS} if "num_heads" in arguments_of(name) else {}
        block = {"block_size": BLOCK} if name == "butterfly_attention" else {}
        found[name] = {"name": name, **heads, **block}
    return found


def measure(case: str, repeats: int, dtype: str, batch: int = BATCH) -> Iterator[dict[str, Any]]:
    """Measure training and prediction steps per second for every mixer.

    Texts are padded to the number of tokens, and the head receives the mean of the real tokens.
    `peak_mb` is the peak memory of a training step. A model that does not fit into memory has "OOM"
    in the columns of measurements.

    Reference: Yuan & Xu, "Sliceformer", 2023, table 3.
    """
    policy = "float32" if dtype == "float32" else f"mixed_{dtype}"
    for name, mixer in mixers().items():
        row = {"tokens": CASES[case], "mixer": name, "batch": batch}
        # With a class token, the block size would not divide the length. In causal mixers, the
        # token at position 0 receives no information from the others.
        own = dict(max_sequence_length=CASES[case], mixer=mixer, pooling="mean", dtype=policy)
        try:
            yield {**row, **_measured({**TEXT, **own}, repeats, batch)}
        except Exception as error:  # Each backend raises different exceptions.
            if not is_out_of_memory(error):
                raise
            yield {**row, **dict.fromkeys(MEASURED, "OOM")}


def _measured(sizes, repeats, batch):
    run = make("LRATransformer", sizes, batch)
    peak = peak_megabytes(run.step)
    infer, train = medians([run.answer, run.step], repeats)
    return {
        "parameters": run.model.count_params(),
        "train_steps_per_s": float(f"{1e3 / train:.3g}"),
        "infer_steps_per_s": float(f"{1e3 / infer:.3g}"),
        "peak_mb": "" if peak is None else round(peak),
    }


def plot(rows: list[dict[str, Any]], path: StrPath) -> None:
    """Plot steps per second and memory against the number of tokens, one line per mixer."""
    labels = {
        "train_steps_per_s": "training steps per second",
        "infer_steps_per_s": "prediction steps per second",
        "peak_mb": "MB",
    }
    plot_curves(rows, "mixer", labels, path)
