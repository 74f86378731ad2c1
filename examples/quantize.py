"""Quantize a pretrained model, and compare size, accuracy and speed.

    python examples/quantize.py [--data-dir FOLDER] [--images 2000]

Keras quantizes the dense layers of `cspvit/cifar10_small` after training, without fine-tuning. Each
time is the fastest of a few rounds, which alternate between the models. `--smoke` uses a few
generated images.
"""

import argparse
import math
import time
import warnings

from keras_permix.data import generated_images, load_images
from keras_permix.zoo import CSPViT

import numpy as np

DTYPES = ("float32", "int8", "int4")


def quantized(dtype):
    """Load the pretrained model and quantize its dense layers."""
    model = CSPViT.from_preset("cifar10_small")
    if dtype != "float32":
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*does not have a `quantize` method")
            model.quantize(dtype)
    return model


def size(model):
    """Return the bytes of all weights. Keras stores two int4 values in an int8."""
    return sum(math.prod(w.shape) * np.dtype(w.dtype).itemsize for w in model.weights)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder of CIFAR-10; else KERAS_PERMIX_DATA or download")
    parser.add_argument("--images", type=int, default=2000, help="test images to measure with")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds")
    parser.add_argument("--smoke", action="store_true", help="a few generated images")
    arguments = parser.parse_args()

    if arguments.smoke:
        data = generated_images((32, 32, 3), 10, count=32)
    else:
        data = load_images("cifar10", data_dir=arguments.data_dir)
    images, labels = (array[: arguments.images] for array in data.test)

    models = {dtype: quantized(dtype) for dtype in DTYPES}
    scores = {}
    for dtype, model in models.items():  # also compiles the models
        answers = model.predict(images, batch_size=256, verbose=0).argmax(axis=1)
        scores[dtype] = 100 * np.mean(answers == labels)
    seconds = dict.fromkeys(models, math.inf)
    for _ in range(arguments.rounds):
        for dtype, model in models.items():
            start = time.perf_counter()
            model.predict(images[:256], batch_size=256, verbose=0)
            seconds[dtype] = min(seconds[dtype], time.perf_counter() - start)
    for dtype, model in models.items():
        print(
            f"{dtype}: {size(model) / 1e6:.2f} MB of weights, {scores[dtype]:.1f} % top-1, "
            f"{seconds[dtype] / seconds['float32']:.1f} times as long as float32"
        )


if __name__ == "__main__":
    main()
