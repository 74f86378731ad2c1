"""Test imports: one backend suffices, importing is fast, public names are fixed."""

import importlib
import os
import subprocess
import sys

import keras
import pytest

from tests.harness import BACKENDS, ROOT, exported

# Packages that are hidden when another backend runs. (jaxlib and flax come only with jax.)
PACKAGES = {
    "jax": ("jax", "jaxlib", "flax"),
    "tensorflow": ("tensorflow", "tf_keras", "tensorflow_text"),
    "torch": ("torch", "torchvision"),
}

# The finder hides the packages in `absent`, as if they were not installed. An ImportError would
# not do: torch looks for tensorflow with `find_spec`.
ALONE = """
import sys
from importlib.machinery import PathFinder

absent = set(sys.argv[1].split(","))

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in absent:
            return super().find_spec(name, path, target)

sys.meta_path[:] = [Finder if finder is PathFinder else finder for finder in sys.meta_path]

import keras
import numpy as np
from keras_permix import analysis, cli, data, layers, ops, tasks, training, zoo

model = zoo.CSPViT(image_size=8, patch_size=2, num_classes=3, hidden_dim=8, num_layers=1, mlp_dim=8)
model.compile("adamw", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
images = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), "uint8")
batches = data.Pipeline(images, np.arange(6) % 3, batch_size=3, num_classes=3)
model.fit(images, np.arange(6) % 3, verbose=0)
model.save_to_preset("preset")
again = zoo.CSPViT.from_preset("preset")
assert np.allclose(again.predict(images, verbose=0), model.predict(images, verbose=0), atol=1e-5)
assert not absent & set(sys.modules)
"""

# Count only modules that keras_permix loads: Keras may import TensorFlow if it is installed.
MEASURED = """
import gc, sys, time

import keras
gc.collect()  # do not measure garbage of Keras
before = set(sys.modules)
start = time.process_time()
import keras_permix
seconds = time.process_time() - start
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(seconds, *sorted(new & set(sys.argv[1].split(","))))
"""


def absent_packages():
    others = [name for name in BACKENDS if name != keras.config.backend()]
    return ",".join(package for name in others for package in PACKAGES[name])


def run(script, folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    # Let Python cache bytecode, as it does for users. Only the first import compiles.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", script, absent_packages()]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_package_works_with_one_backend(tmp_path):
    run(ALONE, tmp_path)


def test_import_is_fast_and_loads_no_other_backend(tmp_path):
    fastest = float("inf")
    for _ in range(5):
        seconds, *others = run(MEASURED, tmp_path).split()
        assert not others
        fastest = min(fastest, float(seconds))
        if fastest <= 0.2:
            break
    assert fastest <= 0.2


PUBLIC = {
    "keras_permix.layers": [
        "BlockDense",
        "ButterflyAttention",
        "ButterflyBlock",
        "ButterflyLinear",
        "ButterflyLinearMLP",
        "ButterflyMLP",
        "CSP",
        "CausalCSP",
        "DampedEMA",
        "FourierMixer",
        "GraphEmbedding",
        "GraphormerBias",
        "GraphormerBlock",
        "ImagePreprocessor",
        "LinearAttention",
        "LinformerAttention",
        "LocalAttention",
        "MLPMixerBlock",
        "MegaBlock",
        "MixerBlock",
        "PatchEmbedding",
        "PatchOnlyMixer",
        "PerformerAttention",
        "PositionEmbedding",
        "RandomOrder",
        "SimpleAttention",
        "SimpleAttentionBlock",
        "SinkhornCSP",
        "SliceSort",
        "SoftmaxAttention",
        "TokenEmbedding",
    ],
    "keras_permix.zoo": [
        "ButterflyMixer",
        "ButterflyViT",
        "CSPMEGA",
        "CSPViT",
        "Graphormer",
        "LRATransformer",
        "MEGA",
        "MLPMixer",
        "MODELS",
        "PatchOnlyMLPMixer",
        "PresetInfo",
        "SimpleTRON",
        "SliceGraphormer",
        "SliceViT",
        "ViT",
        "ZooModel",
        "list_presets",
        "preset_info",
    ],
}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names(name):
    assert exported(importlib.import_module(name)) == sorted(PUBLIC[name])


@pytest.mark.once
def test_dir_lists_public_names():
    import keras_permix

    names = ["__version__", "distill", "layers", "ops", "swap_mixer", "zoo"]
    assert dir(keras_permix) == keras_permix.__all__ == names
    assert all(hasattr(keras_permix, name) for name in names)
