"""Vision transformers and MLP-Mixers of timm: sizes and weights, from the names of its tensors."""

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from keras_permix._typing import Model, StrPath
from keras_permix.zoo.convert.safetensors import read_tensors

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
EPSILON = 1e-6
HEADS = {192: 3, 384: 6, 768: 12, 1024: 16}  # of ViT-Ti, S, B and L, by their width
# Names of timm, less ".weight" and ".bias", and the paths here.
VIT = {
    "patch_embed.proj": "patch_embedding/projection",
    "norm": "head_norm",
    "fc_norm": "head_norm",
    "head": "head",
}
VIT_BLOCK = {
    "norm1": "mixer_norm",
    "attn.qkv": "mixer/qkv",
    "attn.proj": "mixer/output",
    "norm2": "mlp_norm",
    "mlp.fc1": "mlp_in",
    "mlp.fc2": "mlp_out",
}
TABLES = {"pos_embed": "position_embedding/table", "cls_token": "position_embedding/class_token"}
MIXER = {"stem.proj": "patch_embedding/projection", "norm": "head_norm", "head": "head"}
MIXER_BLOCK = {
    "norm1": "token_norm",
    "mlp_tokens.fc1": "token_in",
    "mlp_tokens.fc2": "token_out",
    "norm2": "channel_norm",
    "mlp_channels.fc1": "channel_in",
    "mlp_channels.fc2": "channel_out",
}


@dataclasses.dataclass(frozen=True)
class Timm:
    """A model of timm.

    Args:
        arguments: Of the class here: sizes, epsilon, mean and deviation of the images.
        weights: Arrays by the paths of the weights here, kernels `(in, out)`.
        path: The file.
    """

    arguments: dict[str, Any]
    weights: dict[str, np.ndarray]
    path: Path


def make_model(cls: Any, timm: Timm, num_classes: int | None, arguments: dict[str, Any]) -> Model:
    """A model of a class with the weights of timm's, and with a head of zeros where it is new.

    Raises:
        ValueError: for arguments that the file decides, or weights that do not fit.
    """
    decided = timm.arguments.keys() - {"mean", "std", "epsilon"}
    if decided & arguments.keys():
        raise ValueError(
            f"The file of timm decides on {', '.join(sorted(decided))}. Received: {arguments}"
        )
    if num_classes is None:
        num_classes = timm.arguments["num_classes"]
    if num_classes is None:
        raise ValueError(
            f"`num_classes` must say how many there are, since {timm.path} has no head. "
            "Received: num_classes=None"
        )
    new_head = num_classes != timm.arguments["num_classes"]
    weights = {
        path: value
        for path, value in timm.weights.items()
        if not (new_head and path.startswith("head/"))
    }
    model = cls(**{**timm.arguments, **arguments, "num_classes": num_classes})
    own = {weight.path: tuple(weight.shape) for weight in model.weights}
    given = {path: value.shape for path, value in weights.items()}
    fresh = {path for path in own if new_head and path.startswith("head/")}
    missing = own.keys() - given.keys() - fresh
    wrong = {path: shape for path, shape in given.items() if own.get(path) != shape}
    if missing or wrong:
        raise ValueError(
            f"{timm.path} must hold all tensors of one model, and no others. Received: "
            f"missing={sorted(missing)[:8]}, unknown or of another shape={sorted(wrong)[:8]}"
        )
    for weight in model.weights:
        value = weights.get(weight.path)
        weight.assign(ops.zeros(weight.shape, weight.dtype) if value is None else value)
    return model


def read_vit(path: StrPath, num_heads: int | None = None) -> Timm:
    """Read a vision transformer; see `ViT.from_timm`."""
    tensors, file, images = _read(path)
    wanted = ("patch_embed.proj.weight", "pos_embed", "blocks.0.mlp.fc1.weight")
    sizes = _sizes(tensors, file, *wanted)
    weights = _weights(tensors, file, VIT, VIT_BLOCK, TABLES)
    width, pooling = sizes["width"], "mean" if "fc_norm.weight" in tensors else "cls"
    if ("cls_token" in tensors) != (pooling == "cls"):
        found = "a mean beside cls_token" if pooling == "mean" else "a norm ahead of the mean"
        raise ValueError(
            "The head must read a class token after its norm, or the mean of the tokens ahead of "
            f"fc_norm. Received: {file} with {found}"
        )
    if num_heads is None and width not in HEADS:
        raise ValueError(
            f"`num_heads` must be given where the width is none of {', '.join(map(str, HEADS))}. "
            f"Received: num_heads=None, and a width of {width} in {file}"
        )
    patches = tensors["pos_embed"].shape[1] - (pooling == "cls")
    mixer = {"name": "attention", "num_heads": HEADS[width] if num_heads is None else num_heads}
    mixer["use_qkv_bias"] = "blocks.0.attn.qkv.bias" in tensors
    own = dict(mlp_dim=len(tensors["blocks.0.mlp.fc1.weight"]), mixer=mixer, pooling=pooling)
    image_size = math.isqrt(patches) * sizes["patch_size"]
    return Timm({**sizes, **own, **images, "image_size": image_size}, weights, file)


