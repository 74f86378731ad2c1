"""Train a small model for the tests of training.

As a script, kill the process during an epoch: `python -m tests.training.runs OUT EPOCH`.
"""

import os
import signal
import sys

import keras
import numpy as np

from keras_permix.data import Dataset
from keras_permix.recipes.load import format_toml
from keras_permix.recipes.recipe import make_recipe
from keras_permix.training import fit_recipe, make_model
from keras_permix.utils.files import release_folder

VALUES = dict(
    model=dict(
        class_name="CSPViT",
        image_size=8,
        patch_size=2,
        num_classes=3,
        hidden_dim=8,
        num_layers=1,
        mlp_dim=8,
        dropout=0.1,
    ),
    data=dict(name="made"),
    augmentation=dict(crop_padding=1, flip=True),
    optimizer=dict(name="adamw", learning_rate=5e-3),
    schedule=dict(name="cosine", warmup_epochs=1),
    batch_size=16,
    epochs=4,
    label_smoothing=0.1,
    ema=0.9,
)
RECIPE = make_recipe(VALUES, "runs.py")


def as_toml(values):
    """Format recipe values as TOML."""
    return "".join(f"{key} = {format_toml(value)}\n" for key, value in values.items())


def make_images():
    """Return a data set with three classes that differ in brightness."""
    rng = np.random.default_rng(0)
    labels = np.arange(96, dtype="int32") % 3
    images = (rng.uniform(0, 100, (96, 8, 8, 3)) + 70 * labels[:, None, None, None]).astype("uint8")
    return Dataset("made", (images[:80], labels[:80]), (images[80:], labels[80:]), tuple("abc"))


def train(recipe, dataset, out, **kwargs):
    """Train a recipe in the folder `out`. Returns the model and the rows of the log."""
    model = make_model(recipe)
    try:
        return model, fit_recipe(model, recipe, dataset, out, **kwargs)
    finally:
        release_folder(out)


class Killer(keras.callbacks.Callback):
    """Kill the process in the middle of an epoch, as a power cut would."""

    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_epoch_begin(self, epoch, logs=None):
        self.now = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.now, batch) == (self.epoch, 2):
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    train(RECIPE, make_images(), sys.argv[1], verbose=0, callbacks=[Killer(int(sys.argv[2]))])
