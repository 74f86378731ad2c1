"""Swap a trained ViT's attention for CSP, block by block, and fine-tune after each swap.

    python examples/swap_mixer.py [--data-dir FOLDER] [--steps 390] [--last 3900] [--mixer csp]

Blocks are swapped from the last to the first. After each swap, the model is fine-tuned on CIFAR-10,
longer after the last one. Accuracy is measured on test images before and after fine-tuning. The
projections of values and outputs are kept, those of queries and keys are removed. `--smoke` uses a
few generated images instead.
"""

import argparse

from keras_permix import swap_mixer
from keras_permix.data import Augmentation, Pipeline, generated_images, load_images
from keras_permix.zoo import ViT

import keras
import numpy as np

AUGMENTATION = dict(crop_padding=4, flip=True, mixup=0.2, cutmix=1.0)  # that of the preset


def accuracy(model, images, labels):
    """Return the accuracy in percent."""
    answers = model.predict(images, batch_size=256, verbose=0).argmax(axis=1)
    return 100 * np.mean(answers == labels)


def fine_tune(model, images, labels, steps, rate, batch_size, seed):
    """Train for a number of steps on mixed images, with Muon and cosine decay to zero."""
    rate = keras.optimizers.schedules.CosineDecay(rate, steps)
    optimizer = keras.optimizers.Muon(
        rate, adam_lr_ratio=0.5, adam_beta_2=0.99, weight_decay=0.05, exclude_layers=["head"]
    )
    loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    model.compile(optimizer, loss)
    batches = Pipeline(
        images, labels, batch_size=batch_size, shuffle=True, seed=seed, drop_remainder=True,
        steps=steps, augment=Augmentation(AUGMENTATION, seed, 10),  # also makes labels soft
    )  # fmt: skip
    model.fit(batches, verbose=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder of CIFAR-10; else KERAS_PERMIX_DATA or download")
    parser.add_argument("--steps", type=int, default=390, help="steps after each swap")
    parser.add_argument("--last", type=int, default=3900, help="steps after the last swap")
    parser.add_argument("--rate", type=float, default=3e-3, help="initial learning rate")
    parser.add_argument("--mixer", default="csp", help="a name of layers.mixers.MIXERS")
    parser.add_argument("--dtype", default="float32", help="mixed_bfloat16 is faster on PyTorch")
    parser.add_argument("--images", type=int, default=2000, help="test images to measure with")
    parser.add_argument("--smoke", action="store_true", help="a few generated images")
    arguments = parser.parse_args()

    steps, last, batch_size = arguments.steps, arguments.last, 128
    if arguments.smoke:
        data, steps, last, batch_size = generated_images((32, 32, 3), 10, count=32), 1, 2, 16
    else:
        data = load_images("cifar10", data_dir=arguments.data_dir)
    (images, labels), test = data.train, [array[: arguments.images] for array in data.test]

    model = ViT.from_preset("cifar10_small", dtype=arguments.dtype)
    depth = model.get_config()["num_layers"]
    print(f"attention in {depth} blocks: {accuracy(model, *test):.1f} % top-1", flush=True)
    for block in reversed(range(depth)):
        model = swap_mixer(model, arguments.mixer, layers=[block])
        swapped = accuracy(model, *test)
        count = steps if block else last
        fine_tune(model, images, labels, count, arguments.rate, batch_size, seed=block)
        print(
            f"{arguments.mixer} from block {block} on: {model.count_params():,} parameters, "
            f"{swapped:.1f} % top-1, {accuracy(model, *test):.1f} % after {count} steps",
            flush=True,
        )


if __name__ == "__main__":
    main()
