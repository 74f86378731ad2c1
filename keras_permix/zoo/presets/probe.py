"""Make and verify probes: random inputs and the outputs of a preset for them."""

from typing import Any

import numpy as np

from keras_permix._typing import Model, StrPath
from keras_permix.ops.backend import running
from keras_permix.zoo.presets.load import is_quantized, load_preset
from keras_permix.zoo.presets.names import PresetInfo, preset_info

ATOL = 1e-4
# Quantized models round activations, so that a different last bit can change a whole level.
QUANTIZED_ATOL = 2e-2


def make_probe(model: Model, atol: float = ATOL) -> dict[str, Any]:
    """Compute the outputs of `model` for two random inputs; `atol` is the tolerance."""
    outputs = _outputs(model, 0, 2).astype("float64").round(6).tolist()
    return {"seed": 0, "batch": 2, "outputs": outputs, "atol": atol}


def verify_probe(preset: StrPath | PresetInfo) -> tuple[float, float]:
    """Load a preset, in float32 unless it is quantized, and compare it with its probe.

    Returns:
        `(error, atol)`: the largest absolute difference of outputs, and the tolerance.
    """
    info = preset_info(preset)
    probe = info.metadata.get("probe")
    if probe is None:
        raise ValueError(f"The preset must have a probe and weights. Received: {info.name}")
    dtype: dict[str, Any] = {} if is_quantized(info.config) else {"dtype": "float32"}
    expected = np.asarray(probe["outputs"])
    found = _outputs(load_preset(None, info, **dtype), probe["seed"], probe["batch"])
    return float(np.abs(found - expected).max()), probe["atol"]


def _outputs(model, seed, batch):
    with running.module("runtime").full_precision():
        return running.outputs_of(model, model.make_inputs(seed, batch)).astype("float32")
