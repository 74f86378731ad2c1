"""A model trained on Tiny-ImageNet learns other images: what that gains over a fresh one.

    pip install scikit-image scikit-learn
    python examples/fine_tune.py [--data-dir FOLDER] [--steps 150]

`cspvit/tiny_imagenet` and a model of the same shape without its weights take the same steps of
AdamW on two sets: a part of CIFAR-10, whose 32 pixels the models enlarge to 64, and crops of 96
pixels of ten photographs that come with scikit-image and scikit-learn: of which one is a crop? The
models learn from 24 crops of the left half of each, and are measured on 12 of the right half. At 96
pixels the position table and the steps of the permutations are resized. `--smoke` takes a few
generated images and the tiny preset of the tests instead.
"""

import argparse
from importlib.resources import files

from keras_permix.data import Pipeline, generated_images, load_images, make_augmentation, read_image
from keras_permix.zoo import CSPViT

import keras
import numpy as np

PHOTOS = {
    "skimage.data": (
        "astronaut.png", "chelsea.png", "coffee.png", "hubble_deep_field.jpg", "ihc.png",
        "motorcycle_left.png", "retina.jpg", "rocket.jpg",
    ),
    "sklearn.datasets.images": ("china.jpg", "flower.jpg"),
}  # fmt: skip


def read_photos():
    """The photographs, uint8 arrays `(height, width, 3)`."""
    return [
        read_image(files(package) / name) for package, names in PHOTOS.items() for name in names
    ]


def crops(photos, size, count, seed):
    """Two parts, `(images, labels)`: of each photograph `count` crops of the left half, and half as
    many of the right half."""
    rng = np.random.default_rng(seed)
    parts = []
    for side, number in ((0, count), (1, count // 2)):
        images, labels = [], np.repeat(np.arange(len(photos)), number)
        for label in labels:
            height, width, _ = photos[label].shape
            half = width // 2
            top = rng.integers(height - size + 1)
            left = side * half + rng.integers(half - size + 1)
            images.append(photos[label][top : top + size, left : left + size])
        parts.append((np.stack(images), labels))
    return parts


def accuracy(model, images, labels):
    """Percent of the images that the model has right."""
    answers = model.predict(images, batch_size=64, verbose=0).argmax(axis=1)
    return 100 * np.mean(answers == labels)


def train(model, images, labels, classes, batch_size, steps):
    """So many steps of AdamW at a rate that falls to zero."""
    batches = Pipeline(
        images, labels, batch_size=batch_size, shuffle=True, seed=0, steps=steps,
        augment=make_augmentation(dict(crop_padding=8, flip=True), 0, classes),
    )  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(1e-3, steps)), loss)
    model.fit(batches, verbose=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder of CIFAR-10; else KERAS_PERMIX_DATA, or fetched")
    parser.add_argument("--steps", type=int, default=150, help="steps on CIFAR-10, of 64 images")
    parser.add_argument("--images", type=int, default=2000, help="test images of CIFAR-10")
    parser.add_argument("--smoke", action="store_true", help="a few generated images")
    arguments = parser.parse_args()

    preset, size, steps = "tiny_imagenet", 64, arguments.steps
    if arguments.smoke:
        preset, size, steps = "test", 16, 2
        small = generated_images((8, 8, 3), 10, count=32)
        photos = np.random.default_rng(0).integers(256, size=(3, 40, 100, 3), dtype="uint8")
    else:
        small = load_images("cifar10", data_dir=arguments.data_dir)
        photos = read_photos()
    test = [array[: arguments.images] for array in small.test]
    larger = size * 3 // 2
    sets = {
        "CIFAR-10": (10, size, small.train, test, 64, steps),
        "photographs": (len(photos), larger, *crops(photos, larger, 24, seed=0), 16, steps // 2),
    }
    for name, (classes, side, learned, measured, batch_size, count) in sets.items():
        for start, load_weights in (("trained before", True), ("fresh", False)):
            keras.utils.set_random_seed(0)
            model = CSPViT.from_preset(
                preset, num_classes=classes, image_size=side, load_weights=load_weights
            )
            train(model, *learned, classes, batch_size, count)
            right = accuracy(model, *measured)
            print(
                f"{name} at {side} pixels, {start}: {right:.1f} % right after {count} steps of "
                f"{batch_size} images",
                flush=True,
            )


if __name__ == "__main__":
    main()
