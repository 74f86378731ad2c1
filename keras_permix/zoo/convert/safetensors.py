"""Read files of the `safetensors` library."""

from pathlib import Path

import numpy as np

from keras_permix.utils.checks import import_extra

# NumPy has no bfloat16, which is read as the upper half of a float32.
DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip


def read_tensors(path: str | Path) -> dict[str, np.ndarray]:
    """Read the tensors of a `.safetensors` file by name; bfloat16 becomes float32.

    Args:
        path: The file.

    Returns:
        A dict from names to NumPy arrays.

    Raises:
        ImportError: if the package `safetensors` is absent.
        FileNotFoundError: for a missing file.
        ValueError: for a damaged file, or a dtype that NumPy cannot hold.
    """
    safetensors, path = import_extra("safetensors", "text", f"Reading {path}"), Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            "Weights must be in a safetensors file; pickles are not supported. "
            f"Received: no file {path}"
        )
    try:
        found = safetensors.deserialize(path.read_bytes())
    except safetensors.SafetensorError as error:
        raise ValueError(
            f"`{path}` must be a safetensors file; it is truncated or corrupt. Copy or download it "
            f"again. Received: {error}"
        ) from error
    return {name: _array(name, tensor, path) for name, tensor in found}


def _array(name, tensor, path):
    dtype = tensor["dtype"]
    if dtype not in DTYPES:
        raise ValueError(
            f"Tensors must have a dtype of {', '.join(DTYPES)}. "
            f"Received: `{name}` of {dtype} in {path}"
        )
    array = np.frombuffer(tensor["data"], DTYPES[dtype]).reshape(tensor["shape"])
    return (array.astype("uint32") << 16).view("float32") if dtype == "BF16" else array
