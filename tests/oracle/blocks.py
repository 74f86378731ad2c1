"""NumPy reference of a Transformer block around any mixer, in float64."""

from tests.oracle.butterfly import gelu, layer_norm


def mixer_block(x, mix, weights, norm_first=True, extra_skip=None, epsilon=1e-5):
    """Apply a block to tokens; `mix(tokens)` mixes them, `weights` holds lists by layer."""

    def norm(x, name):
        return layer_norm(x, *weights[name], epsilon)

    def mlp(x):
        kernel, bias = weights["mlp_in"]
        hidden = gelu(x @ kernel + bias)
        kernel, bias = weights["mlp_out"]
        return hidden @ kernel + bias

    if norm_first:
        mixed = x + mix(norm(x, "mixer_norm"))
        mixed = mixed + mlp(norm(mixed, "mlp_norm"))
    else:
        mixed = norm(x + mix(x), "mixer_norm")
        mixed = norm(mixed + mlp(mixed), "mlp_norm")
    return mixed + x if extra_skip == "block" else mixed


PARTS = ("mixer_norm", "mlp_norm", "mlp_in", "mlp_out")
