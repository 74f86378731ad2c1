"""Containers of numbers, texts and images as arrays: lists, columns of tables, foreign tensors."""

import numbers
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_permix.data.images.decode import image_pixels


def to_arrays(
    value: Any, dtype_of: Callable[[str], str] = lambda dtype: dtype, channels: int = 3
) -> Any:
    """Convert a container of numbers, texts or images to arrays.

    Lists, Series and DataFrames of pandas, columns of Hugging Face `datasets`, tensors of another
    framework and images of Pillow become NumPy arrays. A dict is converted value by value.

    Args:
        value: The container. Tensors of the backend, and whatever is no container of numbers, such
            as a generator, are returned as they are.
        dtype_of: A function from the name of an array's dtype to that of the result.
        channels: Channels of images of Pillow: 3 for RGB, 1 for gray.

    Returns:
        An array or a dict of arrays. Lists of texts, and of arrays of different shapes, stay lists.
    """

    def convert(value):
        if isinstance(value, dict):
            return {name: convert(part) for name, part in value.items()}
        if _is_of(value, "datasets", "Dataset", "Column"):
            return convert(value[:])  # A column gives a list, a whole data set a dict of columns.
        if _is_of(value, "PIL.Image", "Image"):
            return image_pixels(value, channels)
        if keras.ops.is_tensor(value):
            dtype = keras.backend.standardize_dtype(value.dtype)
            return value if dtype_of(dtype) == dtype else keras.ops.cast(value, dtype_of(dtype))
        if isinstance(value, list | tuple):
            return _joined(value, convert)
        if isinstance(value, str | keras.KerasTensor | keras.Variable):
            return value
        if not hasattr(value, "__array__"):
            return value
        if hasattr(value, "detach"):  # a tensor of PyTorch, where another backend runs
            value = value.detach().cpu()
            value = value.float() if str(value.dtype).endswith(".bfloat16") else value
        array = np.asarray(value)
        if array.dtype.kind == "O" and array.ndim:
            joined = _joined(array.tolist(), convert)
            return array if isinstance(joined, list) else joined
        if array.dtype.kind not in "biuf":
            return array
        return _cast(array, dtype_of(array.dtype.name))

    return convert(value)


def _is_of(value, package, *names):
    """Whether a value is of a class of a package, which is loaded then."""
    module = sys.modules.get(package)
    kinds = (getattr(module, name, None) for name in names)
    return isinstance(value, tuple(kind for kind in kinds if isinstance(kind, type)))


def _cast(array, dtype):
    if array.dtype.kind in "iu" and array.size and array.dtype != dtype:
        limits = np.iinfo(dtype)
        if array.min() < limits.min or array.max() > limits.max:
            raise ValueError(
                f"Integers must fit into {dtype}, which this backend computes in. "
                f"Received: numbers from {array.min()} to {array.max()}"
            )
    return array.astype(dtype, copy=False)


def _joined(parts, convert):
    """A list as one array, where its parts are numbers, or arrays of one shape."""
    first = parts[0] if parts else ""
    if any(isinstance(part, str) for part in (first, *parts)) or _is_pair(first):
        return parts
    while isinstance(first, list | tuple) and first:
        first = first[0]
    if first is None or isinstance(first, numbers.Number | np.generic):
        try:
            array = np.asarray(parts)
        except ValueError:  # rows of different lengths
            return parts
        return array if array.dtype.kind == "O" else convert(array)
    parts = [convert(part) for part in parts]
    shapes = {tuple(part.shape) if hasattr(part, "shape") else None for part in parts}
    if len(shapes) > 1 or None in shapes:
        return parts
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.stack(parts)
    return keras.ops.stack(parts) if all(map(keras.ops.is_tensor, parts)) else parts


def _is_pair(part):
    return isinstance(part, list | tuple) and any(isinstance(text, str) for text in part)
