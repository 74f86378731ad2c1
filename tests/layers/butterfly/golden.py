"""Convert the authors' weights of a Butterfly ViT and a Patch-Only mixer to our layers."""

import numpy as np

from keras_permix.layers import MixerBlock, SoftmaxAttention


def host(norm_first=False, **arguments):
    """Return a Transformer layer as in section 5.5 of the paper (Butterfly ViT or LRA)."""
    attention = SoftmaxAttention(2, use_qkv_bias=True, **arguments)
    return MixerBlock(attention, mlp_dim=16, norm_first=norm_first)


def golden_host(golden, layer):
    """Return a built host with the weights of a layer of `butterfly_attention.npz`."""
    block = host()
    block.build((None, 4, 8))
    w = {name[3:]: value for name, value in golden.items() if name.startswith(f"t{layer}_")}
    block.mixer.set_weights(
        [
            np.concatenate([w[f"{part}_kernel"] for part in "qkv"], axis=-1),
            np.concatenate([w[f"{part}_bias"] for part in "qkv"]),
            w["out_kernel"],
            w["out_bias"],
        ]
    )
    for part, name in (
        (block.mixer_norm, "ln1"),
        (block.mlp_norm, "ln2"),
        (block.mlp_in, "ff_fc1"),
        (block.mlp_out, "ff_fc2"),
    ):
        kinds = ("gamma", "beta") if name.startswith("ln") else ("kernel", "bias")
        part.set_weights([w[f"{name}_{kind}"] for kind in kinds])
    return block


def patch_only_weights(golden):
    """Return the weights of `PatchOnlyMixer(3)` for two channels, from `mixers.npz`."""
    names = ("ln_gamma", "ln_beta", "fc1_kernel", "fc1_bias", "fc2_kernel", "fc2_bias")
    weights = {name: golden[f"patch_{name}"] for name in names}
    for name in ("ln_gamma", "ln_beta", "fc1_kernel", "fc2_bias"):
        weights[name] = from_channels_first(weights[name], 3, 2)
    weights["fc2_kernel"] = from_channels_first(weights["fc2_kernel"].T, 3, 2).T
    return [weights[name] for name in names]


def from_channels_first(array, size, channels):
    """Reorder features of patches from (channel, row, column) to (row, column, channel)."""
    cut = array.reshape(channels, size, size, *array.shape[1:])
    return np.moveaxis(cut, 0, 2).reshape(array.shape)
