"""Read sizes and weights of timm's vision transformers and MLP-Mixers."""

import json
import math
import re
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from keras_permix._typing import Model, StrPath
from keras_permix.zoo.convert.tensors import read_tensors, weights_of

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
EPSILON = 1e-6
HEADS = {192: 3, 384: 6, 768: 12, 1024: 16}  # heads of ViT-Ti, S, B and L by width
# Names of timm without ".weight" and ".bias", and paths of weights.
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


# Arguments of the class of the package, arrays by the paths of weights, and the path of the file.
Timm: TypeAlias = tuple[dict[str, Any], dict[str, np.ndarray], Path]


def make_model(cls: Any, timm: Timm, num_classes: int | None, arguments: dict[str, Any]) -> Model:
    """Make a model with weights of timm; a new head is initialized to zeros."""
    read, weights, path = timm
    decided = read.keys() - {"mean", "std", "layer_norm_epsilon"}
    if given := decided & arguments.keys():
        raise ValueError(f"The file of timm sets these arguments. Received: {sorted(given)}")
    if num_classes is None:
        labels = arguments.get("labels")
        num_classes = read["num_classes"] if labels is None else len(labels)
    if num_classes is None:
        raise ValueError(f"`num_classes` must be given without a head. Received: {path}")
    model = cls(**{**read, **arguments, "num_classes": num_classes})
    own = {weight.path: tuple(weight.shape) for weight in model.weights}
    if num_classes != read["num_classes"]:
        head = {name: np.zeros(own[name], "float32") for name in own if name.startswith("head/")}
        weights = {**weights, **head}
    missing = own.keys() - weights.keys()
    wrong = [name for name, value in weights.items() if own.get(name) != value.shape]
    if missing or wrong:
        found = f"missing={sorted(missing)[:8]}, unknown or of another shape={sorted(wrong)[:8]}"
        raise ValueError(f"`{path}` must contain the tensors of one model. Received: {found}")
    for weight in model.weights:
        weight.assign(weights[weight.path])
    return model


def read_vit(path: StrPath, num_heads: int | None = None) -> Timm:
    """Read a vision transformer; see `ViT.from_timm`."""
    tensors, file, config = _read(path)
    wanted = ("patch_embed.proj.weight", "pos_embed", "blocks.0.mlp.fc1.weight")
    sizes, weights = _parse(tensors, file, wanted, VIT, VIT_BLOCK, TABLES)
    has_token, norm_last = "cls_token" in tensors, "fc_norm.weight" in tensors
    pool = config.get("global_pool") or ("avg" if norm_last else "token")
    supported = has_token if pool == "token" else pool == "avg" and norm_last and not has_token
    if not supported:
        rule = "The head must read a class token, or else the mean of the tokens before fc_norm"
        found = f"global_pool={pool!r}, cls_token={has_token}, fc_norm={norm_last}"
        raise ValueError(f"{rule}. Received: {found}")
    heads = config.get("num_heads", num_heads)
    if num_heads not in (None, heads):
        raise ValueError(f"`num_heads` must be {heads}. Received: num_heads={num_heads}")
    num_heads = heads or HEADS.get(sizes["hidden_dim"])
    qkv_bias = "blocks.0.attn.qkv.bias" in tensors
    own = {
        "mlp_dim": len(tensors["blocks.0.mlp.fc1.weight"]),
        "mixer": {"name": "attention", "num_heads": num_heads, "use_qkv_bias": qkv_bias},
        "pooling": "cls" if has_token else "mean",
    }
    images = _images(config, sizes, tensors["pos_embed"].shape[1] - has_token, file)
    return {**sizes, **own, **images}, weights, file


def read_mixer(path: StrPath) -> Timm:
    """Read an MLP-Mixer; see `MLPMixer.from_timm`."""
    tensors, file, config = _read(path)
    names = [f"blocks.0.mlp_{part}.fc1.weight" for part in ("tokens", "channels")]
    wanted = ("stem.proj.weight", *names)
    sizes, weights = _parse(tensors, file, wanted, MIXER, MIXER_BLOCK, {})
    (tokens_mlp_dim, patches), (channels_mlp_dim, _) = (tensors[name].shape for name in names)
    own = {"tokens_mlp_dim": tokens_mlp_dim, "channels_mlp_dim": channels_mlp_dim}
    own |= {"mlp": "dense", "pooling": "mean"}
    images = _images(config, sizes, patches, file)
    return {**sizes, **own, **images}, weights, file


def _read(path: StrPath) -> tuple[dict[str, np.ndarray], Path, dict[str, Any]]:
    """Return the tensors, their file, and the settings in `config.json`."""
    path = Path(path)
    path = path if path.suffix == ".safetensors" else path / WEIGHTS_FILE
    tensors, config = read_tensors(path), path.with_name(CONFIG_FILE)
    if not config.is_file():
        return tensors, path, {}
    values = json.loads(config.read_text(encoding="utf-8"))
    arguments = values.get("model_args") or {}
    return tensors, path, (values.get("pretrained_cfg") or {}) | values | arguments


def _images(config, sizes, patches, path):
    """Return the arguments about images, and check settings that the tensors do not show."""
    side = math.isqrt(patches)
    size = config.get("img_size", config.get("input_size", (1,))[-2:])
    kind = "quick_gelu" if "quickgelu" in config.get("architecture", "") else "gelu"
    activation = config.get("act_layer") or kind
    if side**2 != patches or np.ptp(size) or activation != "gelu":
        rule = f"`{path}` must be a model of square images with the activation gelu"
        raise ValueError(f"{rule}. Received: {patches} patches, images of {size}, and {activation}")
    half = (0.5,) * sizes["channels"]
    scale = {name: config.get(name, half) for name in ("mean", "std")}
    return {**scale, "image_size": side * sizes["patch_size"]}


def _parse(tensors, path, wanted, layers, block_layers, tables):
    """Return the common sizes of both kinds of model, and tensors by the paths of weights.

    `wanted` are names of tensors, first that of the kernel of patches.
    """
    blocks = {int(found[1]) for name in tensors if (found := re.match(r"blocks\.(\d+)\.", name))}
    weights, _, unknown = weights_of(tensors, layers, "blocks", block_layers, len(blocks), tables)
    missing = [name for name in wanted if name not in tensors]
    kernel = tensors.get(wanted[0])
    if missing or unknown or kernel.shape[2] != kernel.shape[3]:
        rule = f"`{path}` must contain a model of this kind with square patches"
        found = f"{missing=}, unsupported={unknown[:8]}, patches={getattr(kernel, 'shape', None)}"
        raise ValueError(f"{rule}. Received: {found}")
    sizes = {
        "hidden_dim": kernel.shape[0],
        "channels": kernel.shape[1],
        "patch_size": kernel.shape[2],
        "num_layers": len(blocks),
        "num_classes": len(tensors["head.weight"]) if "head.weight" in tensors else None,
        "layer_norm_epsilon": EPSILON,
    }
    return sizes, weights
