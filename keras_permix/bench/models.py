"""Benchmark prediction and training of permutation models against attention models."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from keras_permix._typing import Model, StrPath
from keras_permix.bench.plots import plot_bars
from keras_permix.bench.timing import medians, peak_megabytes, wall_seconds

# Models of a case: name -> (class, arguments). The first is the attention baseline.
VITS = {name: (name, dict[str, Any]()) for name in ("ViT", "CSPViT", "SliceViT")}
ENCODERS = {
    name: ("LRATransformer", {"mixer": mixer})
    for name, mixer in {
        "softmax attention": {"name": "attention", "num_heads": 4},
        "CSP": {"name": "csp", "group_size": None},
        "SimpleAttention": {"name": "simple_attention", "num_heads": 4},
    }.items()
}
PATCHES = dict(num_classes=10, image_size=32, patch_size=4, hidden_dim=144, num_layers=7)
IMAGE_MIXERS = {
    "ViT": ("ViT", {**PATCHES, "mlp_dim": 288}),
    "ButterflyViT": ("ButterflyViT", {**PATCHES, "num_heads": 4, "mlp_dim": 288}),
    "MLPMixer": ("MLPMixer", PATCHES),
    "ButterflyMixer": ("ButterflyMixer", PATCHES),
    "ButterflyMixer, linear": ("ButterflyMixer", {**PATCHES, "mlp": "butterfly_linear"}),
    "PatchOnlyMLPMixer": ("PatchOnlyMLPMixer", dict[str, Any]()),
}
BLOCKS = {
    f"{size} tokens per block": ("ButterflyViT", {"block_size": size}) for size in (64, 16, 8, 4, 2)
}
BERTS = {
    "softmax": ("SimpleTRON", {"variant": "softmax"}),
    "simple": ("SimpleTRON", {"variant": "simple_resl"}),
}
GRAPHORMERS = {
    "Graphormer": ("Graphormer", dict[str, Any]()),
    "SliceGraphormer": ("SliceGraphormer", dict[str, Any]()),
    "SliceGraphormer, release": (
        "SliceGraphormer", {"mixer": {"name": "slice_sort", "mode": "release"}}
    ),
}  # fmt: skip
MEGAS = {
    "MEGA in chunks of 128": ("MEGA", {"mixer": "softmax", "chunk_size": 128}),
    "CSPMEGA": ("CSPMEGA", dict[str, Any]()),
}
IMAGENET = dict(image_size=224, patch_size=16, hidden_dim=384, num_layers=12, mlp_dim=1536)
SMALL = dict(num_classes=10, image_size=32, patch_size=4, hidden_dim=128, num_layers=6, mlp_dim=256)
TEXT = dict(num_classes=10, hidden_dim=256, num_layers=4, mlp_dim=1024)  # Long Range Arena
MEGA = dict(  # Long Range Arena, texts
    num_classes=10, hidden_dim=128, inner_dim=256, shared_dim=64, num_layers=4, norm="scalenorm",
    norm_first=False, truncation=1024,
)  # fmt: skip
# name -> (models, shared arguments, batch size)
CASES: dict[str, tuple[Any, dict[str, Any], int]] = {
    "cifar10_small": (VITS, SMALL, 128),
    "cifar10": (VITS, {**SMALL, "hidden_dim": 512, "mlp_dim": 512}, 32),
    "cifar10, 256 tokens": (VITS, {**SMALL, "patch_size": 2, "hidden_dim": 192, "mlp_dim": 384},
    16),
    "imagenet": (VITS, {**IMAGENET, "num_classes": 10}, 4),
    "imagenet, huge": (VITS, {**IMAGENET, "num_classes": 1000}, 256),
    "cifar10, mixers": (IMAGE_MIXERS, {}, 64),
    "cifar10, blocks": (
        BLOCKS, {**SMALL, "hidden_dim": 64, "num_layers": 4, "mlp_dim": 128}, 128
    ),
    "molecules": (GRAPHORMERS, dict(hidden_dim=96, num_layers=4, num_heads=8, mlp_dim=192), 128),
    "BERT, 128 tokens": (
        BERTS, dict(max_sequence_length=128, hidden_dim=384, num_layers=3, num_heads=12,
        mlp_dim=1536), 16
    ),
    "text, 1024 tokens": (ENCODERS, {**TEXT, "max_sequence_length": 1024}, 8),
    "text, 2048 tokens": (ENCODERS, {**TEXT, "max_sequence_length": 2048}, 4),
    "text, 4096 tokens": (ENCODERS, {**TEXT, "max_sequence_length": 4096}, 2),
    "MEGA, 1024 tokens": (MEGAS, {**MEGA, "max_sequence_length": 1024}, 4),
    "MEGA, 4096 tokens": (MEGAS, {**MEGA, "max_sequence_length": 4096}, 1),
}  # fmt: skip
# Packages whose vision transformers `--against` adds to the cases of `VITS`. The last two require
# PyTorch.
PEERS = ("keras_hub", "timm", "torch_nn")
HEADS = 8  # of `ViT` and its peers
OF_ACCELERATORS = ("imagenet, huge",)  # not run on a CPU by default


def measure(
    case: str, repeats: int, dtype: str, against: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Time a prediction and a training step of every model of a case, on random inputs.

    Texts have random lengths and are padded to `max_sequence_length`.

    Models of the packages in `against`, names from `PEERS`, are added to a case of `VITS`.

    Times are medians in milliseconds. `vs_attention` is the step time of the baseline divided by
    that of the model, and `vs_attention_macs` the same ratio of multiply-adds. `first_step_s` is
    the time of the first training step in seconds, including compilation. Memory is the result of
    `peak_megabytes`; `load_mb` is that of loading the model from a file, including the model.
    """
    from keras_permix.analysis import count_macs

    contenders, shared, batch = CASES[case]
    policy = {"dtype": "float32" if dtype == "float32" else f"mixed_{dtype}"}
    runs = [make(name, {**shared, **own, **policy}, batch) for name, own in contenders.values()]
    macs, names = [count_macs(run.model).total for run in runs], list(contenders)
    if contenders is VITS:
        runs += [make_peer(peer, shared, batch, policy["dtype"]) for peer in against]
        names += [f"ViT of {peer}" for peer in against]
        macs += [macs[0]] * len(against)
    first_steps = [wall_seconds(run.step) for run in runs]
    with TemporaryDirectory() as folder:
        loads = [run.stored(Path(folder, str(number))) for number, run in enumerate(runs)]
        calls = [(load, run.answer, run.step) for load, run in zip(loads, runs, strict=True)]
        peaks = [peak_megabytes(call) for call in chain(*calls)]
    measured = iter(medians([call for _, *others in calls for call in others], repeats))
    times = list(zip(measured, measured, strict=True))
    memory = iter("" if peak is None else round(peak, 1) for peak in peaks)
    columns = zip(names, runs, times, macs, first_steps, strict=True)
    for name, run, (forward, step), own, first_step in columns:
        yield {
            "case": case,
            "model": name,
            "tokens": run.tokens,
            "parameters": _parameters(run.model),
            "batch": batch,
            "forward_ms": round(forward, 1),
            "step_ms": round(step, 1),
            "vs_attention": round(times[0][1] / step, 2),
            "vs_attention_macs": round(macs[0] / own, 2),
            "first_step_s": round(first_step, 2),
            "load_mb": next(memory),
            "forward_mb": next(memory),
            "step_mb": next(memory),
        }


