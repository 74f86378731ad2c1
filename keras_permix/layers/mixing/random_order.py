"""One fixed random order of the tokens: a control for what their order contributes."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_permix._typing import Mask, Shape, Tensor
from keras_permix.layers.parts.checks import check_tokens
from keras_permix.utils.checks import check_integer


@keras.saving.register_keras_serializable("keras_permix")
class RandomOrder(keras.layers.Layer):
    """Bring the tokens into one random order, the same for all samples and channels.

    The order depends on the seed and the number of tokens only, on every backend. Before a network
    whose blocks hold neighbors, such as Butterfly Attention, it shows how much the neighborhood
    matters.

    Input and output: `(batch, tokens, channels)`. A mask `(batch, tokens)` is ordered like the
    tokens and handed on. The number of tokens must be known, also while TensorFlow traces.

    Args:
        seed: An integer of at least 0.

    Raises:
        ValueError: for a negative seed, a wrong shape, or an unknown number of tokens.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers import RandomOrder
    >>> RandomOrder(seed=1).order(6).tolist()
    [2, 1, 4, 0, 3, 5]

    Source: Sapkota & Bhattarai, "Dimension Mixer", 2023, Table VII.
    """

    def __init__(self, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.seed = check_integer("seed", seed, least=0)

    def build(self, input_shape: Shape) -> None:
        check_tokens("RandomOrder", input_shape)

    def order(self, tokens: int | None) -> np.ndarray:
        """Which token comes to each place, an integer array `(tokens,)`."""
        if tokens is None:
            raise ValueError("RandomOrder needs a known number of tokens. Received: tokens=None")
        # NumPy promises that only this older generator never changes its numbers.
        return np.random.RandomState(self.seed).permutation(tokens)

    def call(self, inputs: Tensor) -> Tensor:
        return ops.take(inputs, self.order(inputs.shape[1]), axis=1)

    def compute_mask(self, inputs: Tensor, previous_mask: Mask) -> Mask:
        if previous_mask is None:
            return None
        return ops.take(previous_mask, self.order(inputs.shape[1]), axis=1)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "seed": self.seed}
