"""Make the presets named `test`: tiny models with random weights, for tests on every backend.

    python tools/make_test_presets.py
"""

from pathlib import Path

import keras

from keras_permix import zoo

WEIGHTS = Path(__file__).resolve().parents[1] / "weights"
SIZES = dict(image_size=8, patch_size=2, num_classes=3, width=8, depth=2, mlp_dim=16)
MIXERS = {
    "CSPViT": {"name": "csp", "group_size": 2, "shift": "linear"},
    "SliceViT": {"name": "slice_sort", "order": "interleave"},
    "ViT": {"name": "attention", "num_heads": 2},
}

for name, mixer in MIXERS.items():
    keras.utils.set_random_seed(0)
    model = zoo.MODELS[name](**SIZES, mixer=mixer, keep_unused_params=True, name="test")
    # Fresh biases and positions are nearly zero, and would hide where they are not loaded.
    for weight in model.weights:
        weight.assign(weight + 0.1)
    model.save_to_preset(
        WEIGHTS / name.lower() / "test",
        weights_dtype="float16",
        labels=["red", "green", "blue"],
        data="none: the weights are random",
        recipe="tools/make_test_presets.py",
        license="Apache-2.0",
    )
