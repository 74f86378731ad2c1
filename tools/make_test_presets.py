"""Make the presets named `test`: tiny models with random weights, for tests on every backend.

python tools/make_test_presets.py
"""

from pathlib import Path

import keras

from keras_permix import zoo

WEIGHTS = Path(__file__).resolve().parents[1] / "weights"
IMAGES = dict(image_size=8, patch_size=2, num_classes=3, width=8, depth=2)
VIT = dict(**IMAGES, mlp_dim=16, keep_unused_params=True)
# class -> arguments of a tiny model of it
MODELS = {
    "CSPViT": dict(**VIT, mixer={"name": "csp", "group_size": 2, "shift": "linear"}),
    "SimpleTRON": dict(
        vocabulary_size=257, max_length=16, num_classes=3, width=8, depth=1, num_heads=2, mlp_dim=8
    ),
    "SliceViT": dict(**VIT, mixer={"name": "slice_sort", "order": "interleave"}),
    "ViT": dict(**VIT, mixer={"name": "attention", "num_heads": 2}),
}

for name, arguments in MODELS.items():
    keras.utils.set_random_seed(0)
    model = zoo.MODELS[name](**arguments, name="test")
    # Fresh biases and positions are nearly zero, and would hide where they are not loaded.
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
