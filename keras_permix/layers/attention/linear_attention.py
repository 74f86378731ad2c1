"""Attend through positive features, in time linear in the number of tokens."""

from functools import lru_cache
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_permix.layers.attention.self_attention import SelfAttention
from keras_permix.layers.parts.masks import visible_keys
from keras_permix.layers.streaming import Streaming
from keras_permix.ops.dispatch.checks import is_empty
from keras_permix.ops.reference.linear import full_precision
from keras_permix.ops.simple_attention import simple_attention_stream

LOWEST = -1e9  # the log scale before the first key
# The smallest norm, for a query whose features overlap with no key's. JAX divides by its square in
# gradients, which must not underflow.
LEAST = 1e-18


@keras.saving.register_keras_serializable("keras_permix")
class LinearAttention(Streaming, SelfAttention):
    """Attend through the feature map `elu(x) + 1`, in time and memory linear in the tokens.

    For every head, `attended = f(query) @ (f(key)^T @ value)`, with each row divided by
    `f(query) @ sum(f(key))`, where `f(x) = elu(x) + 1`. The parameters match those of
    `SoftmaxAttention`. With `causal=True` the layer supports streaming (`initial_state`, `step`,
    `chunk`) with a state of `head_dim` x (`head_dim` + 1) numbers per head.

    Inputs, outputs and `mask` are those of `SoftmaxAttention`. With `causal=True`, a query without
    real keys returns zeros.

    Args:
        num_heads, head_dim, use_qkv_bias, use_output_projection, dropout: See `SoftmaxAttention`.
            Dropout acts only after the output projection.
        causal: Whether a token attends only to itself and earlier tokens. Keys that lie more than
            41 below the largest key of their head in a call are ignored.

    Raises:
        ValueError: for an argument out of range, or an input width that the heads do not divide.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import LinearAttention
        >>> layer = LinearAttention(num_heads=4, causal=True)
        >>> tuple(layer(np.ones((2, 64, 32), "float32")).shape)
        (2, 64, 32)
        >>> outputs, state = layer.chunk(np.ones((2, 10, 32), "float32"), layer.initial_state(2))
        >>> output, state = layer.step(np.ones((2, 32), "float32"), state)
        >>> tuple(outputs.shape), tuple(output.shape)
        ((2, 10, 32), (2, 32))

    Reference: Katharopoulos et al., "Transformers are RNNs", 2020, arXiv:2006.16236, equations (5)
    and (7).
    """

    def __init__(self, *args: Any, causal: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._store(locals())

    def attend(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        if is_empty(value):  # no maximum over features
            return value
        if not self.causal:
            return linear_attention(query, key, value, mask)
        state = self.make_state(ops.shape(value)[0])
        return linear_attention_stream(query, key, value, state, mask)[0]

    def make_state(self, batch_size: int) -> dict[str, Any]:
        if not self.causal:
            raise ValueError("`initial_state` requires causal=True. Received: causal=False")
        precise = full_precision(self.compute_dtype)
        head_dim = self.qkv_dense.units // (3 * self.num_heads)
        shape = (batch_size, self.num_heads)
        return {
            "memory": ops.zeros((*shape, head_dim, head_dim + 1), precise),
            "scale": ops.full(shape, LOWEST, precise),
        }

    def read(self, tokens: Any, state: Any, mask: Any) -> tuple[Any, Any]:
        attended, state = linear_attention_stream(*self.split_heads(tokens, mask), state, mask)
        return self.merge_heads(attended), state


def linear_attention(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Attend as `LinearAttention` does, from and to `(batch, tokens, heads, head_dim)`."""
    real = None if mask is None else visible_keys(ops.cast(mask, "bool"))
    precise = full_precision(value.dtype)
    query, key = ops.cast(query, precise), hide_padding(ops.cast(key, precise), real)
    return attend_by_features(_features(query, -1), _features(key, (1, 3)), value)


def linear_attention_stream(
    query: Any, key: Any, value: Any, state: dict[str, Any], mask: Any = None
) -> tuple[Any, dict[str, Any]]:
    """Continue a causal `linear_attention`, and return the outputs and the next state.

    The state holds "memory", the sum of `f(key)^T @ [value, 1]`, and "scale", the logarithm of the
    largest feature so far if it is below 1, else 0. Features in "memory" are divided by
    `exp(scale)`.
    """
    precise = full_precision(value.dtype)
    query, key, values = (ops.cast(x, precise) for x in (query, key, value))
    key = hide_padding(key, None if mask is None else ops.cast(mask, "bool"))
    scale = ops.minimum(ops.maximum(ops.max(key, axis=(1, 3)), state["scale"]), 0.0)
    scale = ops.cast(ops.stop_gradient(scale), precise)  # `ops.maximum` loses float64 on PyTorch
    memory = state["memory"] * ops.exp(state["scale"] - scale)[..., None, None]
    values = ops.concatenate([values, ops.ones_like(values[..., :1])], axis=-1)
    query, key = _features(query, -1), _scaled_features(key, scale[:, None, :, None])
    attended, memory = simple_attention_stream(query, key, values, memory)
    attended = ops.cast(attended[..., :-1] / _bounded(attended[..., -1:]), value.dtype)
    return attended, {"memory": memory, "scale": scale}


def _features(x, axes):
    """Return `elu(x) + 1`, scaled up so that the maximum over `axes` is at least 1.

    The scale cancels out. Without it, features near 0 would underflow while their gradients would
    not.
    """
    shift = ops.stop_gradient(-ops.relu(-ops.max(x, axis=axes, keepdims=True)))
    return _scaled_features(x, shift)


def _scaled_features(x, scale):
    return ops.where(x > 0, x + 1, ops.exp(-ops.relu(-x) - scale))


def hide_padding(exponents: Any, real: Any) -> Any:
    """Set the exponents of padding to -inf, so that its features are 0."""
    if real is None:
        return exponents
    return ops.where(real[:, :, None, None], exponents, ops.cast(-float("inf"), exponents.dtype))


def attend_by_features(query: Any, key: Any, value: Any) -> Any:
    """Attend by products of positive features; keys and values are multiplied first.

    The features `(batch, tokens, heads, features)` are float32 or float64, and 0 for padding. The
    largest feature of every query, and that of the keys of every head, is at least 1.
    """
    precise = query.dtype
    # Products in float16 could overflow, and so could their gradients.
    product = precise if keras.backend.standardize_dtype(value.dtype) == "float16" else value.dtype
    memory = ops.einsum("bnhk,bnhv->bhkv", ops.cast(key, product), ops.cast(value, product))
    attended = ops.einsum("bnhk,bhkv->bnhv", ops.cast(query, product), memory)
    norm = ops.einsum("bnhk,bhk->bnh", query, ops.sum(key, axis=1))
    return ops.cast(ops.cast(attended, precise) / _bounded(norm)[..., None], value.dtype)


def _bounded(norm):
    """Return the norm, at least `LEAST`. `ops.maximum` loses float64 on PyTorch."""
    least = ops.cast(LEAST, norm.dtype)
    return ops.where(norm > least, norm, least)


@keras.saving.register_keras_serializable("keras_permix")
class PerformerAttention(SelfAttention):
    """Attend to all tokens by FAVOR+, in time and memory linear in the tokens.

    FAVOR+ estimates the weight `exp(query · key / sqrt(head_dim))` of softmax attention by the mean
    of `f(query) * f(key)` over random directions w, with `f(x) = exp(w · x - |x|² / 2)` and `x`
    scaled by `head_dim ** -0.25`. Features are computed in float32. The directions are constant,
    orthogonal in blocks of `head_dim`, and not trained. The parameters match those of
    `SoftmaxAttention`.

    Inputs, outputs and `mask` are those of `SoftmaxAttention`.

    Args:
        num_heads, head_dim, use_qkv_bias, use_output_projection, dropout: See `SoftmaxAttention`.
            Dropout acts only after the output projection.
        features: Number of random directions, shared by all heads.
        seed: Seed of the directions, an integer of at least 0.

    Raises:
        ValueError: for an argument out of range, or an input width that the heads do not divide.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import PerformerAttention
        >>> tuple(PerformerAttention(num_heads=4)(np.ones((2, 64, 32), "float32")).shape)
        (2, 64, 32)

    Reference: Choromanski et al., "Rethinking Attention with Performers", 2021, arXiv:2009.14794,
    lemma 1 and section 2.4.
    """

    def __init__(
        self, num_heads: int = 8, features: int = 128, seed: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(num_heads, **kwargs)
        self._store(locals())

    def attend(self, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        if is_empty(value):  # no maximum over features
            return value
        real = None if mask is None else visible_keys(ops.cast(mask, "bool"))
        directions = self.directions(query.shape[-1])
        query, key = (_exponents(x, directions) for x in (query, key))
        query = ops.exp(query - ops.stop_gradient(ops.max(query, axis=-1, keepdims=True)))
        key = hide_padding(key, real)
        key = ops.exp(key - ops.stop_gradient(ops.max(key, axis=(1, 3), keepdims=True)))
        attended = attend_by_features(query, key, ops.cast(value, "float32"))
        return ops.cast(attended, value.dtype)

    def directions(self, head_dim: int) -> np.ndarray:
        """Return the random directions `(features, head_dim)`, with lengths of Gaussian vectors."""
        return _directions(self.seed, self.features, head_dim).copy()


@lru_cache(64)
def _directions(seed, features, head_dim):
    # NumPy guarantees the same numbers in all versions only for this legacy generator.
    rng = np.random.RandomState(seed)
    blocks = []
    for _ in range(0, features, head_dim):
        basis, triangle = np.linalg.qr(rng.normal(size=(head_dim, head_dim)))
        basis = basis * np.sign(np.diag(triangle))  # unique, whatever LAPACK returns
        lengths = np.linalg.norm(rng.normal(size=(head_dim, head_dim)), axis=1)
        blocks.append(lengths[:, None] * basis.T)
    return np.concatenate(blocks)[:features].astype("float32")


def _exponents(x, directions):
    """Return `w · x - |x|² / 2` for every direction w, in float32."""
    x = ops.cast(x, "float32") * x.shape[-1] ** -0.25
    along = ops.einsum("bnhd,fd->bnhf", x, ops.convert_to_tensor(directions))
    return along - ops.sum(x * x, axis=-1, keepdims=True) / 2