def plot(rows: list[dict[str, Any]], path: StrPath) -> None:
    """Plot the time of a training step of every model, and of the attention baseline."""
    labels = [f"{row['case']}\n{row['model']}" for row in rows]
    baselines = [row["step_ms"] * row["vs_attention"] for row in rows]
    bars = {"model": [row["step_ms"] for row in rows], "attention": baselines}
    plot_bars(labels, bars, "milliseconds per training step", path)


class Contender(NamedTuple):
    """Hold a model of Keras or PyTorch to time, and its steps."""

    model: Model
    tokens: int  # maximum length of a text, or the tokens, nodes or pixels that blocks mix
    answer: Callable[[], Any]  # predicts a batch
    step: Callable[[], Any]  # trains on the batch; the first call compiles
    stored: Callable[[Path], Callable[[], Any]]  # writes the model; returns a function to load it


def make(name: str, arguments: dict[str, Any], batch: int) -> Contender:
    """Make a model of the zoo by the name of its class, with a batch of its `make_inputs`."""
    from keras_permix import zoo
    from keras_permix.tasks import task_of

    model = zoo.MODELS[name](**arguments)
    inputs = model.make_inputs(0, batch)
    mixed = math.prod(model.features(inputs)[0].shape[1:-1])
    tokens = model.get_config().get("max_sequence_length", mixed)
    return _contender(model, tokens, task_of(model).loss(), inputs, batch, stored=model)


def make_peer(peer: str, sizes: dict[str, Any], batch: int, dtype: str) -> Contender:
    """Make a vision transformer of a package in `PEERS`, with mean pooling like `ViT`.

    `sizes` are the size arguments of `ViT`, and `dtype` is the name of a Keras dtype policy.
    """
    import keras

    from keras_permix.ops.backend import running

    tokens = (sizes["image_size"] // sizes["patch_size"]) ** 2
    if peer != "keras_hub":
        plain = dtype.removeprefix("mixed_")
        made = running.module("peers").make(peer, {**sizes, "num_heads": HEADS}, batch, plain)
        return Contender(made[0], tokens, *made[1:])
    from keras_hub.models import ViTBackbone

    shape = (sizes["image_size"], sizes["image_size"], 3)
    backbone = ViTBackbone(
        shape, sizes["patch_size"], sizes["num_layers"], HEADS, sizes["hidden_dim"],
        sizes["mlp_dim"], use_class_token=False, dtype=dtype,
    )  # fmt: skip
    pooled = keras.layers.GlobalAveragePooling1D()(backbone.output)
    model = keras.Model(backbone.input, keras.layers.Dense(sizes["num_classes"])(pooled))
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    images = keras.random.uniform((batch, *shape), seed=0)
    return _contender(model, tokens, loss, images, batch, stored=backbone)


def _contender(model, tokens, loss, inputs, batch, stored):
    """Return a contender of Keras, with random targets; `stored` is the part to store."""
    import keras
    import numpy as np

    model.compile("adamw", loss)
    inputs = keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)
    classes = model.output_shape[-1]  # For a regression model, the target is always 1.
    targets = np.eye(classes, dtype="float32")[np.random.default_rng(0).integers(0, classes, batch)]

    def store(path):
        stored.save_to_preset(str(path))
        return lambda: type(stored).from_preset(str(path))

    return Contender(
        model,
        tokens,
        lambda: model.predict_on_batch(inputs),
        lambda: model.train_on_batch(inputs, targets),
        store,
    )


def _parameters(model):
    """Return the number of parameters of a Keras or PyTorch model."""
    if hasattr(model, "count_params"):
        return model.count_params()
    return sum(weight.numel() for weight in model.parameters())
