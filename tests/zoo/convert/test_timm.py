"""Test `from_timm`: features, logits, heads, configurations and errors."""

import json
import math

import numpy as np
import pytest

from keras_permix import swap_mixer
from keras_permix.zoo import ButterflyMixer, CSPViT, MLPMixer, ViT
from tests.harness import assert_close, to_numpy
from tests.zoo.convert.berts import write_safetensors

pytest.importorskip("safetensors", reason="safetensors is not installed")

WIDTH, PATCH, SIDE, DEPTH, CLASSES = 12, 4, 3, 2, 5
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (2, PATCH * SIDE, PATCH * SIDE, 3), "uint8")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def linear(name, outputs, inputs, *more):
    return {f"{name}.weight": (outputs, inputs, *more), f"{name}.bias": (outputs,)}


def norm(name):
    return {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}


def random(shapes):
    return {name: RNG.normal(0, 0.3, shape).astype("float32") for name, shape in shapes.items()}


def vit(pooling="cls"):
    """Return random tensors, named as in timm's vision transformer."""
    tokens = SIDE**2 + (pooling == "cls")
    shapes = {"pos_embed": (1, tokens, WIDTH), **linear("patch_embed.proj", WIDTH, 3, PATCH, PATCH)}
    shapes |= {"cls_token": (1, 1, WIDTH), **norm("norm")} if pooling == "cls" else norm("fc_norm")
    for name in (f"blocks.{index}" for index in range(DEPTH)):
        shapes |= norm(f"{name}.norm1") | linear(f"{name}.attn.qkv", 3 * WIDTH, WIDTH)
        shapes |= linear(f"{name}.attn.proj", WIDTH, WIDTH) | norm(f"{name}.norm2")
        shapes |= linear(f"{name}.mlp.fc1", 20, WIDTH) | linear(f"{name}.mlp.fc2", WIDTH, 20)
    return random({**shapes, **linear("head", CLASSES, WIDTH)})


def mixer():
    """Return random tensors, named as in timm's MLP-Mixer. Its MLPs have 6 and 20 units."""
    shapes = linear("stem.proj", WIDTH, 3, PATCH, PATCH)
    for name in (f"blocks.{index}" for index in range(DEPTH)):
        shapes |= norm(f"{name}.norm1") | linear(f"{name}.mlp_tokens.fc1", WIDTH // 2, SIDE**2)
        shapes |= linear(f"{name}.mlp_tokens.fc2", SIDE**2, WIDTH // 2) | norm(f"{name}.norm2")
        shapes |= linear(f"{name}.mlp_channels.fc1", 20, WIDTH)
        shapes |= linear(f"{name}.mlp_channels.fc2", WIDTH, 20)
    return random({**shapes, **norm("norm"), **linear("head", CLASSES, WIDTH)})


def dense(x, t, name):
    return x @ t[f"{name}.weight"].T + t[f"{name}.bias"]


def normed(x, t, name):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return x * t[f"{name}.weight"] + t[f"{name}.bias"]


def mlp(x, t, name):
    hidden = dense(x, t, f"{name}.fc1")
    hidden = hidden * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2))) / 2
    return dense(hidden, t, f"{name}.fc2")


def patches(t, name, mean, std):
    """Apply the patch convolution. The stride equals the kernel size."""
    images = (IMAGES / 255 - mean) / std
    tokens = []
    for row in range(0, PATCH * SIDE, PATCH):
        for column in range(0, PATCH * SIDE, PATCH):
            patch = images[:, row : row + PATCH, column : column + PATCH]
            tokens.append(np.einsum("brci,oirc->bo", patch, t[f"{name}.weight"]))
    return np.stack(tokens, axis=1) + t[f"{name}.bias"]


def attend(x, t, name, heads):
    q, k, v = np.split(dense(x, t, f"{name}.qkv"), 3, axis=-1)
    q, k, v = (part.reshape(*x.shape[:2], heads, -1) for part in (q, k, v))
    scores = np.exp(np.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1]))
    scores /= scores.sum(-1, keepdims=True)
    return dense(np.einsum("bhqk,bkhd->bqhd", scores, v).reshape(x.shape), t, f"{name}.proj")


