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
# Arguments of timm's models that do not affect what a trained model computes.
TRAINED_WITH = {
    "drop_rate", "pos_drop_rate", "patch_drop_rate", "proj_drop_rate", "attn_drop_rate",
    "drop_path_rate", "weight_init", "fix_init", "dynamic_img_size", "dynamic_img_pad",
}  # fmt: skip
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
    if decided & arguments.keys():
        raise ValueError(
            f"The file of timm sets {', '.join(sorted(decided))}. Do not pass them. "
            f"Received: {arguments}"
        )
    if num_classes is None:
        labels = arguments.get("labels")
        num_classes = read["num_classes"] if labels is None else len(labels)
    if num_classes is None:
        raise ValueError(
            f"`num_classes` must be given, because {path} has no head. Received: num_classes=None"
        )
    model = cls(**{**read, **arguments, "num_classes": num_classes})
    own = {weight.path: tuple(weight.shape) for weight in model.weights}
    if num_classes != read["num_classes"]:
        head = {name: np.zeros(own[name], "float32") for name in own if name.startswith("head/")}
        weights = {**weights, **head}
    missing = own.keys() - weights.keys()
    wrong = [name for name, value in weights.items() if own.get(name) != value.shape]
    if missing or wrong:
        raise ValueError(
            f"{path} must contain all tensors of one model, and no others. Received: "
            f"missing={sorted(missing)[:8]}, unknown or of another shape={sorted(wrong)[:8]}"
        )
    for weight in model.weights:
        weight.assign(weights[weight.path])
    return model


def read_vit(path: StrPath, num_heads: int | None = None) -> Timm:
    """Read a vision transformer; see `ViT.from_timm`."""
    tensors, file, config = _read(path)
    wanted = ("patch_embed.proj.weight", "pos_embed", "blocks.0.mlp.fc1.weight")
    sizes, weights = _parse(tensors, file, wanted, VIT, VIT_BLOCK, TABLES)
    hidden_dim, mlp_dim = sizes["hidden_dim"], len(tensors["blocks.0.mlp.fc1.weight"])
    has_token, norm_last = "cls_token" in tensors, "fc_norm.weight" in tensors
    pool = config.pop("global_pool", None) or ("avg" if norm_last else "token")
    supported = has_token if pool == "token" else pool == "avg" and norm_last and not has_token
    if not supported:
        raise ValueError(
            "The head must read a class token or, without one, the mean of the tokens with fc_norm "
            f"after it. Received: {file} with global_pool={pool!r}, "
            f"{'a' if has_token else 'no'} class token and "
            f"{'fc_norm' if norm_last else 'a norm before the mean'}"
        )
    heads = config.pop("num_heads", None)
    if None not in (heads, num_heads) and heads != num_heads:
        raise ValueError(
            f"`num_heads` must be {heads}, as in {file.with_name(CONFIG_FILE)}. "
            f"Received: num_heads={num_heads}"
        )
    num_heads = num_heads or heads or HEADS.get(hidden_dim)
    if num_heads is None:
        raise ValueError(
            f"`num_heads` must be given for widths other than {', '.join(map(str, HEADS))}. "
            f"Received: num_heads=None, and a width of {hidden_dim} in {file}"
        )
    qkv_bias = "blocks.0.attn.qkv.bias" in tensors
    own = {
        "mlp_dim": mlp_dim,
        "mixer": {"name": "attention", "num_heads": num_heads, "use_qkv_bias": qkv_bias},
        "pooling": "cls" if has_token else "mean",
    }
    about = {
        "depth": sizes["num_layers"], "class_token": has_token, "fc_norm": norm_last,
        "qkv_bias": qkv_bias, "mlp_ratio": mlp_dim / hidden_dim,
    }  # fmt: skip
    images = _images(config, sizes, tensors["pos_embed"].shape[1] - has_token, file, about)
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
    ratios = [tokens_mlp_dim / sizes["hidden_dim"], channels_mlp_dim / sizes["hidden_dim"]]
    about = {"num_blocks": sizes["num_layers"], "global_pool": "avg", "mlp_ratio": ratios}
    images = _images(config, sizes, patches, file, about)
    return {**sizes, **own, **images}, weights, file


