"""Fine-tune a pretrained model on larger images, and compare it with training from scratch.

    python examples/another_size.py [--data-dir FOLDER] [--size 48] [--steps 100]

`from_preset(name, image_size=…)` resizes the position table of `cspvit/cifar10_small` and scales
the steps of its permutations. All other weights stay the same. The model enlarges CIFAR-10's images
of 32 pixels to `--size`. The pretrained model and one with new weights are trained for a number of
steps. Accuracy is measured on test images before and after. `--smoke` uses a few generated images
instead.
"""

import argparse

from keras_permix.data import Augmentation, Pipeline, generated_images, load_images
from keras_permix.zoo import CSPViT

import keras
import numpy as np


def accuracy(model, images, labels):
    """Return the accuracy in percent."""
    answers = model.predict(images, batch_size=256, verbose=0).argmax(axis=1)
    return 100 * np.mean(answers == labels)


def fine_tune(model, images, labels, batch_size, steps):
    """Train for a number of steps with AdamW and cosine decay to zero."""
    batches = Pipeline(
        images, np.eye(10, dtype="float32")[labels], batch_size=batch_size, shuffle=True, seed=0,
        steps=steps, augment=Augmentation(dict(crop_padding=4, flip=True), 0, 10),
    )  # fmt: skip
    rate = keras.optimizers.schedules.CosineDecay(1e-3, steps)
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(rate), loss)
    model.fit(batches, verbose=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder of CIFAR-10; else KERAS_PERMIX_DATA or download")
    parser.add_argument("--size", type=int, default=48, help="side of the images in pixels")
    parser.add_argument("--steps", type=int, default=100, help="steps of 128 images")
    parser.add_argument("--images", type=int, default=2000, help="test images to measure with")
    parser.add_argument("--smoke", action="store_true", help="a few generated images")
    arguments = parser.parse_args()

    steps, batch_size = arguments.steps, 128
    if arguments.smoke:
        data, steps, batch_size = generated_images((32, 32, 3), 10, count=32), 1, 16
    else:
        data = load_images("cifar10", data_dir=arguments.data_dir)
    test = [array[: arguments.images] for array in data.test]

    same_size = accuracy(CSPViT.from_preset("cifar10_small"), *test)
    print(f"32 pixels, pretrained: {same_size:.1f} % top-1", flush=True)
    for name, load_weights in (("pretrained at 32 pixels", True), ("from scratch", False)):
        keras.utils.set_random_seed(0)
        model = CSPViT.from_preset(
            "cifar10_small", image_size=arguments.size, load_weights=load_weights
        )
        before = accuracy(model, *test)
        fine_tune(model, *data.train, batch_size, steps)
        print(
            f"{arguments.size} pixels, {name}: {before:.1f} % top-1, "
            f"{accuracy(model, *test):.1f} % after {steps} steps",
            flush=True,
        )


if __name__ == "__main__":
    main()
