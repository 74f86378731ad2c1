"""Make the presets named `test`: tiny models with random weights, for tests on every backend.

python tools/make_test_presets.py              # all of them
python tools/make_test_presets.py ViT CSPViT   # those of some classes
"""

import sys
from pathlib import Path

import keras

from keras_permix import zoo

WEIGHTS = Path(__file__).resolve().parents[1] / "weights"
IMAGES = dict(image_size=8, patch_size=2, num_classes=3, hidden_dim=8, num_layers=2)
TEXTS = dict(vocabulary_size=257, max_sequence_length=24, num_classes=3, hidden_dim=8, num_layers=2)
MEGA = dict(**TEXTS, inner_dim=16, shared_dim=4, ema_dim=2)
VIT = dict(**IMAGES, mlp_dim=16, keep_unused_params=True)
GRAPHS = dict(targets=3, hidden_dim=4, num_layers=2, num_heads=2, mlp_dim=8)
# class -> arguments of its tiny model
MODELS = {
    "ButterflyMixer": IMAGES,
    "ButterflyViT": dict(**IMAGES, num_heads=2, mlp_dim=16),
    "CSPMEGA": MEGA,
    "CSPViT": dict(**VIT, mixer={"name": "csp", "group_size": 2, "shift": "linear"}),
    "Graphormer": dict(**GRAPHS, mean=[1.0, 2.0, 3.0]),
    "LRATransformer": dict(
        max_sequence_length=16,
        num_classes=3,
        hidden_dim=8,
        num_layers=2,
        mlp_dim=16,
        mixer={"name": "slice_sort"},
    ),
    "MEGA": dict(**MEGA, chunk_size=8),
    "MLPMixer": IMAGES,
    "PatchOnlyMLPMixer": dict(image_size=6, patch_sizes=[2, 3], num_classes=3, num_layers=2),
    "SliceGraphormer": dict(**GRAPHS, mixer={"name": "slice_sort", "order": "interleave"}),
    "SimpleTRON": dict(
        vocabulary_size=257,
        max_sequence_length=16,
        num_classes=3,
        hidden_dim=8,
        num_layers=1,
        num_heads=2,
        mlp_dim=8,
    ),
    "SliceViT": dict(**VIT, mixer={"name": "slice_sort", "order": "interleave"}),
    "ViT": dict(**VIT, mixer={"name": "attention", "num_heads": 2}),
}

for name in sys.argv[1:] or MODELS:
    keras.utils.set_random_seed(0)
    model = zoo.MODELS[name](**MODELS[name], name="test")
    # New biases and positions are nearly zero, which would hide that they are not loaded.
    for weight in model.weights:
        weight.assign(weight + 0.1)
    model.save_to_preset(
        WEIGHTS / name.lower() / "test",
        weights_dtype="float16",
        labels=["red", "green", "blue"][: model.output_shape[-1]],
        data="none: the weights are random",
        recipe="tools/make_test_presets.py",
        license="Apache-2.0",
    )
