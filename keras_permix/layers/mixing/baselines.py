"""Define baselines without parameters: FNet's Fourier transform and a random order."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_permix._typing import Mask, Tensor
from keras_permix.layers.mixing.token_mixer import MixingLayer
from keras_permix.layers.parts.wrappers import Composite, flatten_map, make_dropout, unflatten_map
from keras_permix.ops.dispatch.checks import is_empty


@keras.saving.register_keras_serializable("keras_permix")
class FourierMixer(MixingLayer):
    """Mix tokens by the real part of a Fourier transform along tokens and channels.

    The layer has no parameters, computes in float32 and costs O(tokens log tokens).

    Input and output: `(batch, tokens, channels)`. A mask `(batch, tokens)` is True at real tokens.
    Padding counts as zeros, so the outputs still depend on the amount of padding.

    Args:
        dropout: Rate of the dropout of the outputs, in `[0, 1)`.

    Raises:
        ValueError: for a rate out of range, or a wrong shape.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import FourierMixer
        >>> np.asarray(FourierMixer()(np.ones((1, 2, 3), "float32"))[0]).tolist()
        [[6.0, 0.0, 0.0], [0.0, 0.0, 0.0]]

    Reference: Lee-Thorp et al., "FNet", 2021, arXiv:2105.03824, equation (3).
    """

    def __init__(self, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._store(locals())

    def build(self, input_shape: tuple) -> None:
        self._tokens_shape(input_shape)
        self.output_dropout = make_dropout(self.dropout, dtype=self.dtype_policy)

    def call(self, inputs: Any, mask: Any = None) -> Any:
        x, mask = flatten_map(inputs, mask)
        if mask is not None:
            x = ops.where(ops.cast(mask, "bool")[..., None], x, ops.zeros_like(x))
        return self.output_dropout(unflatten_map(fourier_transform(x), inputs))


def fourier_transform(x: Any) -> Any:
    """Return the real part of a Fourier transform along the last two axes of `x`."""
    if is_empty(x):  # not supported by PyTorch
        return x
    precise = ops.cast(x, "float32")
    real, _ = ops.fft2((precise, ops.zeros_like(precise)))
    return ops.cast(real, x.dtype)


@keras.saving.register_keras_serializable("keras_permix")
class RandomOrder(Composite):
    """Reorder the tokens randomly, in the same way for all samples and channels.

    The order depends on the seed and the number of tokens only, and is the same on every backend.
    Placed before layers that mix neighboring tokens, it measures how much the neighborhood
    contributes.

    Input and output: `(batch, tokens, channels)`. A mask `(batch, tokens)` is reordered like the
    tokens and passed on. The number of tokens must be known, even while TensorFlow traces.

    Args:
        seed: An integer of at least 0.

    Raises:
        ValueError: for a negative seed, a wrong shape, or an unknown number of tokens.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import RandomOrder
        >>> RandomOrder(seed=1).order(6).tolist()
        [2, 1, 4, 0, 3, 5]

    Reference: Sapkota & Bhattarai, "Dimension Mixer", 2023, arXiv:2311.18735, Table VII.
    """

    def __init__(self, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.input_spec = keras.InputSpec(ndim=3)
        self._store(locals())

    def order(self, tokens: int | None) -> np.ndarray:
        """Return the source of each token, an integer array `(tokens,)`."""
        if tokens is None:
            raise ValueError("RandomOrder requires a known number of tokens. Received: tokens=None")
        # NumPy guarantees the same numbers in all versions only for this legacy generator.
        return np.random.RandomState(self.seed).permutation(tokens)

    def call(self, inputs: Tensor) -> Tensor:
        return ops.take(inputs, self.order(inputs.shape[1]), axis=1)

    def compute_mask(self, inputs: Tensor, previous_mask: Mask) -> Mask:
        if previous_mask is None:
            return None
        return ops.take(previous_mask, self.order(inputs.shape[1]), axis=1)
