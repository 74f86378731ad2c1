"""Test training steps of base models, compiled by libtpu for four TPUs.

`CSPViT` has the size of its ImageNet recipe, all other families their default size.
"""

import importlib.util
import re

import keras
import pytest

from keras_permix import zoo
from keras_permix.training import load_recipe, make_model
from tests.accelerators.tpu_ahead import EXCHANGES, kernels_of, train_step

pytestmark = [
    pytest.mark.ahead_of_time,
    pytest.mark.skipif(keras.config.backend() != "jax", reason="JAX compiles for TPUs"),
    pytest.mark.skipif(not importlib.util.find_spec("libtpu"), reason="libtpu is not installed"),
]

MEMORY = {"TPU v5 lite": 16 * 2**30, "TPU v6 lite": 32 * 2**30}  # bytes available to the compiler
# family: samples in a batch, which is sharded over four TPUs
FAMILIES = {
    "ViT": 256, "SliceViT": 256, "ButterflyViT": 256, "MLPMixer": 256, "ButterflyMixer": 256,
    "PatchOnlyMLPMixer": 256, "LRATransformer": 16, "SimpleTRON": 32, "MEGA": 16, "CSPMEGA": 16,
    "Graphormer": 64, "SliceGraphormer": 64,
}  # fmt: skip


def test_imagenet_train_step(distribution, topology):
    model = make_model(load_recipe("cspvit/imagenet", precision="mixed_bfloat16"))
    compiled = train_step(model, 256, distribution)
    check(compiled, topology)
    text = compiled.as_text()
    assert kernels_of(text) == {"sort_pairs", "unsort_pairs"}
    assert " gather(" not in text


@pytest.mark.parametrize("family", FAMILIES)
def test_train_step_of_family(family, distribution, topology):
    model = getattr(zoo, family)(dtype="mixed_bfloat16")
    check(train_step(model, FAMILIES[family], distribution), topology)


def check(compiled, topology):
    """Check that a step only exchanges gradients, and fits in memory.

    It must not call the host or have dynamic shapes either.
    """
    text, memory = compiled.as_text(), compiled.memory_analysis()
    assert "all-reduce" in text and not re.search(EXCHANGES, text)
    assert "callback" not in text and "[<=" not in text
    kept = memory.argument_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    assert kept + memory.temp_size_in_bytes < MEMORY[topology.devices[0].device_kind]
