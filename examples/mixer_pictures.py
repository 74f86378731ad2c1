"""Draw which input tokens affect which output tokens, one picture per mixer.

    python examples/mixer_pictures.py [--out FOLDER]

Row n, column m is dark where output token n changes when input token m is perturbed. The layers are
untrained and receive 36 tokens of 32 channels. For PatchOnlyMixer, the tokens are the pixels of a 6
by 6 image, for GraphormerBlock the nodes of a ring. Butterflies of channels are applied along the
tokens here. ButterflyLinear, which is initialized as the identity, has random kernels.
"""

import argparse
from pathlib import Path

from keras_permix.analysis import influence_map, plot_influence_map
from keras_permix.layers import (
    CSP,
    ButterflyAttention,
    ButterflyBlock,
    ButterflyLinear,
    ButterflyLinearMLP,
    ButterflyMLP,
    CausalCSP,
    DampedEMA,
    FourierMixer,
    GraphormerBlock,
    LinearAttention,
    LinformerAttention,
    LocalAttention,
    MegaBlock,
    MLPMixerBlock,
    PatchOnlyMixer,
    PerformerAttention,
    SimpleAttention,
    SinkhornCSP,
    SliceSort,
    SoftmaxAttention,
)

import keras
import numpy as np
from matplotlib.figure import Figure

TOKENS, CHANNELS = 36, 32
SIDE = 6  # of an image with 36 pixels


def butterfly(stages):
    """Apply attention in blocks of 6 tokens, one stage after the other."""
    blocks = [ButterflyBlock(SoftmaxAttention(4), SIDE, stage) for stage in range(stages)]
    return keras.Sequential(blocks)


def on_pixels(layer):
    """Apply a layer of images to tokens."""
    shape = (SIDE, SIDE, CHANNELS)
    return keras.Sequential(
        [keras.layers.Reshape(shape), layer, keras.layers.Reshape((TOKENS, CHANNELS))]
    )


def along_tokens(layer):
    """Apply a layer of channels along the tokens."""
    swap = keras.layers.Permute((2, 1))
    return keras.Sequential([swap, layer, keras.layers.Permute((2, 1))])


def random_kernels(layer):
    """Build a layer with random weights."""
    layer.build((1, CHANNELS, TOKENS))
    for weight in layer.weights:
        weight.assign(keras.random.normal(weight.shape))
    return layer


def on_a_ring(block, num_heads):
    """Apply a Graphormer block with a bias that falls with the distance on a ring."""
    node = np.arange(TOKENS)
    apart = abs(node[:, None] - node)
    distance = np.minimum(apart, TOKENS - apart).astype("float32")
    bias = np.broadcast_to(-distance, (1, num_heads, TOKENS, TOKENS))
    return lambda tokens: block(keras.ops.convert_to_tensor(tokens), bias)


MIXERS = {
    "csp": lambda: CSP(),
    "causal_csp": lambda: CausalCSP(delays=18),
    "slice_sort": lambda: SliceSort(),
    "sinkhorn_csp": lambda: SinkhornCSP(temperature=0.5, group_size=12),
    "simple_attention": lambda: SimpleAttention(4),
    "butterfly_one_stage": lambda: butterfly(1),
    "butterfly_two_stages": lambda: butterfly(2),
    "butterfly_mlp": lambda: along_tokens(ButterflyMLP(SIDE)),
    "butterfly_linear": lambda: along_tokens(random_kernels(ButterflyLinear(SIDE))),
    "butterfly_linear_mlp": lambda: along_tokens(ButterflyLinearMLP()),
    "mlp_mixer_block": lambda: MLPMixerBlock(),
    "patch_only": lambda: on_pixels(PatchOnlyMixer((2, 3))),
    "damped_ema": lambda: DampedEMA(),
    "mega_block": lambda: MegaBlock(shared_dim=16, attention={"chunk_size": 12}),
    "graphormer_block": lambda: on_a_ring(GraphormerBlock(num_heads=4), 4),
    "softmax_attention": lambda: SoftmaxAttention(4),
    "butterfly_attention": lambda: ButterflyAttention(4, SIDE, layer_index=1, num_layers=2),
    "linear_attention": lambda: LinearAttention(4),
    "performer_attention": lambda: PerformerAttention(4),
    "linformer_attention": lambda: LinformerAttention(4),
    "local_attention": lambda: LocalAttention(4, SIDE),
    "fourier_mixer": lambda: FourierMixer(),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the pictures")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    keras.utils.set_random_seed(0)
    tokens = np.random.default_rng(0).normal(size=(1, TOKENS, CHANNELS)).astype("float32")
    for name, make in MIXERS.items():
        influence = influence_map(make(), tokens)
        figure = Figure(figsize=(2.4, 2.4), layout="constrained")
        plot_influence_map(figure.subplots(), influence)
        figure.savefig(arguments.out / f"{name}.png", dpi=80)
        count = np.mean(np.sum(influence > 1e-6, axis=1))
        print(f"{name}: an output depends on {count:.1f} tokens")
    print(f"pictures: {arguments.out}")


if __name__ == "__main__":
    main()
