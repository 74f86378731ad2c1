"""Preprocess images and cut them into patches."""

import warnings
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_permix._typing import Shape, Tensor
from keras_permix.layers.parts.wrappers import Composite
from keras_permix.ops import patchify
from keras_permix.ops.backend import running
from keras_permix.utils.checks import check_floats, check_positive

RANGE = (0, 255)
OVERSHOOT = 64  # how far resampled floats may exceed `RANGE`
SCALED = 8  # Smaller floats are 0–1, -1…1 or standardized, not dark images.
IMAGES = 64  # number of images to check


def check_image_range(images):
    """Check the values of up to 64 evenly spaced images; return a warning if they look scaled."""
    known = isinstance(images, np.ndarray)
    dtype = images.dtype.name if known else keras.backend.standardize_dtype(images.dtype)
    if dtype == "object" or len(images.shape) not in (3, 4) or 0 in tuple(images.shape):
        return None
    values = keras.ops.convert_to_numpy(images[:: -(-len(images) // IMAGES)])
    low, high = float(np.min(values)), float(np.max(values))
    received = f"Received: x from {low:.6g} to {high:.6g}, {dtype}"
    whole = "int" in dtype
    overshoot = 0 if whole else OVERSHOOT
    if not (RANGE[0] - overshoot <= low and high <= RANGE[1] + overshoot):
        raise ValueError(f"`x` must contain images of 0–255; the model scales them. {received}")
    if 0 < max(-low, high) <= (1 if whole else SCALED):
        return (
            "`x` must contain images of 0–255, but seems to be scaled already. The model scales "
            f"images: pass the original ones, or multiply images of 0–1 by 255. {received}"
        )
    return None


@keras.saving.register_keras_serializable("keras_permix")
class ImagePreprocessor(Composite):
    """Resize and normalize images of 0–255.

    Input: `(batch, height, width, channels)`, any integer or float dtype, 0–255.
    Output: `(batch, image_size, image_size, channels)`, `(x / 255 - mean) / std`, computed in
    float32 and returned in the layer's compute dtype. Images of another size are resized (bilinear,
    antialiased) first. Outside of compiled steps, the layer checks the values of the first batch
    and warns if they look scaled.

    Args:
        image_size: Side of the output in pixels.
        mean, std: One value per channel, on the scale 0–1. `std` must be positive.
        align_corners: Whether resizing aligns the centers of the corner pixels, as the Dimension
            Mixer's networks do, instead of the borders of the images.

    Raises:
        ValueError: for an argument out of range, a `mean` and a `std` of different lengths, images
            of another shape, or values outside 0–255 in the first batch.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import ImagePreprocessor
        >>> layer = ImagePreprocessor(image_size=32, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
        >>> images = layer(np.full((2, 48, 40, 3), 255, "uint8"))
        >>> tuple(images.shape), round(float(images[0, 0, 0, 0]), 3)
        ((2, 32, 32, 3), 2.0)
    """

    def __init__(
        self,
        image_size: int,
        mean: Sequence[float],
        std: Sequence[float],
        align_corners: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.supports_masking = False
        mean = check_floats("mean", mean, np.size(mean), "channel")
        std = [check_positive("std", x) for x in check_floats("std", std, len(mean), "channel")]
        self._store(locals())
        self.looked = False  # whether values were checked

    def check(self, inputs: Any) -> str | None:
        """Check images and return a warning or `None`; gray images may lack the channel axis.

        Raises:
            ValueError: for another number of channels, or values outside 0–255.
        """
        check_images(inputs, len(self.mean), squeezed=True)
        self.looked = True
        return check_image_range(inputs)

    def resized(self, images: Sequence[Tensor]) -> np.ndarray:
        """Resize images of different sizes with NumPy, as the layer would.

        A compiled step is then compiled for one size only.

        Args:
            images: Arrays or tensors `(height, width, channels)`, 0–255.

        Returns:
            A float32 array `(images, image_size, image_size, channels)`.
        """
        return np.stack([self._resized(ops.convert_to_numpy(image)) for image in images])

    def _resized(self, image):
        image = image.astype("float32")
        size = self.image_size
        if image.shape[:2] == (size, size):
            return image
        rows, columns = (_tents(old, size, self.align_corners, np) for old in image.shape[:2])
        return columns @ np.tensordot(rows, image, axes=1)

    def call(self, images: Tensor) -> Tensor:
        check_images(images, len(self.mean))
        if running.has_data(images) and not self.looked and not _is_plain(images):
            if warning := self.check(images):
                warnings.warn(warning, stacklevel=2)
        images = ops.cast(images, "float32")
        if tuple(images.shape[1:3]) != (self.image_size, self.image_size):
            images = _resize(images, self.image_size, self.align_corners)
        mean = ops.convert_to_tensor([255 * value for value in self.mean], "float32")
        scale = ops.convert_to_tensor([1 / (255 * value) for value in self.std], "float32")
        return ops.cast((images - mean) * scale, self.compute_dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        check_images(keras.KerasTensor(input_shape), len(self.mean))
        return (input_shape[0], self.image_size, self.image_size, len(self.mean))


def _is_plain(images):
    """Return whether the first image is constant, as in Keras' shape inference."""
    first = ops.convert_to_numpy(images[:1])
    return first.size == 0 or first.min() == first.max()


def _resize(images, size, align_corners):
    if not align_corners and running.compiles_resizing():
        options = dict(interpolation="bilinear", antialias=True, data_format="channels_last")
        return ops.image.resize(images, (size, size), **options)
    rows, columns = (_tents(old, size, align_corners) for old in ops.shape(images)[1:3])
    return ops.einsum("yh,bhwc,xw->byxc", rows, images, columns)


def _tents(old, new, align_corners, numpy=ops):
    """Return weights `(new, old)` that resize a side of `old` pixels linearly, with antialiasing.

    Weights decrease to zero over one old pixel if the side grows, else over one new pixel.
    `old` may be a tensor. `numpy` is `keras.ops` or NumPy.
    """
    old_size, positions = numpy.array(old, "float32"), numpy.arange(new, dtype="float32")
    step = (old_size - 1) / max(new - 1, 1) if align_corners else old_size / new
    positions = step * positions if align_corners else step * (positions + 0.5) - 0.5
    distance = numpy.abs(positions[:, None] - numpy.array(numpy.arange(old), "float32"))
    weights = numpy.maximum(1 - distance / numpy.maximum(step, 1.0), 0.0)
    return weights / numpy.sum(weights, axis=1, keepdims=True)


def resize_patches(kernel: Tensor, old: int, new: int) -> Tensor:
    """Resize the kernel `(old * old * channels, hidden_dim)` of a `PatchEmbedding`.

    Resized patches get the token of the original ones: exactly if they grow, else as closely as
    possible (least squares).

    Reference: Beyer et al., "FlexiViT", 2023, arXiv:2212.08013, 3.4.
    """
    if old == new:
        return kernel
    inverse = ops.convert_to_tensor(np.linalg.pinv(_tents(old, new, False, np)), "float32")
    kernel = ops.reshape(ops.cast(kernel, "float32"), (old, old, -1, kernel.shape[1]))
    resized = ops.einsum("hy,wx,hwcd->yxcd", inverse, inverse, kernel)
    return ops.reshape(resized, (-1, kernel.shape[-1]))


def check_images(images, channels, squeezed=False):
    """Check the shape of images; with `squeezed`, gray ones may lack the channel axis."""
    shape = tuple(getattr(images, "shape", ()))
    if squeezed and _lacks_channel(shape, channels):
        return
    if len(shape) != 4 or shape[-1] not in (channels, None):
        rule = f"`images` must have the shape (batch, height, width, {channels})."
        raise ValueError(f"{rule} Received: images.shape={shape}")
    if 0 in shape[1:3]:
        raise ValueError(f"`images` must not be empty. Received: images.shape={shape}")


def with_channel(images: Any, channels: int) -> Any:
    """Add the channel axis to gray images that lack it."""
    known = isinstance(images, np.ndarray) or ops.is_tensor(images)
    return images[..., None] if known and _lacks_channel(images.shape, channels) else images


def _lacks_channel(shape, channels):
    """Return whether `shape` is that of gray images without a channel axis."""
    return channels == 1 and len(shape) == 3 and shape[-1] != 1


@keras.saving.register_keras_serializable("keras_permix")
class PatchEmbedding(Composite):
    """Cut images into square patches and project each to a token.

    Input: `(batch, height, width, channels)`. Output: `(batch, patches, hidden_dim)`, in row order.
    A patch is flattened in (row, column, channel) order; see `keras_permix.ops.patchify`.

    Args:
        patch_size: Side of a patch in pixels. It must divide the sides of the image.
        hidden_dim: Channels per token.

    Raises:
        ValueError: for an argument below 1, or a size that does not divide the image.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import PatchEmbedding
        >>> layer = PatchEmbedding(patch_size=4, hidden_dim=64)
        >>> tuple(layer(np.ones((2, 32, 32, 3), "float32")).shape)
        (2, 64, 64)

    Reference: Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021, arXiv:2010.11929.
    """

    def __init__(self, patch_size: int, hidden_dim: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = False
        self.input_spec = keras.InputSpec(ndim=4)
        self._store(locals())

    def build(self, input_shape: Shape) -> None:
        _, *sides, channels = input_shape
        if not channels or any(side % self.patch_size for side in sides if side):
            rule = f"Images must have channels, and sides that {self.patch_size} divides"
            raise ValueError(f"{rule}. Received: {input_shape=}")
        features = self.patch_size**2 * channels
        self.dense = self._dense("projection", self.hidden_dim, (None, None, features))

    def call(self, images: Tensor) -> Tensor:
        return self.dense(patchify(images, self.patch_size))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        batch, height, width, _ = input_shape
        if height is None or width is None:
            return (batch, None, self.hidden_dim)
        return (batch, height // self.patch_size * (width // self.patch_size), self.hidden_dim)
