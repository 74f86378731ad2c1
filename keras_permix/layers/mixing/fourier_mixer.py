"""FNet's mixing of tokens by a Fourier transform."""

from typing import Any

import keras
from keras import ops

from keras_permix.checks import check_rate
from keras_permix.layers.parts.dropout import make_dropout
from keras_permix.layers.parts.maps import flatten_map, tokens_shape, unflatten_map
from keras_permix.layers.parts.one_tensor import OneTensor
from keras_permix.ops.dispatch.checks import is_empty


@keras.saving.register_keras_serializable("keras_permix")
class FourierMixer(OneTensor):
    """Mix tokens by the real part of a Fourier transform along tokens and channels.

    It has no weights, computes in float32 and costs O(tokens log tokens).

    Input and output: `(batch, tokens, channels)`. A mask `(batch, tokens)` is True at real tokens:
    the others count as zeros. They are waves' places all the same, so what real tokens become
    depends on how many others there are.

    Args:
        dropout: Rate of the dropout of the outputs, in `[0, 1)`.

    Raises:
        ValueError: for a rate out of range, or a wrong shape.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers import FourierMixer
    >>> np.asarray(FourierMixer()(np.ones((1, 2, 3), "float32"))[0]).tolist()
    [[6.0, 0.0, 0.0], [0.0, 0.0, 0.0]]

    Source: Lee-Thorp et al., "FNet", 2021, equation (3).
    """

    def __init__(self, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.dropout = check_rate("dropout", dropout)

    def build(self, input_shape: tuple) -> None:
        tokens_shape("FourierMixer", input_shape)
        self.output_dropout = make_dropout(self.dropout, dtype=self.dtype_policy)

    def call(self, inputs: Any, mask: Any = None) -> Any:
        x, mask = flatten_map(inputs, mask)
        if mask is not None:
            x = ops.where(ops.cast(mask, "bool")[..., None], x, ops.zeros_like(x))
        return self.output_dropout(unflatten_map(fourier_transform(x), inputs))

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return tuple(input_shape)

    def get_config(self) -> dict:
        return {**super().get_config(), "dropout": self.dropout}


def fourier_transform(x: Any) -> Any:
    """The real part of a Fourier transform along the last two axes, a tensor like `x`."""
    if is_empty(x):  # which PyTorch does not transform
        return x
    precise = ops.cast(x, "float32")
    real, _ = ops.fft2((precise, ops.zeros_like(precise)))
    return ops.cast(real, x.dtype)