def _read(path: StrPath) -> tuple[dict[str, np.ndarray], Path, dict[str, Any]]:
    """Return the tensors, their file, and the arguments and image settings of `config.json`."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(
            f"`path` must be a folder with {WEIGHTS_FILE}, or that file; names of timm's models "
            "are not downloaded. Download the files first, for example with "
            f"`huggingface_hub.snapshot_download`. Received: path={str(path)!r}"
        )
    path = path / WEIGHTS_FILE if path.is_dir() else path
    tensors, config = read_tensors(path), path.with_name(CONFIG_FILE)
    if not config.is_file():
        return tensors, path, {}
    try:
        values = json.loads(config.read_text(encoding="utf-8"))
        said = values.get("pretrained_cfg", values)
        found = {key: values[key] for key in ("global_pool", "num_features") if key in values}
        found |= {key: tuple(said[key]) for key in ("mean", "std", "input_size") if key in said}
        name = str(values.get("architecture", ""))
        found |= {"act_layer": "quick_gelu"} if "quickgelu" in name else {}
        return tensors, path, found | dict(values.get("model_args") or {})
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(
            f"`{config}` must be the JSON file of a model of timm. "
            f"Received: {type(error).__name__}: {error}"
        ) from error


def _images(config, sizes, patches, path, about):
    """Return the arguments about images, and check that the configuration can be built.

    `about` holds settings derived from the tensors, by timm's names of arguments.
    """
    side, hidden_dim = math.isqrt(patches), sizes["hidden_dim"]
    about |= {
        "embed_dim": hidden_dim, "num_features": hidden_dim, "in_chans": sizes["channels"],
        "patch_size": sizes["patch_size"], "img_size": side * sizes["patch_size"],
        "num_classes": sizes["num_classes"], "act_layer": "gelu", "norm_layer": "layernorm",
        "pos_embed": "learn", "final_norm": True,
    }  # fmt: skip
    images = {key: config.pop(key) for key in ("mean", "std", "input_size") if key in config}
    wrong = {
        name: value
        for name, value in config.items()
        if name not in TRAINED_WITH and not _agrees(value, about.get(name, False), hidden_dim)
    }
    *_, height, columns = images.pop("input_size", (1, 1))
    if side**2 != patches or "img_size" not in config and height != columns:
        wrong["img_size"] = f"a grid of {patches} patches that is not square"
    if wrong:
        raise ValueError(
            "The configuration of timm must describe a network that this class supports. "
            f"Received: {path} with {', '.join(f'{name}={value}' for name, value in wrong.items())}"
        )
    for key, values in images.items():
        if len(values) != sizes["channels"] and len(set(values)) == 1:  # of RGB images
            images[key] = values[:1] * sizes["channels"]
    default = dict.fromkeys(("mean", "std"), (0.5,) * sizes["channels"])
    return {**default, **images, "image_size": about["img_size"]}


def _agrees(value, built, hidden_dim):
    """Return whether an argument of timm, which may repeat a size, agrees with the model."""
    if value is None or built is None:
        return True
    if isinstance(value, list | tuple) and not isinstance(built, list):
        return set(value) == {built}
    if isinstance(built, float | list):  # ratios of the width
        units = (hidden_dim * np.atleast_1d(value)).astype(int)
        return units.tolist() == np.rint(hidden_dim * np.atleast_1d(built)).astype(int).tolist()
    return value == built


def _parse(tensors, path, wanted, layers, block_layers, tables):
    """Return the common sizes of both kinds of model, and tensors by the paths of weights.

    `wanted` are names of tensors, first that of the kernel of patches.
    """
    missing = [name for name in wanted if name not in tensors]
    kernel = tensors.get(wanted[0])
    if missing or kernel.ndim != 4 or kernel.shape[2] != kernel.shape[3]:
        raise ValueError(
            f"`{path}` must contain a model of timm of this kind, with square patches. Received: "
            f"missing={missing}, patches of the shape {getattr(kernel, 'shape', None)}"
        )
    blocks = {int(found[1]) for name in tensors if (found := re.match(r"blocks\.(\d+)\.", name))}
    weights, _, unknown = weights_of(tensors, layers, "blocks", block_layers, len(blocks), tables)
    if unknown:
        raise ValueError(
            f"`{path}` must contain a model of timm of this kind, without unsupported tensors. "
            f"Received: {unknown[:8]}"
        )
    sizes = {
        "hidden_dim": kernel.shape[0],
        "channels": kernel.shape[1],
        "patch_size": kernel.shape[2],
        "num_layers": len(blocks),
        "num_classes": len(tensors["head.weight"]) if "head.weight" in tensors else None,
        "layer_norm_epsilon": EPSILON,
    }
    return sizes, weights
