"""Read files of the `safetensors` library, and rename their tensors to weights."""

from pathlib import Path

import numpy as np

from keras_permix.utils.checks import check_choice, import_extra

# NumPy has no bfloat16, which is read as the upper half of a float32.
DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip


def read_tensors(path: str | Path) -> dict[str, np.ndarray]:
    """Read the tensors of a `.safetensors` file by name; bfloat16 becomes float32."""
    safetensors = import_extra("safetensors", "text", f"Reading {path}")
    try:
        found = safetensors.deserialize(Path(path).read_bytes())
    except safetensors.SafetensorError as error:
        raise ValueError(f"`{path}` must be a safetensors file. Received: {error}") from error
    return {name: _array(tensor) for name, tensor in found}


def _array(tensor):
    dtype = tensor["dtype"]
    kind = DTYPES[check_choice("dtype of a tensor", dtype, DTYPES)]
    array = np.frombuffer(tensor["data"], kind).reshape(tensor["shape"])
    return (array.astype("uint32") << 16).view("float32") if dtype == "BF16" else array


def weights_of(tensors, layers, block, block_layers, num_layers, tables):
    """Return PyTorch's tensors by the paths of weights, and the names of missing and other ones.

    `layers` and `block_layers` hold the paths of layers by their names, without ".weight" and
    ".bias". Kernels become `(in, out)`, and those of patches are flattened by row, column and
    channel. The tensors of `tables`, paths of weights by names, are not changed.
    """
    layers, paths = dict(layers), dict(tables)
    for index in range(num_layers):
        for name, layer in block_layers.items():
            layers[f"{block}.{index}.{name}"] = f"block_{index}/{layer}"
    for name, layer in layers.items():
        kinds = ("gamma", "beta") if layer.endswith("norm") else ("kernel", "bias")
        paths[f"{name}.weight"], paths[f"{name}.bias"] = (f"{layer}/{kind}" for kind in kinds)
    weights = {}
    for name, value in tensors.items():
        if name not in paths:
            continue
        if value.ndim == 4:
            value = value.transpose(0, 2, 3, 1).reshape(len(value), -1)
        weights[paths[name]] = value if name in tables else value.T
    return weights, sorted(paths.keys() - tensors.keys()), sorted(tensors.keys() - paths.keys())
