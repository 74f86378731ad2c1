"""Build tiny models of the zoo for tests."""

import hashlib
import json

import keras
import numpy as np

from keras_permix import zoo

IMAGES = dict(image_size=8, patch_size=2, num_classes=3, hidden_dim=8, num_layers=2)
TEXTS = dict(vocabulary_size=20, max_sequence_length=12, num_classes=3, hidden_dim=8, num_layers=2)
MEGA = dict(**TEXTS, inner_dim=10, shared_dim=4, ema_dim=2)
VIT = dict(**IMAGES, mlp_dim=8, keep_unused_params=True)
PATCHES = dict(image_size=6, patch_sizes=[2, 3], num_classes=3, num_layers=2)
GRAPHS = dict(targets=3, hidden_dim=8, num_layers=2, num_heads=2, mlp_dim=8)
BERT = dict(vocabulary_size=257, max_sequence_length=8, num_classes=3, hidden_dim=8, num_layers=2)

# Arguments of a tiny model, for every class of the zoo.
TINY = {
    "ButterflyMixer": dict(**IMAGES, mlp="butterfly"),
    "ButterflyViT": dict(**IMAGES, num_heads=2, mlp_dim=8),
    "CSPMEGA": dict(**MEGA, norm="scalenorm", norm_first=False),
    "CSPViT": dict(**VIT, mixer={"name": "csp"}),
    "Graphormer": dict(**GRAPHS, mean=[1.0, 2.0, 3.0], std=0.5),
    "LRATransformer": dict(**TEXTS, mlp_dim=8, mixer={"name": "slice_sort"}),
    "MEGA": dict(**MEGA, mixer="laplace", chunk_size=5),
    "MLPMixer": dict(**IMAGES, expansion=3, mlp="dense"),
    "PatchOnlyMLPMixer": PATCHES,
    "SimpleTRON": dict(**BERT, num_heads=2, mlp_dim=8, use_class_token=True, pooler="relu"),
    "SliceGraphormer": dict(**GRAPHS, edges="single", mixer="slice_sort"),
    "SliceViT": dict(
        **VIT, mixer={"name": "slice_sort"}, mean=[0.4, 0.5, 0.6], std=[0.6, 0.5, 0.4]
    ),
    "ViT": dict(**VIT, mixer={"name": "attention", "num_heads": 2}),
}
# One class per family except ViT, for tests that gain nothing from more classes.
FAMILIES = (
    "Graphormer", "LRATransformer", "MEGA", "MLPMixer", "PatchOnlyMLPMixer", "SimpleTRON"
)  # fmt: skip


def tiny(class_name="CSPViT", **changes):
    """Build a model from its arguments in `TINY`, with nonzero weights."""
    keras.utils.set_random_seed(1)
    model = zoo.MODELS[class_name](**{**TINY[class_name], **changes})
    rng = np.random.default_rng(2)
    for weight in model.weights:
        weight.assign_add(rng.normal(0, 0.1, weight.shape).astype("float32"))
    return model


def weights(model):
    """Return the weights of a model as arrays, by path."""
    return {weight.path: keras.ops.convert_to_numpy(weight) for weight in model.weights}


def logits(model):
    """Return the outputs of a model for two random inputs."""
    outputs = model(model.make_inputs(3, 2), training=False)
    return keras.ops.convert_to_numpy(outputs).astype("float32")


def edit_json(path, change):
    """Apply the function `change` to the object in a JSON file."""
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def list_anew(folder, name):
    """Update the size and checksum of a preset's file in its metadata."""
    content = (folder / name).read_bytes()

    def change(metadata):
        digest = hashlib.sha256(content).hexdigest()
        metadata["files"][name] = {"bytes": len(content), "sha256": digest}

    edit_json(folder / "metadata.json", change)
