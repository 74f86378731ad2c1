"""A probe: random images and the logits that a preset must give for them."""

import keras
import numpy as np

from keras_permix.zoo.presets.config import is_quantized
from keras_permix.zoo.presets.names import load_preset, preset_info

ATOL = 1e-4
# A quantised model rounds its activations: a last bit that differs can move one by a whole level.
QUANTIZED_ATOL = 2e-2


def make_probe(model, *, seed=0, images=2, atol=ATOL):
    """Ask `model` for the logits of random images.

    Returns:
        A dict with the seed and shape of the images, the logits and the tolerance.
    """
    size = model.get_layer("preprocessor").image_size
    shape = [images, size, size, model.input_shape[-1]]
    logits = _logits(model, seed, shape).astype("float64").round(6).tolist()
    return {"seed": seed, "shape": shape, "logits": logits, "atol": atol}


def probe_error(model, probe):
    """The largest absolute difference between a model's logits and those of a probe."""
    expected = np.asarray(probe["logits"])
    found = _logits(model, probe["seed"], probe["shape"])
    if found.shape != expected.shape:
        raise ValueError(
            f"The model must give logits of the probe's shape {expected.shape}. "
            f"Received: {found.shape}"
        )
    return float(np.abs(found - expected).max())


def verify_probe(preset):
    """Load a preset, in float32 unless it is quantised, and compare it with its probe.

    Returns:
        `(error, atol)`: the largest absolute difference of logits, and what is allowed.

    Raises:
        ValueError: if the preset has no probe; also what `load_preset` raises.
    """
    info = preset_info(preset)
    probe = info.metadata.get("probe")
    if probe is None:
        raise ValueError(f"The preset must have a probe and weights. Received: {info.name}")
    dtype = {} if is_quantized(info.config) else {"dtype": "float32"}
    return probe_error(load_preset(None, preset, **dtype), probe), probe["atol"]


def _logits(model, seed, shape):
    images = np.random.default_rng(seed).integers(0, 256, shape, dtype="uint8")
    return keras.ops.convert_to_numpy(model(images, training=False)).astype("float32")
