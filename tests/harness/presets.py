"""Check presets: loading, probe and checksums."""

import shutil

import numpy as np
import pytest

from keras_permix import zoo
from keras_permix.zoo.presets.probe import verify_probe
from tests.harness.values import to_numpy


def check_preset(name, folder):
    """Check that a preset loads by name and from a copy, and reproduces its probe.

    Loading must fail after a bit of the copied weights is flipped. The copy is made in `folder`.
    """
    info = zoo.preset_info(name)
    model_class = zoo.MODELS[info.class_name]
    copy = shutil.copytree(info.files.folder, folder / "copy")
    by_name, by_path = (model_class.from_preset(preset) for preset in (name, copy))
    for ours, theirs in zip(by_name.weights, by_path.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs))
    assert by_name.count_params() == info.parameters
    error, atol = verify_probe(copy)
    assert error <= atol <= 1e-4, f"logits of {name} are off by {error}"
    content = bytearray((copy / "model.weights.h5").read_bytes())
    content[-1] ^= 1
    (copy / "model.weights.h5").write_bytes(content)
    with pytest.raises(ValueError, match="must have the SHA-256"):
        model_class.from_preset(copy)