def read_mixer(path: StrPath) -> Timm:
    """Read an MLP-Mixer; see `MLPMixer.from_timm`."""
    tensors, file, images = _read(path)
    names = [f"blocks.0.mlp_{part}.fc1.weight" for part in ("tokens", "channels")]
    sizes = _sizes(tensors, file, "stem.proj.weight", *names)
    weights = _weights(tensors, file, MIXER, MIXER_BLOCK, {})
    (token_units, patches), (channel_units, _) = (tensors[name].shape for name in names)
    own = dict(token_units=token_units, channel_units=channel_units, mlp="dense", pooling="mean")
    image_size = math.isqrt(patches) * sizes["patch_size"]
    return Timm({**sizes, **own, **images, "image_size": image_size}, weights, file)


def _read(path: StrPath) -> tuple[dict[str, np.ndarray], Path, dict[str, Any]]:
    """The tensors, their file, and what is said of the images."""
    path = Path(path)
    path = path / WEIGHTS_FILE if path.is_dir() else path
    tensors, config, images = read_tensors(path), path.with_name(CONFIG_FILE), {}
    if config.is_file():
        try:
            values = json.loads(config.read_text(encoding="utf-8"))
            said = values.get("pretrained_cfg", values)
            images = {key: tuple(said[key]) for key in ("mean", "std") if key in said}
        except (ValueError, AttributeError, TypeError) as error:
            raise ValueError(
                f"`{config}` must be the JSON file of a model of timm. "
                f"Received: {type(error).__name__}: {error}"
            ) from error
    return tensors, path, images


def _sizes(tensors, path, patches, *others):
    """The sizes that both kinds of model have, read off the shapes."""
    missing = [name for name in (patches, *others) if name not in tensors]
    kernel = tensors.get(patches)
    if missing or kernel.ndim != 4 or kernel.shape[2] != kernel.shape[3]:
        raise ValueError(
            f"`{path}` must hold a model of timm of this kind, with square patches. Received: "
            f"missing={missing}, patches of the shape {getattr(kernel, 'shape', None)}"
        )
    blocks = {int(found[1]) for name in tensors if (found := re.match(r"blocks\.(\d+)\.", name))}
    return {
        "width": kernel.shape[0],
        "channels": kernel.shape[1],
        "patch_size": kernel.shape[2],
        "depth": len(blocks),
        "num_classes": len(tensors["head.weight"]) if "head.weight" in tensors else None,
        "epsilon": EPSILON,
    }


def _weights(tensors, path, names, of_block, tables):
    """The tensors by the paths here."""
    weights, unknown = {}, []
    for name, value in tensors.items():
        stem, _, kind = name.rpartition(".")
        block = re.fullmatch(r"blocks\.(\d+)\.(.+)", stem)
        layer = of_block.get(block[2]) if block else names.get(stem)
        if name in tables:
            weights[tables[name]] = value
        elif layer is None or kind not in ("weight", "bias"):
            unknown.append(name)
        else:
            layer = f"block_{block[1]}/{layer}" if block else layer
            kinds = ("gamma", "beta") if layer.endswith("norm") else ("kernel", "bias")
            weights[f"{layer}/{kinds[kind == 'bias']}"] = _kernel(value)
    if unknown:
        raise ValueError(
            f"`{path}` must hold a model of timm of this kind, and nothing that it has not here. "
            f"Received: {sorted(unknown)[:8]}"
        )
    return weights


def _kernel(value):
    """From PyTorch's order to (in, out); patches are flattened by row, column and channel."""
    if value.ndim == 4:
        return value.transpose(2, 3, 1, 0).reshape(-1, len(value))
    return value.T
