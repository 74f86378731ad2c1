"""Performer: softmax attention, estimated by positive random features."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_permix.checks import check_integer
from keras_permix.layers.attention.linear_attention import attend_by_features, hide_padding
from keras_permix.layers.attention.self_attention import SelfAttention
from keras_permix.layers.parts.maps import flatten_map, unflatten_map
from keras_permix.layers.parts.masks import visible_keys
from keras_permix.ops.dispatch.checks import is_empty


@keras.saving.register_keras_serializable("keras_permix")
class PerformerAttention(SelfAttention):
    """Multi-head self-attention by FAVOR+, in time and memory linear in the tokens.

    The weight `exp(query · key / sqrt(head_dim))` of softmax attention is the mean, over random
    directions w, of `f(query) * f(key)` with `f(x) = exp(w · x - |x|² / 2)`, `x` scaled by
    `head_dim ** -0.25`, in float32. The directions are drawn once, orthogonal in blocks of
    `head_dim`; they are no weights. The weights are those of `SoftmaxAttention`.

    Input and output: `(batch, tokens, channels)`. A mask `(batch, tokens)` is True at real tokens;
    the others are never attended to. A sample without real tokens is attended to as if nothing
    were masked.

    Args:
        num_heads, head_dim, use_qkv_bias, use_output_projection, dropout: See `SoftmaxAttention`;
            there is no map for dropout to act on.
        features: Number of random directions, the same for all heads.
        seed: Integer ≥ 0 that the directions are drawn from.

    Raises:
        ValueError: for an argument out of range, or a width that the heads do not fit.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers import PerformerAttention
    >>> tuple(PerformerAttention(num_heads=4)(np.ones((2, 64, 32), "float32")).shape)
    (2, 64, 32)

    Source: Choromanski et al., "Rethinking Attention with Performers", 2021, lemma 1 and
    section 2.4.
    """

    def __init__(
        self, num_heads: int = 8, features: int = 128, seed: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(num_heads, **kwargs)
        self.features = check_integer("features", features)
        self.seed = check_integer("seed", seed, least=0)

    def call(self, inputs: Any, mask: Any = None) -> Any:
        if is_empty(inputs):  # of which there is no largest
            return ops.zeros_like(inputs)
        tokens, mask = flatten_map(inputs, mask)
        query, key, value = self.split_heads(tokens, mask)
        real = None if mask is None else visible_keys(ops.cast(mask, "bool"))
        directions = self.directions(query.shape[-1])
        query, key = (_exponents(x, directions) for x in (query, key))
        query = ops.exp(query - ops.stop_gradient(ops.max(query, axis=-1, keepdims=True)))
        key = hide_padding(key, real)
        key = ops.exp(key - ops.stop_gradient(ops.max(key, axis=(1, 3), keepdims=True)))
        attended = attend_by_features(query, key, ops.cast(value, "float32"))
        merged = self.merge_heads(ops.cast(attended, value.dtype))
        return unflatten_map(merged, inputs)

    def directions(self, head_dim: int) -> np.ndarray:
        """The random directions, `(features, head_dim)`, as long as normal vectors are."""
        # NumPy promises that only this older generator never changes its numbers.
        rng = np.random.RandomState(self.seed)
        blocks = []
        for _ in range(0, self.features, head_dim):
            basis, triangle = np.linalg.qr(rng.normal(size=(head_dim, head_dim)))
            basis = basis * np.sign(np.diag(triangle))  # the only one, whatever the library
            lengths = np.linalg.norm(rng.normal(size=(head_dim, head_dim)), axis=1)
            blocks.append(lengths[:, None] * basis.T)
        return np.concatenate(blocks)[: self.features].astype("float32")

    def get_config(self) -> dict:
        return {**super().get_config(), "features": self.features, "seed": self.seed}


def _exponents(x, directions):
    """`w · x - |x|² / 2` for every direction, in float32."""
    x = ops.cast(x, "float32") * x.shape[-1] ** -0.25
    along = ops.einsum("bnhd,fd->bnhf", x, ops.convert_to_tensor(directions))
    return along - ops.sum(x * x, axis=-1, keepdims=True) / 2
