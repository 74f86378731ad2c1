"""`permix bench models`: a training step of the permuting models against their attention twin."""

from collections.abc import Iterator
from typing import Any

from keras_permix._typing import StrPath
from keras_permix.bench.timing import medians

# name -> (arguments that the twins share, batch size)
CASES = {
    "cifar10_small": (dict(image_size=32, patch_size=4, width=128, depth=6, mlp_dim=256), 128),
    "cifar10": (dict(image_size=32, patch_size=4, width=512, depth=6, mlp_dim=512), 32),
    "cifar10, 256 tokens": (dict(image_size=32, patch_size=2, width=192, depth=6, mlp_dim=384), 16),
    "imagenet": (dict(image_size=224, patch_size=16, width=384, depth=12, mlp_dim=1536), 4),
}
MODELS = ("ViT", "CSPViT", "SliceViT")
COLUMNS = ("case", "model", "tokens", "parameters", "batch", "step_ms", "vs_ViT")


def measure(case: str, repeats: int, dtype: str) -> Iterator[dict[str, Any]]:
    """Time a training step of every model.

    Args:
        case: One of `CASES`.
        repeats: Rounds of `medians`.
        dtype: What the models compute in; their weights are float32.

    Yields:
        A dict with the keys `COLUMNS`; times are medians in milliseconds, `vs_ViT` is the ratio
        of the ViT's time to the model's.
    """
    arguments, batch = CASES[case]
    policy = "float32" if dtype == "float32" else f"mixed_{dtype}"
    steps = {name: _make_step(name, {**arguments, "dtype": policy}, batch) for name in MODELS}
    times = medians([step for _, step in steps.values()], repeats)
    for (name, (model, _)), milliseconds in zip(steps.items(), times, strict=True):
        yield {
            "case": case,
            "model": name,
            "tokens": model.get_layer("patch_embedding").output.shape[1],
            "parameters": model.count_params(),
            "batch": batch,
            "step_ms": round(milliseconds, 1),
            "vs_ViT": round(times[MODELS.index("ViT")] / milliseconds, 2),
        }


def plot(rows: list[dict[str, Any]], path: StrPath) -> None:
    """Draw the time of a training step, relative to the ViT's, one group of bars per case."""
    import numpy as np
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    cases = list(dict.fromkeys(row["case"] for row in rows))
    for number, model in enumerate(MODELS):
        heights = [1 / row["vs_ViT"] for row in rows if row["model"] == model]
        axes.bar(np.arange(len(cases)) + 0.25 * number, heights, 0.25, label=model)
    axes.set_xticks(np.arange(len(cases)) + 0.25, cases)
    axes.set(ylabel="time of a training step, ViT = 1")
    axes.legend()
    figure.savefig(path, dpi=100)


def _make_step(name, arguments, batch):
    import keras
    import numpy as np

    from keras_permix import zoo

    model = zoo.MODELS[name](num_classes=10, **arguments)
    model.compile("adamw", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    size = arguments["image_size"]
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (batch, size, size, 3), dtype="uint8")
    labels = rng.integers(0, 10, batch)

    def step():
        return model.train_on_batch(images, labels)

    return model, step
