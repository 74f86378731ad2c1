"""RandAugment with operations drawn for each image, as a Keras layer.

Keras' own `RandAugment` (as of 3.15) draws one operation for a whole batch, equalizes the
batch's histogram instead of the image's, and computes every operation to keep one. Here each
image takes at most one of three roads: a warp, a blend with a duller copy of itself, or a new
table of levels. Shapes never depend on what was drawn, so nothing compiles twice.
"""

import math
from typing import Any

import keras
from keras import ops

from keras_permix._typing import Shape, Tensor

KINDS = (
    "identity", "auto_contrast", "equalize", "rotate", "solarize", "color", "posterize",
    "contrast", "brightness", "sharpness", "shear_x", "shear_y", "translate_x", "translate_y",
)  # fmt: skip
# What full strength means, from table 6 of AutoAugment (https://arxiv.org/abs/1805.09501).
ROTATE, SHEAR, TRANSLATE, BLEND, POSTERIZE = math.radians(30), 0.3, 0.45, 0.9, 4
FILL = 128.0
LEVELS = 256


@keras.saving.register_keras_serializable("keras_permix")
class RandAugment(keras.layers.Layer):
    """Change each image by operations of its own, drawn at random.

    Input and output are images `(batch, height, width, channels)` with levels from 0 to 255;
    output is in the layer's compute dtype.

    Args:
        num_ops: operations applied to an image, one after another.
        factor: strength, from 0 to 1; 0.3 is strength 9 of 30 in the paper.
        seed: int, or None for a random one.

    Raises:
        ValueError: if `num_ops` or `factor` is out of range.

    Example:

    >>> images = np.zeros((8, 32, 32, 3), "uint8")
    >>> RandAugment(num_ops=2, factor=0.3, seed=0)(images, training=True).shape == images.shape
    True

    Source: [Cubuk, Zoph, Shlens and Le, 2020](https://arxiv.org/abs/1909.13719).
    """

    def __init__(
        self, num_ops: int = 2, factor: float = 0.3, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if not (isinstance(num_ops, int) and num_ops >= 1 and 0 <= factor <= 1):
            raise ValueError(
                "`num_ops` must be an int of 1 or more, and `factor` from 0 to 1. "
                f"Received: num_ops={num_ops!r}, factor={factor!r}"
            )
        self.num_ops, self.factor, self.seed = num_ops, factor, seed
        self.generator = keras.random.SeedGenerator(seed)

    def call(self, images: Tensor, training: bool | None = False) -> Tensor:
        if not training:
            return ops.cast(images, self.compute_dtype)
        drawn = self.get_random_transformation(images, seed=self.generator)
        return self.transform_images(images, drawn)

    def get_random_transformation(
        self, images: Tensor, training: bool | None = True, seed: Any = None
    ) -> tuple[Tensor, Tensor]:
        """Draw the kind of each operation, and its strength with a sign."""
        seed = self.generator if seed is None else seed
        shape = (self.num_ops, ops.shape(images)[0])
        kinds = keras.random.randint(shape, 0, len(KINDS), seed=seed)
        signs = keras.random.randint(shape, 0, 2, seed=seed) * 2 - 1
        return kinds, self.factor * ops.cast(signs, self.compute_dtype)

    def transform_images(
        self, images: Tensor, transformation: tuple[Tensor, Tensor], training: bool | None = True
    ) -> Tensor:
        """Apply operations as drawn."""
        images = ops.cast(images, self.compute_dtype)
        kinds, amounts = transformation
        for step in range(self.num_ops):
            images = apply_kinds(images, kinds[step], amounts[step])
        return images

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        own = {"num_ops": self.num_ops, "factor": self.factor, "seed": self.seed}
        return {**super().get_config(), **own}


def apply_kinds(images, kinds, amounts):
    """Apply to each image the operation of its own kind.

    Args:
        images: float `(batch, height, width, channels)`, levels 0 to 255.
        kinds: int `(batch,)`, indices into `KINDS`.
        amounts: float `(batch,)`, strength from -1 to 1.

    Returns:
        Images of the same shape.
    """
    amounts = amounts[:, None, None, None]

    def chosen(name):
        return ops.equal(kinds, KINDS.index(name))[:, None, None, None]

    return _relevel(_blend(_warp(images, chosen, amounts), chosen, amounts), chosen, amounts)


def _warp(images, chosen, amounts):
    def amount(name, full):
        return ops.where(chosen(name), full * amounts, 0.0)[:, 0, 0, 0]

    _, height, width, _ = images.shape
    middle_x, middle_y = (width - 1) / 2, (height - 1) / 2
    angle = amount("rotate", ROTATE)
    xx, xy = ops.cos(angle), amount("shear_x", SHEAR) - ops.sin(angle)
    yx, yy = amount("shear_y", SHEAR) + ops.sin(angle), ops.cos(angle)
    x = middle_x - xx * middle_x - xy * middle_y + amount("translate_x", TRANSLATE * width)
    y = middle_y - yx * middle_x - yy * middle_y + amount("translate_y", TRANSLATE * height)
    none = ops.zeros_like(x)
    matrices = ops.stack([xx, xy, x, yx, yy, y, none, none], axis=1)
    warped = ops.image.affine_transform(
        images, matrices, "bilinear", "constant", FILL, data_format="channels_last"
    )
    changed = chosen("rotate")
    for name in ("shear_x", "shear_y", "translate_x", "translate_y"):
        changed = ops.logical_or(changed, chosen(name))
    return ops.where(changed, warped, images)


def _blend(images, chosen, amounts):
    gray = _gray(images)
    contrast = ops.mean(gray, axis=(1, 2, 3), keepdims=True)
    for name, dull in (
        ("brightness", ops.zeros_like(images)),
        ("color", gray),
        ("contrast", contrast),
        ("sharpness", _smooth(images)),
    ):
        blended = ops.clip(images + BLEND * amounts * (images - dull), 0.0, 255.0)
        images = ops.where(chosen(name), blended, images)
    return images


def _gray(images):
    """Luma of ITU-R BT.601 for three channels, else the mean of the channels."""
    if images.shape[-1] != 3:
        return ops.mean(images, axis=-1, keepdims=True)
    return ops.sum(images * ops.convert_to_tensor([0.299, 0.587, 0.114], images.dtype), -1, True)


def _smooth(images):
    """Mean of 3 x 3 pixels, the middle one counting five times; the border stays."""
    height, width = images.shape[1:3]
    total = 4 * images[:, 1:-1, 1:-1]
    for row in range(3):
        for column in range(3):
            total = total + images[:, row : row + height - 2, column : column + width - 2]
    inner = ops.pad(total / 13, ((0, 0), (1, 1), (1, 1), (0, 0)))
    inside = ops.pad(ops.ones_like(total), ((0, 0), (1, 1), (1, 1), (0, 0)))
    return ops.where(inside > 0, inner, images)


def _relevel(images, chosen, amounts):
    strength = ops.abs(amounts)
    steps = 2 ** ops.round(POSTERIZE * strength)
    solarized = ops.where(images >= 255 * (1 - strength), 255 - images, images)
    for name, levels in (
        ("posterize", ops.floor(images / steps) * steps),
        ("solarize", solarized),
        ("auto_contrast", _auto_contrast(images)),
        ("equalize", _equalize(images)),
    ):
        images = ops.where(chosen(name), levels, images)
    return images


def _auto_contrast(images):
    low = ops.min(images, axis=(1, 2), keepdims=True)
    high = ops.max(images, axis=(1, 2), keepdims=True)
    scale = 255 / ops.maximum(high - low, 1)
    return ops.where(high > low, (images - low) * scale, images)


def _equalize(images):
    """Spread the levels of each channel of each image evenly; the sums are integers."""
    batch, height, width, channels = ops.shape(images)
    levels = ops.cast(ops.round(images), "int32")
    rows = ops.reshape(ops.arange(batch * channels, dtype="int32"), (batch, 1, 1, channels))
    places = ops.reshape(levels + LEVELS * rows, (-1,))
    counts = ops.segment_sum(ops.ones_like(places), places, batch * channels * LEVELS)
    counts = ops.reshape(counts, (batch, channels, LEVELS))
    highest = ops.max(levels, axis=(1, 2))[:, :, None]
    at_highest = ops.equal(ops.arange(LEVELS, dtype="int32"), highest)
    last = ops.sum(ops.where(at_highest, counts, 0), axis=-1, keepdims=True)
    step = (height * width - last) // 255
    below = ops.cumsum(counts, axis=-1) - counts
    table = ops.clip((step // 2 + below) // ops.maximum(step, 1), 0, 255)
    spread = ops.reshape(ops.take(ops.reshape(table, (-1,)), places), ops.shape(images))
    even = ops.reshape(step, (batch, 1, 1, channels)) > 0
    return ops.where(even, ops.cast(spread, images.dtype), images)
