"""Cut images into patches, and reassemble them."""

from numbers import Integral
from operator import index

from keras import ops

from keras_permix._typing import Tensor
from keras_permix.ops.dispatch.checks import check_axes
from keras_permix.ops.dispatch.dispatch import dispatch, op
from keras_permix.utils.checks import check_integer


@op
def patchify(images: Tensor, size: int, *, implementation: str | None = None) -> Tensor:
    """Cut images into square patches that do not overlap, and flatten each.

    Patches are in row-major order. Each is flattened in (row, column, channel) order. The result is
    identical on every backend, and the gradient is `unpatchify`.

    Args:
        images: Tensor of shape (batch, height, width, channels), of any dtype.
        size: Side of a patch in pixels. It must divide height and width.
        implementation: A name that `explain` lists. None selects the first that supports the call.

    Returns:
        A tensor of shape (batch, height / size * width / size, size * size * channels).

    Raises:
        ValueError: for a wrong shape, or a size that does not divide height and width.

    Example:
        >>> import keras
        >>> from keras_permix.ops import patchify
        >>> images = keras.ops.reshape(keras.ops.arange(8), (1, 2, 4, 1))
        >>> keras.ops.convert_to_numpy(patchify(images, 2))[0].tolist()
        [[0, 1, 4, 5], [2, 3, 6, 7]]

    Reference: Sapkota & Bhattarai, "Dimension Mixer", 2023, arXiv:2311.18735.
    """
    images = check_axes(images, "images", ("batch", "height", "width", "channels"))
    batch, height, width, channels = images.shape
    size = _check_size(size, height, width)
    known = height is not None and width is not None
    return dispatch(
        "patchify",
        patchify_reference,
        images,
        shape=(batch, height * width // size**2 if known else None, size**2 * channels),
        implementation=implementation,
        size=size,
    )


@op
def unpatchify(
    patches: Tensor,
    size: int,
    height: int | Tensor,
    width: int | Tensor,
    *,
    implementation: str | None = None,
) -> Tensor:
    """Reassemble images from patches: the inverse of `patchify`.

    Args:
        patches: Tensor of shape (batch, height / size * width / size, size * size * channels).
        size: Side of a patch in pixels. It must divide height and width.
        height, width: Sides of the image in pixels.
        implementation: A name that `explain` lists. None selects the first that supports the call.

    Returns:
        A tensor of shape (batch, height, width, channels).

    Raises:
        ValueError: for a wrong shape, or a size that does not divide height and width.

    Example:
        >>> import keras
        >>> from keras_permix.ops import unpatchify
        >>> patches = keras.ops.array([[[0, 1, 4, 5], [2, 3, 6, 7]]])
        >>> keras.ops.convert_to_numpy(unpatchify(patches, 2, 2, 4))[0, ..., 0].tolist()
        [[0, 1, 2, 3], [4, 5, 6, 7]]

    Reference: Sapkota & Bhattarai, "Dimension Mixer", 2023, arXiv:2311.18735.
    """
    patches = check_axes(patches, "patches", ("batch", "patches", "features"))
    height, width = (
        index(side) if isinstance(side, Integral) else side for side in (height, width)
    )
    size = _check_size(size, height, width)
    sizes = (patches.shape[1], height, width)
    known = all(isinstance(side, int) for side in sizes)
    if patches.shape[2] % size**2 or known and patches.shape[1] * size**2 != height * width:
        found = f"{size=}, {height=}, {width=}, patches.shape={tuple(patches.shape)}"
        raise ValueError(f"`patches` must fit `size`, `height` and `width`. Received: {found}")
    return dispatch(
        "unpatchify",
        unpatchify_reference,
        patches,
        shape=(patches.shape[0], height, width, patches.shape[2] // size**2),
        implementation=implementation,
        size=size,
        height=height,
        width=width,
    )


def patchify_reference(images, mask, *, size):
    batch, height, width, channels = ops.shape(images)
    rows, columns = height // size, width // size
    cut = ops.reshape(images, (batch, rows, size, columns, size, channels))
    cut = ops.transpose(cut, (0, 1, 3, 2, 4, 5))
    return ops.reshape(cut, (batch, rows * columns, size * size * channels))


def unpatchify_reference(patches, mask, *, size, height, width):
    batch, channels = ops.shape(patches)[0], patches.shape[2] // size**2
    cut = ops.reshape(patches, (batch, height // size, width // size, size, size, channels))
    cut = ops.transpose(cut, (0, 1, 3, 2, 4, 5))
    return ops.reshape(cut, (batch, height, width, channels))


def _check_size(size, height, width):
    size = check_integer("size", size)
    if any(side % size for side in (height, width) if isinstance(side, int)):
        rule = "`size` must divide the height and the width of the image."
        raise ValueError(f"{rule} Received: {size=}, {height=}, {width=}")
    return size
