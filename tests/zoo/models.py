"""Tiny models of the zoo for tests."""

import json

import keras
import numpy as np

from keras_permix import zoo

MIXERS = {
    "CSPViT": {"name": "csp"},
    "SliceViT": {"name": "slice_sort"},
    "ViT": {"name": "attention", "num_heads": 2},
}


def tiny(class_name="CSPViT", **changes):
    """A model of 8 x 8 images and 3 classes whose weights are all different from zero."""
    keras.utils.set_random_seed(1)
    arguments = dict(image_size=8, patch_size=2, num_classes=3, width=8, depth=2, mlp_dim=8)
    arguments |= dict(mixer=MIXERS[class_name], keep_unused_params=True)
    model = zoo.MODELS[class_name](**{**arguments, **changes})
    rng = np.random.default_rng(2)
    for weight in model.weights:
        weight.assign_add(rng.normal(0, 0.1, weight.shape).astype("float32"))
    return model


def weights(model):
    """The weights of a model as arrays, by their paths."""
    return {weight.path: keras.ops.convert_to_numpy(weight) for weight in model.weights}


def logits(model, size=8):
    """Logits of two random images."""
    images = np.random.default_rng(3).integers(0, 256, (2, size, size, 3), dtype="uint8")
    return keras.ops.convert_to_numpy(model(images, training=False)).astype("float32")


def edit_json(path, change):
    """Apply the function `change` to the object in a JSON file."""
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def list_anew(folder, name):
    """Write the present size and checksum of a preset's file into its metadata."""
    from keras_permix.zoo.presets.folder import entry_of

    def change(metadata):
        metadata["files"][name] = entry_of((folder / name).read_bytes())

    edit_json(folder / "metadata.json", change)
