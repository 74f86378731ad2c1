"""Draw residuals and spectra of the tokens of three pretrained models.

    python examples/mixing_figures.py [--out FOLDER] [--images NUMBER]

The models were trained on CIFAR-10 with the same recipe. They mix tokens by attention, CSP and
sorting. For test images, the script draws

* the residual of the tokens, which is zero if all are equal, over the depth of the models;
* the residual for stacks of only the mixers, without skip connections and channel mixers;
* the singular values of the outputs of the first and the last mixer;
* the bound of Theorem 1 of the CSP paper for a stack of CSP layers.
"""

import argparse
from pathlib import Path

from keras_permix.analysis import (
    plot_rank_residual,
    plot_residual_bound,
    plot_singular_spectrum,
    rank_residual,
    residual_bound,
    token_norm,
)
from keras_permix.data import load_sheet
from keras_permix.zoo import CSPViT, SliceViT, ViT

import keras
import numpy as np
from matplotlib.figure import Figure

IMAGES = Path(__file__).parent / "images" / "cifar10_test.png"
PRESET = "cifar10_small"
MODELS = {"attention": ViT, "CSP": CSPViT, "sorting": SliceViT}


def blocks_of(model):
    return [layer for layer in model.layers if layer.name.startswith("block_")]


def tokens_by_depth(model, images):
    """Return the tokens before the first block and after each block."""
    embedded = keras.Model(model.input, blocks_of(model)[0].input)(images)
    return [embedded, *model.features(images)]


def mixed_by_depth(model, token_maps):
    """Return the output of each block's mixer in the model."""
    pairs = zip(blocks_of(model), token_maps[:-1], strict=True)
    return [block.mixer(block.mixer_norm(tokens)) for block, tokens in pairs]


def stack_mixers(model, tokens):
    """Stack only the mixers of the model, and return the tokens before and after each."""
    token_maps = [tokens]
    for block in blocks_of(model):
        token_maps.append(block.mixer(token_maps[-1]))
    return token_maps


def stack_permutations(model, tokens):
    """Do the same with only the value projections and permutations, as in Theorem 1."""
    token_maps = [tokens]
    for block in blocks_of(model):
        token_maps.append(block.mixer.mix(block.mixer.value_dense(token_maps[-1])))
    return token_maps


def draw(models, images, path):
    """Draw the four panels and print the residuals."""
    figure = Figure(figsize=(11, 8), layout="constrained")
    (whole, alone), (spectra, bound) = figure.subplots(2, 2)
    for color, (name, model) in enumerate(models.items()):
        style = {"label": name, "color": f"C{color}"}
        token_maps = tokens_by_depth(model, images)
        plot_rank_residual(whole, token_maps, **style)
        stacked = stack_mixers(model, token_maps[0])
        plot_rank_residual(alone, stacked, **style)
        mixed = mixed_by_depth(model, token_maps)
        plot_singular_spectrum(spectra, mixed[0], **{**style, "label": f"{name}, first block"})
        last = {**style, "label": f"{name}, last block", "linestyle": "--"}
        plot_singular_spectrum(spectra, mixed[-1], **last)
        print(
            f"{name:>9}: residual {share(token_maps[-1]):.2f} of the tokens after the model, "
            f"{share(stacked[-1]):.2f} after a stack of its mixers"
        )
    permuted = stack_permutations(models["CSP"], tokens_by_depth(models["CSP"], images)[0])
    kernels = [block.mixer.value_dense.kernel for block in blocks_of(models["CSP"])]
    bounds = residual_bound(permuted[0], kernels)
    plot_residual_bound(bound, permuted, bounds, label="values permuted by CSP", color="C1")
    whole.set_title("whole models: residual of the tokens")
    alone.set_title("only their mixers, stacked")
    spectra.set_title("singular values of the mixers' outputs")
    bound.set_title("CSP without skip connections, far below its bound")
    for ax in (whole, alone):
        ax.set_ylim(bottom=0)
    for ax in (whole, alone, spectra, bound):
        ax.legend()
        ax.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    print(f"picture: {path}")


def share(tokens):
    """Return the mean norm of the residual, relative to that of the tokens."""
    return np.mean(token_norm(rank_residual(tokens)) / token_norm(tokens))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the picture")
    parser.add_argument("--images", type=int, default=64, help="how many test images to use")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    print(f"Keras {keras.__version__} on {keras.config.backend()}")
    images, _, _ = load_sheet(IMAGES)
    models = {name: model.from_preset(PRESET) for name, model in MODELS.items()}
    draw(models, images[: arguments.images], arguments.out / "mixing_figures.png")


if __name__ == "__main__":
    main()
