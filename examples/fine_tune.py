"""Fine-tune a model pretrained on Tiny ImageNet, and compare it with training from scratch.

    pip install scikit-image scikit-learn
    python examples/fine_tune.py [--data-dir FOLDER] [--steps 150]

`cspvit/tiny_imagenet` and the same model with new weights are trained for the same number of AdamW
steps on two tasks:

* a part of CIFAR-10, enlarged from 32 to 64 pixels;
* crops of 96 pixels from ten photographs of scikit-image and scikit-learn, classified by
  photograph. The models are trained on 24 crops of each left half and tested on 12 of each right
  half. The position table and the steps of the permutations are resized to 96 pixels.

`--smoke` uses a few generated images and the tiny preset of the tests instead.
"""

import argparse
from importlib.resources import files

from keras_permix.data import Augmentation, Pipeline, generated_images, load_images, read_image
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
    """Return the photographs, uint8 arrays `(height, width, 3)`."""
    return [
        read_image(files(package) / name) for package, names in PHOTOS.items() for name in names
    ]


def crops(photos, size, count, seed):
    """Crop the photographs at random and return two parts `(images, labels)`.

    The first has `count` crops of each left half, the second half as many of each right half.
    """
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
    """Return the accuracy in percent."""
    answers = model.predict(images, batch_size=64, verbose=0).argmax(axis=1)
    return 100 * np.mean(answers == labels)


def train(model, images, labels, classes, batch_size, steps):
    """Train for a number of steps with AdamW and cosine decay to zero."""
    batches = Pipeline(
        images, labels, batch_size=batch_size, shuffle=True, seed=0, steps=steps,
        augment=Augmentation(dict(crop_padding=8, flip=True), 0, classes),
    )  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(1e-3, steps)), loss)
    model.fit(batches, verbose=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder of CIFAR-10; else KERAS_PERMIX_DATA or download")
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
        for start, load_weights in (("pretrained", True), ("from scratch", False)):
            keras.utils.set_random_seed(0)
            model = CSPViT.from_preset(
                preset, num_classes=classes, image_size=side, load_weights=load_weights
            )
            train(model, *learned, classes, batch_size, count)
            right = accuracy(model, *measured)
            print(
                f"{name} at {side} pixels, {start}: {right:.1f} % top-1 after {count} steps of "
                f"{batch_size} images",
                flush=True,
            )


if __name__ == "__main__":
    main()