def numpy_vit(tensors, heads, mean=0.5, std=0.5):
    """Return the outputs of the blocks and the logits."""
    t = {name: value.astype("float64") for name, value in tensors.items()}
    x = patches(t, "patch_embed.proj", mean, std)
    if "cls_token" in t:
        x = np.concatenate([np.repeat(t["cls_token"], len(x), axis=0), x], axis=1)
    x, features = x + t["pos_embed"], []
    for name in (f"blocks.{index}" for index in range(DEPTH)):
        x = x + attend(normed(x, t, f"{name}.norm1"), t, f"{name}.attn", heads)
        x = x + mlp(normed(x, t, f"{name}.norm2"), t, f"{name}.mlp")
        features.append(x)
    if "cls_token" in t:
        return features, dense(normed(x, t, "norm")[:, 0], t, "head")
    return features, dense(normed(x.mean(1), t, "fc_norm"), t, "head")


def numpy_mixer(tensors, mean=0.5, std=0.5):
    t = {name: value.astype("float64") for name, value in tensors.items()}
    x, features = patches(t, "stem.proj", mean, std), []
    for name in (f"blocks.{index}" for index in range(DEPTH)):
        mixed = mlp(normed(x, t, f"{name}.norm1").swapaxes(1, 2), t, f"{name}.mlp_tokens")
        x = x + mixed.swapaxes(1, 2)
        x = x + mlp(normed(x, t, f"{name}.norm2"), t, f"{name}.mlp_channels")
        features.append(x)
    return features, dense(normed(x, t, "norm").mean(1), t, "head")


def write(folder, tensors, **config):
    write_safetensors(folder / "model.safetensors", {k: ("F32", v) for k, v in tensors.items()})
    if config:
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def check(model, expected):
    features, logits = expected
    for ours, wanted in zip(model.features(IMAGES), features, strict=True):
        assert_close(to_numpy(ours), wanted, kind="model")
    assert_close(to_numpy(model(IMAGES)), logits, kind="model")


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_vit_matches_numpy(pooling, tmp_path):
    tensors = vit(pooling)
    model = ViT.from_timm(write(tmp_path, tensors), num_heads=3)
    assert model.get_config()["pooling"] == pooling
    check(model, numpy_vit(tensors, heads=3))


def test_mixer_matches_numpy(tmp_path):
    tensors = mixer()
    model = MLPMixer.from_timm(write(tmp_path, tensors))
    check(model, numpy_mixer(tensors))
    model.save_to_preset(tmp_path / "preset")
    again = MLPMixer.from_preset(tmp_path / "preset")
    assert_close(to_numpy(again(IMAGES)), to_numpy(model(IMAGES)))
    larger = MLPMixer.from_preset(tmp_path / "preset", image_size=2 * PATCH * SIDE)
    blocks = IMAGES.reshape(2, SIDE, 1, PATCH, SIDE, 1, PATCH, 3).repeat(2, 2).repeat(2, 5)
    repeated = blocks.reshape(2, 2 * PATCH * SIDE, 2 * PATCH * SIDE, 3)  # each patch 2 x 2 times
    assert_close(to_numpy(larger(repeated)), to_numpy(model(IMAGES)), kind="model")


@pytest.mark.once
def test_mean_and_std_from_config(tmp_path):
    tensors = mixer()
    config = dict(architecture="mixer_b16_224", pretrained_cfg=dict(mean=MEAN, std=STD))
    model = MLPMixer.from_timm(write(tmp_path, tensors, **config) / "model.safetensors")
    check(model, numpy_mixer(tensors, MEAN, STD))


@pytest.mark.once
def test_missing_or_replaced_head(tmp_path):
    tensors = {name: value for name, value in vit().items() if "head" not in name}
    with pytest.raises(ValueError, match="`num_classes` must be given"):
        ViT.from_timm(write(tmp_path, tensors), num_heads=3)
    for given in (tensors, vit()):
        model = ViT.from_timm(write(tmp_path, given), num_heads=3, num_classes=2)
        assert model.output_shape == (None, 2)
        assert not any(to_numpy(weight).any() for weight in model.get_layer("head").weights)


@pytest.mark.once
def test_swap_mixer_after_conversion(tmp_path):
    model = ViT.from_timm(write(tmp_path, vit("mean")), num_heads=3)
    swapped = swap_mixer(model, {"name": "csp", "ragged": True})
    kernel = model.get_layer("block_0").mixer.qkv_dense.kernel
    value = swapped.get_layer("block_0").mixer.value_dense.kernel
    np.testing.assert_array_equal(to_numpy(value), to_numpy(kernel)[:, -WIDTH:])


def changed(**tensors):
    """Return the tensors of a vision transformer with replacements. `None` removes a tensor."""
    names = {name.replace("__", "."): value for name, value in tensors.items()}
    made = {name: value for name, value in vit().items() if names.get(name, 0) is not None}
    return {**made, **{name: value for name, value in names.items() if value is not None}}


