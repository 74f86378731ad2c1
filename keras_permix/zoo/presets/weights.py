"""Write and read weights files in memory, and check them before a layer reads them.

On disk, the HDF5 library may crash if the disk is full.
"""

import collections
import io
import warnings

import h5py
import keras
import numpy as np

from keras_permix._typing import Model, StrPath

LARGEST_ITEM = 8  # bytes of one number
LARGEST_CHUNK = 2**20  # numbers in a chunk, if larger than the array
BFLOAT16_EXPONENT = 0x7F80  # all of its bits are set in NaN and infinity


class _WeightsFile(io.BytesIO):
    """Name a file in memory with the extension that Keras requires."""

    def __str__(self):
        return "in_memory.weights.h5"


def weights_content(model: Model) -> bytes:
    """Return the bytes of a `.weights.h5` file of a model, with its optimizer's state."""
    file = _WeightsFile()
    with warnings.catch_warnings():
        # Keras 3.15 converts variables in a way that NumPy 2.5 deprecates.
        warnings.filterwarnings("ignore", "__array__ implementation", DeprecationWarning)
        model.save_weights(file)
    return file.getvalue()


def pack_weights(content: bytes, dtype: str | None = None) -> bytes:
    """Make a weights file compact: omit the optimizer, and cast floating arrays to `dtype`.

    Raises:
        ValueError: if a weight is too large for `dtype`.
    """
    packed = io.BytesIO()
    # Groups in the format of HDF5 1.8 take a third of the space, which matters for small models.
    with (
        h5py.File(io.BytesIO(content)) as old,
        h5py.File(packed, "w", libver=("v108", "latest")) as new,
    ):
        _copy_group(old, new, dtype)
    return packed.getvalue()


def check_finite_weights(
    model: Model, remedy: str = "Train again from an earlier checkpoint"
) -> None:
    """Check that a model has no weights of NaN or infinity.

    Args:
        model: The model.
        remedy: The advice of the error message.

    Raises:
        ValueError: if a weight is not finite; names the first one.
    """
    for weight in model.weights:
        if "float" in keras.backend.standardize_dtype(weight.dtype):
            value = keras.ops.convert_to_numpy(weight.value).astype("float32")
            if not np.isfinite(value).all():
                raise ValueError(
                    f"The weights of a preset must be finite. {remedy}. "
                    f"Received: `{weight.path}` with {value[~np.isfinite(value)][0]}"
                )


def load_weights_content(model: Model, content: bytes, path: StrPath) -> None:
    """Load the bytes of a weights file, which must contain exactly the weights of the model.

    Shapes are compared before an array is read.

    Args:
        model: A built model. If it is compiled, the optimizer state is loaded as well.
        content: The bytes of the file.
        path: Path of the file, for the error.

    Raises:
        ValueError: for a damaged file, a file of another model, or weights that are not finite.
    """
    try:
        with h5py.File(io.BytesIO(content)) as file:
            found = _datasets(file)
            if getattr(model, "optimizer", None) is not None:  # Its arrays are unknown.
                found = {k: v for k, v in found.items() if not k.startswith("optimizer/")}
            _check_datasets(found, model)
        model.load_weights(_WeightsFile(content))  # Keras checks the paths.
    except Exception as error:  # h5py raises many kinds of errors for damaged files.
        raise ValueError(
            f"`{path}` must contain exactly the weights of its model, all finite; it is damaged or "
            f"of another model. Copy or download it again. Received: {_describe(error)}"
        ) from error


def _copy_group(old, new, dtype):
    new.attrs.update(old.attrs)
    for name, item in old.items():
        if item.name == "/optimizer":
            continue
        if isinstance(item, h5py.Group):
            _copy_group(item, new.create_group(name), dtype)
            continue
        value = item[()]
        if dtype and value.dtype.kind == "f":
            if np.abs(value).max(initial=0) > np.finfo(dtype).max:
                raise ValueError(
                    f"`weights_dtype` must represent every weight. Received: {dtype} for "
                    f"{item.name} with values up to {np.abs(value).max()}"
                )
            value = value.astype(dtype)
        new.create_dataset(name, data=value).attrs.update(item.attrs)


def _datasets(file):
    """Return the arrays of an HDF5 file by their paths, without following links."""
    found = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = item

    file.visititems(visit)
    return found


def _check_datasets(found, model):
    """Check that arrays have the shapes of the model's weights, before any is read."""
    for name, dataset in found.items():
        if not _is_plain(dataset):
            raise ValueError(f"`{name}`, {dataset.dtype}, which is not a plain array")
    needed = collections.Counter(
        (tuple(weight.shape), "float" in keras.backend.standardize_dtype(weight.dtype))
        for weight in model.weights
    )
    for name, dataset in sorted(found.items()):
        key = dataset.shape, _is_float(dataset)
        if not needed[key]:
            raise ValueError(
                f"`{name}`, {dataset.dtype} of shape {dataset.shape}, which belongs to no layer"
            )
        needed[key] -= 1
    if missing := [shape for shape, _ in needed.elements()]:
        raise ValueError(f"a file without {len(missing)} weights, of shapes {missing[:4]}")
    for name, dataset in found.items():
        if not _is_finite(dataset):
            raise ValueError(f"`{name}`, which is not finite")


def _is_float(dataset):
    return dataset.dtype.kind in "fV"  # Keras stores bfloat16 as two opaque bytes.


def _is_plain(dataset):
    kind, size = dataset.dtype.kind, dataset.dtype.itemsize
    right = dataset.dtype == "V2" if kind == "V" else kind in "fiub" and size <= LARGEST_ITEM
    chunk = int(np.prod(dataset.chunks or 0))
    right = right and chunk <= max(dataset.size, LARGEST_CHUNK)
    return right and not dataset.external and not dataset.is_virtual


def _is_finite(dataset):
    value = np.asarray(dataset[()])
    if value.dtype.kind == "V":
        return bool(((value.view("uint16") & BFLOAT16_EXPONENT) != BFLOAT16_EXPONENT).all())
    return bool(np.isfinite(value).all())


def _describe(error):
    kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
    return f"{kind}{error}"
