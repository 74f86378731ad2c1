"""Classify images with a pretrained CSPViT, fine-tune it, save it and load it again.

    python examples/quickstart.py [--out FOLDER] [--preset NAME]

It takes about a minute on two CPU cores and reads only files of the repository.
"""

import argparse
from pathlib import Path

from keras_permix.analysis import permutation_maps, plot_permutation_maps
from keras_permix.data import load_sheet
from keras_permix.zoo import CSPViT

import keras
import numpy as np
from matplotlib.figure import Figure

IMAGES = Path(__file__).parent / "images"
CAT, DOG = 3, 5


def classify(model, images, labels):
    """Predict the classes of images, print the accuracy, and return the classes."""
    predicted = model.predict(images, verbose=0).argmax(axis=-1)
    print(f"{len(images)} CIFAR-10 test images: {100 * np.mean(predicted == labels):.1f} % top-1")
    return predicted


def draw(model, images, labels, predicted, names, path):
    """Draw images with their predictions, and the permutations of one layer for the first."""
    block = model.get_layer("block_1")
    tokens = model.features(images[:1], layers=[0])[0]
    channels = [1, 2, 5, 10, 20, 31]
    maps = permutation_maps(block.mixer, block.mixer_norm(tokens), channels)[0]

    figure = Figure(figsize=(10, 6.2), layout="constrained")
    pictures, dots = figure.subfigures(2, 1, height_ratios=(2, 1))
    for index, ax in enumerate(pictures.subplots(3, 8).flat):
        right = predicted[index] == labels[index]
        ax.imshow(images[index])
        ax.set_title(names[predicted[index]], fontsize=9, color="green" if right else "red")
        ax.axis("off")
    dots.suptitle("permutations of the first image's tokens by block 1: six of its channels")
    axes = dots.subplots(1, len(channels))
    plot_permutation_maps(axes, maps)
    for ax, channel in zip(axes, channels, strict=True):
        ax.set_title(f"channel {channel}", fontsize=9)
    figure.savefig(path, dpi=110)
    print(f"picture: {path}")


def fine_tune(preset, images, labels):
    """Replace the head with one for cats and dogs and train the model for an epoch."""
    chosen = np.isin(labels, (CAT, DOG))
    images, labels = images[chosen], (labels[chosen] == DOG).astype("int32")
    model = CSPViT.from_preset(preset, num_classes=2)
    model.compile(
        optimizer=keras.optimizers.AdamW(3e-4),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    print(f"\nfine-tuning on {len(images)} images of cats and dogs:")
    model.fit(images, labels, batch_size=8, epochs=1)
    return model, images


def save_and_reload(model, images, folder):
    """Save as a preset, load it again, and compare the logits."""
    model.save_to_preset(folder)
    again = CSPViT.from_preset(folder)
    difference = np.abs(model.predict(images, verbose=0) - again.predict(images, verbose=0)).max()
    print(f"saved to {folder} and loaded again: logits differ by at most {difference:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of the results")
    parser.add_argument(
        "--preset", default="cifar10_small", help="CSPViT for CIFAR-10: name or folder"
    )
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    print(f"Keras {keras.__version__} on {keras.config.backend()}")
    images, labels, names = load_sheet(IMAGES / "cifar10_test.png")
    model = CSPViT.from_preset(arguments.preset)
    predicted = classify(model, images, labels)
    draw(model, images, labels, predicted, names, arguments.out / "quickstart.png")
    tuned, pets = fine_tune(arguments.preset, images, labels)
    save_and_reload(tuned, pets, arguments.out / "cats_and_dogs")
    print(
        "\nNext: `permix list` lists all presets, `permix predict cspvit/cifar10_small IMAGE` "
        "classifies your\nimages, `permix train cspvit/cifar10_small` trains the model from "
        "scratch, and `permix bench ops`\nmeasures the operators on this machine."
    )


if __name__ == "__main__":
    main()
