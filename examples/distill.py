"""Convert a trained ViT to CSP: swap its attention, then distill the ViT into the copy.

    python examples/distill.py [--data-dir FOLDER] [--images 10000] [--epochs 3] [--mixer csp]
    python examples/distill.py --keras-hub [--teacher-epochs 10] …

All blocks are swapped at once. The copy learns the ViT's hidden states and logits on training
images of CIFAR-10, randomly cropped and flipped, without labels. Accuracy is measured on test
images before and after. The ViT is a preset, or with `--keras-hub` one of KerasHub, which is
trained first. `--smoke` uses a few generated images instead.
"""

import argparse

from keras_permix import distill, swap_mixer
from keras_permix.data import Augmentation, Pipeline, generated_images, load_images
from keras_permix.zoo import ViT

import keras
import numpy as np


def accuracy(model, images, labels):
    """Return the accuracy in percent."""
    logits = model.predict(images, batch_size=256, verbose=0)
    return 100 * np.mean(logits.argmax(axis=1) == labels)


def adamw(rate, steps):
    return keras.optimizers.AdamW(
        keras.optimizers.schedules.CosineDecay(rate, steps), weight_decay=0.05
    )


def keras_hub_vit(batches, epochs):
    """Return a ViT of KerasHub with a custom head, trained on `batches`."""
    from keras_hub.models import ViTBackbone

    backbone = ViTBackbone(
        image_shape=(32, 32, 3), patch_size=4, num_layers=6, num_heads=4, hidden_dim=128,
        mlp_dim=256, name="backbone",
    )  # fmt: skip
    images = keras.Input((32, 32, 3))
    tokens = backbone(keras.layers.Rescaling(1 / 127.5, -1)(images))
    logits = keras.layers.Dense(10)(keras.layers.GlobalAveragePooling1D()(tokens))
    model = keras.Model(images, logits)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(adamw(1e-3, epochs * len(batches)), loss, metrics=["accuracy"])
    model.fit(batches, epochs=epochs, verbose=2)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder of CIFAR-10; else KERAS_PERMIX_DATA or download")
    parser.add_argument("--images", type=int, default=10_000, help="training images")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--rate", type=float, default=2e-3, help="initial learning rate")
    parser.add_argument("--mixer", default="csp", help="a name of layers.mixers.MIXERS")
    parser.add_argument("--keras-hub", action="store_true", help="train a ViT of KerasHub first")
    parser.add_argument("--teacher-epochs", type=int, default=10)
    parser.add_argument("--dtype", default="float32", help="dtype policy")
    parser.add_argument("--test-images", type=int, default=10_000)
    parser.add_argument("--smoke", action="store_true", help="a few generated images")
    arguments = parser.parse_args()

    if arguments.smoke:
        data = generated_images((32, 32, 3), 10, count=32)
        arguments.images, arguments.batch_size = 32, 16
        arguments.epochs = arguments.teacher_epochs = 1
    else:
        data = load_images("cifar10", data_dir=arguments.data_dir)
    images, labels = (array[: arguments.images] for array in data.train)
    test = [array[: arguments.test_images] for array in data.test]
    batches = Pipeline(
        images, labels, batch_size=arguments.batch_size, shuffle=True, seed=0, drop_remainder=True,
        augment=Augmentation(dict(crop_padding=4, flip=True), 0, 10),
    )  # fmt: skip

    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy(arguments.dtype)
    mixer, options = {"name": arguments.mixer}, {}
    if arguments.keras_hub:
        teacher = keras_hub_vit(batches, arguments.teacher_epochs)
        mixer["ragged"], options["layers"] = True, "backbone"  # 64 patches and a class token
    else:
        teacher = ViT.from_preset("cifar10_small", dtype=arguments.dtype)
    print(f"attention: {accuracy(teacher, *test):.1f} % top-1", flush=True)
    student = swap_mixer(teacher, mixer)
    print(f"{arguments.mixer}, swapped: {accuracy(student, *test):.1f} % top-1", flush=True)
    steps = arguments.epochs * len(batches)
    options |= dict(optimizer=adamw(arguments.rate, steps), epochs=arguments.epochs, verbose=2)
    distill(student, teacher, batches, **options)
    print(
        f"{arguments.mixer}, distilled: {accuracy(student, *test):.1f} % top-1 after {steps} "
        f"steps of {arguments.batch_size} images",
        flush=True,
    )


if __name__ == "__main__":
    main()
