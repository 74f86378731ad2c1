"""Convert a trained ViT to CSP: swap its attention, then distill the ViT into the copy.

    python examples/distill.py [--data-dir FOLDER] [--images 10000] [--epochs 3] [--mixer csp]

All blocks are swapped at once. The copy learns the ViT's hidden states and logits on training
images of CIFAR-10, randomly cropped and flipped, without labels. Accuracy is measured on test
images before and after. `--smoke` uses a few generated images instead.
"""

import argparse

from keras_permix import distill, swap_mixer
from keras_permix.data import Pipeline, generated_images, load_images, make_augmentation
from keras_permix.zoo import ViT

import keras
import numpy as np


def accuracy(model, images, labels):
    """Return the accuracy in percent."""
    logits = model.predict(images, batch_size=256, verbose=0)
    return 100 * np.mean(logits.argmax(axis=1) == labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder of CIFAR-10; else KERAS_PERMIX_DATA or download")
    parser.add_argument("--images", type=int, default=10_000, help="training images")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--rate", type=float, default=2e-3, help="initial learning rate")
    parser.add_argument("--mixer", default="csp", help="a name of layers.mixers.MIXERS")
    parser.add_argument("--test-images", type=int, default=10_000)
    parser.add_argument("--smoke", action="store_true", help="a few generated images")
    arguments = parser.parse_args()

    if arguments.smoke:
        data = generated_images((32, 32, 3), 10, count=32)
        arguments.images, arguments.epochs, arguments.batch_size = 32, 1, 16
    else:
        data = load_images("cifar10", data_dir=arguments.data_dir)
    images, labels = (array[: arguments.images] for array in data.train)
    test = [array[: arguments.test_images] for array in data.test]

    keras.utils.set_random_seed(0)
    teacher = ViT.from_preset("cifar10_small")
    print(f"attention: {accuracy(teacher, *test):.1f} % top-1", flush=True)
    student = swap_mixer(teacher, arguments.mixer)
    print(f"{arguments.mixer}, swapped: {accuracy(student, *test):.1f} % top-1", flush=True)
    batches = Pipeline(
        images, labels, batch_size=arguments.batch_size, shuffle=True, seed=0, drop_remainder=True,
        augment=make_augmentation(dict(crop_padding=4, flip=True), 0, 10),
    )  # fmt: skip
    steps = arguments.epochs * len(batches)
    rate = keras.optimizers.schedules.CosineDecay(arguments.rate, steps)
    optimizer = keras.optimizers.AdamW(rate, weight_decay=0.05)
    distill(student, teacher, batches, optimizer=optimizer, epochs=arguments.epochs, verbose=2)
    print(
        f"{arguments.mixer}, distilled: {accuracy(student, *test):.1f} % top-1 after {steps} "
        f"steps of {arguments.batch_size} images",
        flush=True,
    )


if __name__ == "__main__":
    main()