@pytest.mark.once
@pytest.mark.parametrize(
    ("tensors", "arguments", "message"),
    [
        (changed(reg_token=np.ones((1, 4, WIDTH), "f4")), {}, "unsupported=.'reg_token"),
        (changed(blocks__1__ls1__gamma=np.ones(WIDTH, "f4")), {}, "blocks.1.ls1.gamma"),
        (changed(blocks__1__norm2__bias=None), {}, "missing=.'block_1/mlp_norm/beta"),
        (changed(pos_embed=None), {}, "missing=.'pos_embed'.*patches=.12, 3, 4, 4"),
        (changed(cls_token=None), {}, "The head must read.*cls_token=False, fc_norm=False"),
        (changed(norm__bias=np.ones(3, "f4")), {}, "another shape=.'head_norm/beta"),
        (vit(), dict(num_heads=None), "`num_heads` must be a positive.*num_heads=None"),
        (changed(head__bias=None), {}, "missing=.'head/bias"),
        (vit(), dict(num_classes=0), "`num_classes` must be a positive integer"),
        (vit(), dict(hidden_dim=3), "The file of timm sets .*'hidden_dim'"),
        (vit(), dict(hidden_dmi=3), "accepts .*Did you mean `hidden_dim`"),
        (mixer(), {}, "a model of this kind.*missing=.'patch_embed.proj.weight"),
    ],
)
def test_unsupported_tensors_or_arguments_raise(tensors, arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        ViT.from_timm(write(tmp_path, tensors), **{"num_heads": 3, **arguments})


@pytest.mark.once
def test_permuting_classes_raise_with_suggestion(tmp_path):
    with pytest.raises(ValueError, match="use `swap_mixer`.*CSPViT.from_timm"):
        CSPViT.from_timm(write(tmp_path, vit()), num_heads=3)
    with pytest.raises(ValueError, match="must be called on MLPMixer.*ButterflyMixer"):
        ButterflyMixer.from_timm(write(tmp_path, mixer()))
    with pytest.raises(FileNotFoundError, match="vit_tiny"):
        ViT.from_timm("vit_tiny")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_args": {"img_size": [8, 18]}}, r"images of \[8, 18\]"),
        ({"pretrained_cfg": {"input_size": [3, 4, 36]}}, r"9 patches, images of \[4, 36\]"),
        ({"global_pool": "avg"}, "global_pool='avg', cls_token=True, fc_norm=False"),
        ({"global_pool": "map"}, "global_pool='map'"),
        ({"model_args": {"global_pool": "avg", "fc_norm": False}}, "global_pool='avg'"),
        ({"model_args": {"act_layer": "quick_gelu"}}, "gelu. Received: .* and quick_gelu"),
        ({"architecture": "vit_base_patch32_clip_quickgelu_224"}, "and quick_gelu"),
    ],
)
def test_unsupported_config_raises(config, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        ViT.from_timm(write(tmp_path, vit(), **config), num_heads=3)


@pytest.mark.parametrize("channels", [1, 4])
def test_channels_and_heads_from_config(channels, tmp_path):
    tensors = vit()
    tensors["patch_embed.proj.weight"] = tensors["patch_embed.proj.weight"][:, [0] * channels]
    arguments = dict(
        num_heads=3, img_size=PATCH * SIDE, patch_size=[PATCH, PATCH], in_chans=channels,
        mlp_ratio=20 / WIDTH, embed_dim=WIDTH, depth=DEPTH, drop_path_rate=0.1, act_layer="gelu",
        norm_layer=None, qkv_bias=True, init_values=None, reg_tokens=0, dynamic_img_size=True,
    )  # fmt: skip
    cfg = dict(mean=[0.4] * channels, std=[0.2] * channels, input_size=[3, 12, 12])
    folder = write(
        tmp_path, tensors, global_pool="token", num_features=WIDTH, num_classes=CLASSES,
        model_args=arguments, pretrained_cfg=cfg,
    )  # fmt: skip
    config = ViT.from_timm(folder).get_config()
    assert (config["channels"], config["mixer"]["num_heads"]) == (channels, 3)
    assert (config["mean"], config["std"]) == ([0.4] * channels, [0.2] * channels)


def test_mlp_mixer_config_is_checked(tmp_path):
    folder = write(tmp_path, mixer(), model_args={"act_layer": "silu"}, global_pool="avg")
    with pytest.raises(ValueError, match="and silu"):
        MLPMixer.from_timm(folder)
    arguments = dict(num_blocks=DEPTH, mlp_ratio=[0.5, 20 / WIDTH], img_size=12)
    assert MLPMixer.from_timm(write(tmp_path, mixer(), model_args=arguments, global_pool="avg"))
