"""Convert containers of numbers, texts and images, and the batches of data sets, to arrays."""

import functools
import numbers
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_permix.data.images.decode import image_pixels
from keras_permix.ops.backend import running


def to_arrays(
    value: Any, dtype_of: Callable[[str], str] = lambda dtype: dtype, channels: int = 3
) -> Any:
    """Convert a container of numbers, texts or images to an array, or a dict value by value.

    Lists, pandas Series and DataFrames, columns of Hugging Face `datasets`, tensors of another
    framework and Pillow images become NumPy arrays. Lists of texts and of arrays of different
    shapes stay lists. Tensors of the backend and other objects, such as generators, are returned
    unchanged. `dtype_of` maps the name of an array's dtype to that of the result. Pillow images get
    `channels`, 3 for RGB or 1 for gray.
    """

    def convert(value):
        if isinstance(value, dict):
            return {name: convert(part) for name, part in value.items()}
        if _is_of(value, "datasets", "Dataset", "Column"):
            return convert(value[:])  # A column gives a list, a data set a dict of columns.
        if _is_of(value, "PIL.Image", "Image"):
            return image_pixels(value, channels)
        if keras.ops.is_tensor(value):
            dtype = keras.backend.standardize_dtype(value.dtype)
            return value if dtype_of(dtype) == dtype else keras.ops.cast(value, dtype_of(dtype))
        if isinstance(value, list | tuple):
            return _join(value, convert)
        if isinstance(value, str | keras.KerasTensor | keras.Variable):
            return value
        if not hasattr(value, "__array__"):
            return value
        # A PyTorch tensor on another backend. In `torch.compile`, arrays have its attributes, too.
        if hasattr(value, "detach") and not isinstance(value, np.ndarray):
            value = value.detach().cpu()
            value = value.float() if str(value.dtype).endswith(".bfloat16") else value
        array = np.asarray(value)
        if array.dtype.kind == "O" and array.ndim:
            joined = _join(array.tolist(), convert)
            return array if isinstance(joined, list) else joined
        if array.dtype.kind not in "biuf":
            return array
        return _cast(array, dtype_of(array.dtype.name))

    return convert(value)


def _is_of(value, package, *names):
    """Return whether a value is of a class of a package, without importing the package."""
    module = sys.modules.get(package)
    kinds = (getattr(module, name, None) for name in names)
    return isinstance(value, tuple(kind for kind in kinds if isinstance(kind, type)))


def _cast(array, dtype):
    if array.dtype.kind in "iu" and array.size and array.dtype != dtype:
        limits = np.iinfo(dtype)
        if array.min() < limits.min or array.max() > limits.max:
            rule = f"Integers must fit into {dtype}"
            raise ValueError(f"{rule}. Received: {array.min()} to {array.max()}")
    return array.astype(dtype, copy=False)


def _join(parts, convert):
    """Join a list to one array if its parts are numbers or arrays of one shape."""
    first = parts[0] if parts else ""
    pair = first if isinstance(first, list | tuple) else ()
    if any(isinstance(part, str) for part in (first, *parts, *pair)):
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


def check_texts(texts, paired, name="texts"):
    """Return `texts` as a list of str, or of tuples of two str if `paired`."""
    texts = to_arrays(texts)
    texts = texts.tolist() if isinstance(texts, np.ndarray) else texts
    found = texts if isinstance(texts, list | tuple) else []
    # A table of one column holds one text per row.
    rows = [tuple(row) if isinstance(row, list | tuple) else (row,) for row in found]
    right = [len(row) == 1 + paired and all(map(_is_text, row)) for row in rows]
    if not rows or not all(right):
        kind = "tuples of two str" if paired else "str"
        wrong = f"[{right.index(False)}]={found[right.index(False)]!r}" if rows else f"={texts!r}"
        rule = f"`{name}` must be a list of {kind} that are not empty"
        raise ValueError(f"{rule}. Received: {name}{wrong:.200}")
    return rows if paired else [text for (text,) in rows]


def _is_text(value):
    return isinstance(value, str) and value.strip() != ""


def are_texts(x):
    """Return whether inputs are, or a nested array or list contains, a text, bytes or a path."""
    if isinstance(x, np.ndarray):
        return x.dtype.kind == "U" or x.dtype.kind == "O" and are_texts(x.tolist())
    if isinstance(x, list | tuple):
        return any(are_texts(part) for part in x)
    return isinstance(x, str | bytes | os.PathLike)


def are_arrays(inputs: Any) -> bool:
    """Return whether all parts of nested inputs are NumPy arrays."""
    return all(isinstance(array, np.ndarray) for array in keras.tree.flatten(inputs))


def are_single_images(inputs: Any) -> bool:
    """Return whether inputs are a list of arrays or tensors `(height, width, channels)`."""
    listed = isinstance(inputs, list | tuple) and len(inputs) > 0
    return listed and all(len(getattr(image, "shape", ())) == 3 for image in inputs)


def check_indices(name: str, array: np.ndarray, count: int) -> None:
    """Check that an array indexes a table of `count` rows: Keras casts floats, and JAX clips."""
    low, high = array.min(initial=0), array.max(initial=0)
    if array.dtype.kind not in "iu" or low < 0 or high >= count:
        received = f"{name} from {low} to {high}, {array.dtype}"
        raise ValueError(f"`{name}` must be integers in [0, {count}). Received: {received}")


class _Batches(keras.utils.PyDataset):
    """Convert each batch of another data set by a function."""

    def __init__(self, data, convert):
        super().__init__(data.workers, data.use_multiprocessing, data.max_queue_size)
        self._data, self._convert = data, convert

    @property
    def num_batches(self):
        return self._data.num_batches

    def __getitem__(self, index):
        return self._convert(self._data[index])

    def on_epoch_begin(self):
        self._data.on_epoch_begin()

    def on_epoch_end(self):
        self._data.on_epoch_end()


def convert_batches(x, convert, model):
    """Convert a generator or `keras.utils.PyDataset` batch by batch; keep other values.

    The tensors of a `tf.data.Dataset` are cast to the dtypes of the model's steps.
    """
    if isinstance(x, types.GeneratorType):
        return (convert(batch) for batch in x)
    if isinstance(x, keras.utils.PyDataset):
        return _Batches(x, convert)
    if hasattr(x, "element_spec") and (datasets := running.tensorflow_datasets()).is_dataset(x):
        return datasets.cast(x, functools.partial(running.step_dtype, model=model))
    return x
