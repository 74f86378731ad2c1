"""Compare seven ways to fine-tune a model by accuracy, time and memory.

    python examples/ways_to_train.py [--data-dir FOLDER] [--ways plain lora ema] [--images 6400]

`cspvit/cifar10_small` is fine-tuned on a part of MNIST, for one epoch:

* plain: AdamW on all weights.
* lora: updates of rank 4 in dense layers. Only these, the last norm and the head are trained.
* ema: the final weights are a moving average.
* bfloat16: computation in bfloat16, with weights in float32.
* float16: computation in float16. Keras scales the loss automatically.
* remat: the backward pass recomputes the blocks instead of storing their activations. Keras does
  not support this on TensorFlow.
* compiled: XLA compiles the whole step. Keras does this by default on JAX, and on TensorFlow with a
  GPU or TPU. On PyTorch, `torch.compile` compiles it, which takes minutes.

Timed steps alternate between the ways, and times are ratios. Memory is the peak of a step.
`--smoke` uses a few generated images.
"""

import argparse
import statistics
import time
from functools import partial

from keras_permix.bench.timing import peak_megabytes
from keras_permix.data import generated_images, load_images
from keras_permix.zoo import CSPViT

import keras
import numpy as np

BATCH = 64


def digits_model(dtype=None):
    """Load the pretrained model with a new head for the ten digits."""
    return CSPViT.from_preset("cifar10_small", dtype=dtype).reset_classifier(10)


def plain():
    return digits_model(), {}


def lora():
    model = digits_model()
    for weight in model.backbone.trainable_weights:
        weight.trainable = False
    for layer in model.backbone._flatten_layers():
        if isinstance(layer, keras.layers.Dense):
            layer.enable_lora(4)
    return model, {}


def ema():
    return digits_model(), dict(use_ema=True, ema_momentum=0.95)


def bfloat16():
    return digits_model("mixed_bfloat16"), {}


def float16():
    return digits_model("mixed_float16"), {}


def remat():
    with keras.RematScope(mode="full"):
        return digits_model(), {}


def compiled():
    return digits_model(), {}


WAYS = {way.__name__: way for way in (plain, lora, ema, bfloat16, float16, remat, compiled)}
if keras.backend.backend() == "tensorflow":
    del WAYS["remat"]


def made(way, steps):
    """Make a model, compiled with AdamW and cosine decay to zero."""
    keras.utils.set_random_seed(0)
    model, optimizer = WAYS[way]()
    rate = keras.optimizers.schedules.CosineDecay(1e-3, steps)
    model.compile(
        keras.optimizers.AdamW(rate, **optimizer),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=True if way == "compiled" else "auto",
    )
    return model


def accuracy(model, images, labels):
    """Return the accuracy in percent."""
    answers = model.predict(images, batch_size=256, verbose=0).argmax(axis=1)
    return 100 * np.mean(answers == labels)


def costs(models, images, labels, rounds):
    """Return seconds and megabytes per step of each model. Timed steps alternate."""
    batch = images[:BATCH], labels[:BATCH]
    steps = {way: partial(model.train_on_batch, *batch) for way, model in models}
    peaks = {way: peak_megabytes(step) for way, step in steps.items()}
    times = {way: [] for way in steps}
    for _ in range(rounds):
        for way, step in steps.items():
            start = time.perf_counter()
            step()
            times[way].append(time.perf_counter() - start)
    return {way: (statistics.median(times[way]), peaks[way]) for way in steps}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder of MNIST; else KERAS_PERMIX_DATA or download")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--images", type=int, default=6400, help="training images")
    parser.add_argument("--rounds", type=int, default=9, help="timed steps")
    parser.add_argument("--smoke", action="store_true", help="a few generated images")
    arguments = parser.parse_args()

    if arguments.smoke:
        data = generated_images((28, 28, 1), 10, count=16)
    else:
        data = load_images("mnist", data_dir=arguments.data_dir)
    # The model expects three channels, and resizes 28 pixels to 32.
    train, test = ((np.repeat(images, 3, axis=-1), y) for images, y in (data.train, data.test))
    images, labels = (array[: arguments.images] for array in train)

    models, scores = [], {}
    for way in dict.fromkeys(arguments.ways):
        model = made(way, -(-len(images) // BATCH))
        model.fit(images, labels, batch_size=BATCH, verbose=0)
        scores[way] = accuracy(model, *(array[:2000] for array in test))
        models.append((way, model))
    found = costs(models, images, labels, arguments.rounds)
    first, _ = found[models[0][0]]
    for way, model in models:
        trained = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
        took, peak = found[way]
        memory = "" if peak is None else f", {peak:.0f} MB"
        print(
            f"{way}: {trained:,} trained parameters, {scores[way]:.1f} % top-1, "
            f"a step takes {took / first:.2f} times as long as {models[0][0]}{memory}"
        )


if __name__ == "__main__":
    main()
