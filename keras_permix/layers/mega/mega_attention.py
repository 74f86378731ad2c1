"""Attend with a single head whose queries and keys share one projection (MEGA)."""

from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_permix.layers.mega.positions import (
    key_positions,
    renewed,
    rotary_bias,
    seen_keys,
    simple_bias,
    simple_bias_between,
)
from keras_permix.layers.parts.masks import masked_softmax, visible_keys
from keras_permix.layers.parts.wrappers import Composite, make_dropout
from keras_permix.ops.backend import running
from keras_permix.ops.dispatch.checks import is_empty, require
from keras_permix.ops.reference.packing import cut, join

FUNCTIONS = ("softmax", "laplace", "relu2")
MEAN, DEVIATION = 0.707107, 0.282095  # make laplace approximate relu2


@keras.saving.register_keras_serializable("keras_permix")
class MegaAttention(Composite):
    """Attend with queries and keys that are scaled and shifted copies of a shared representation.

    Input: the shared representation `(batch, tokens, shared_dim)` and the values
    `(batch, tokens, channels)`. Output: the shape of the values.

    Args:
        function: Function of the scores. "softmax" uses `q @ k / sqrt(shared_dim) + bias`. The
            others use `s = q @ k / context + bias`, where the context is the number of visible
            keys: "laplace" is `(1 + erf((s - 0.707107) / (0.282095 * sqrt(2)))) / 2`, and "relu2"
            is `relu(s) ** 2`.
        position_bias: "simple", one bias per distance, or "rotary", the product of two vectors that
            are rotated by their positions (`shared_dim` must be even).
        max_sequence_length: Largest number of tokens for "simple". `None`: the number at build
            time. Ignored with `chunk_size`.
        chunk_size: Tokens per chunk; tokens attend within their chunk. `None`: one chunk. With
            more than one chunk and without `ragged`, it must divide the number of tokens.
        ragged: Whether to pad a shorter last chunk.
        causal: Whether a token attends only to itself and earlier tokens.
        dropout: Rate of the dropout on the attention map.
        unused: Whether the weights are only kept, and never trained.

    Reference: Ma et al., "Mega", 2022, arXiv:2209.10655, sections 3.2 to 3.5, and the released
    code, which divides by the context where the paper does not.
    """

    def __init__(
        self,
        function: str = "softmax",
        position_bias: str = "simple",
        max_sequence_length: int | None = None,
        chunk_size: int | None = None,
        ragged: bool = False,
        causal: bool = False,
        dropout: float = 0.0,
        unused: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._store(locals(), function=FUNCTIONS, position_bias=("simple", "rotary"))

    def build(self, shared_shape, values_shape):
        normal = partial(keras.initializers.RandomNormal, stddev=0.02)
        weight = partial(self.add_weight, trainable=not self.unused)
        width, self.values_width = shared_shape[-1], values_shape[-1]
        self.gamma = weight(shape=(2, width), initializer=normal(), name="gamma")
        self.beta = weight(shape=(2, width), initializer="zeros", name="beta")
        if self.position_bias == "rotary":
            if width % 2:
                raise ValueError(f"`shared_dim` must be even for 'rotary'. Received: {width}")
            self.bias_a = weight(shape=(width,), initializer=normal(), name="bias_a")
            self.bias_b = weight(shape=(width,), initializer=normal(), name="bias_b")
        else:
            self.longest = self.chunk_size or self.max_sequence_length or shared_shape[1]
            if not self.longest:
                rule = (
                    "`max_sequence_length` or `chunk_size` must be set for a simple position bias."
                )
                raise ValueError(f"{rule} Received: tokens={shared_shape[1]}")
            shape = (2 * self.longest - 1,)
            self.bias_table = weight(shape=shape, initializer=normal(), name="bias_table")
        self.map_dropout = make_dropout(self.dropout, dtype=self.dtype_policy)

    def call(self, shared, values, mask=None):
        if is_empty(shared):
            return values
        length = ops.shape(shared)[1]
        size = self.chunk_size or length
        size = min(length, size) if isinstance(length, int) else ops.minimum(length, size)
        missing = -length % size
        if self.chunk_size is None and self.position_bias == "simple":
            rule = f"The number of tokens must be at most max_sequence_length={self.longest}."
            shared = require(shared, length <= self.longest, f"{rule} Received: tokens=", length)
        elif self.chunk_size is not None and not self.ragged:
            rule = f"chunk_size={self.chunk_size} must divide the number of tokens unless `ragged`."
            shared = require(shared, missing == 0, f"{rule} Received: tokens=", length)
        if mask is None and self.ragged and (ops.is_tensor(missing) or missing):
            mask = ops.ones_like(shared[..., 0], dtype="bool")
        shared, values = cut(shared, size), cut(values, size)
        sees = self._sees(mask, size)
        query, key = self._queries_and_keys(shared)
        scores = ops.matmul(query, ops.swapaxes(key, 2, 3))
        weights = self._weights(scores, self._bias(size), sees, size)
        mixed = ops.matmul(self.map_dropout(weights), values)
        return join(mixed)[:, :length]

    def initial_state(self, batch_size: int) -> dict[str, Any]:
        """Return the state of causal attention before the first token.

        It holds "keys" and "values" `(batch, size, width)` of the current chunk, or of
        `max_sequence_length` tokens without chunks, and "position", the number of tokens read.
        """
        size = self.chunk_size or self.max_sequence_length or getattr(self, "longest", None)
        if size is None:
            rule = "`initial_state` requires `max_sequence_length` or `chunk_size`."
            raise ValueError(f"{rule} Received: neither")
        widths = {"keys": self.gamma.shape[-1], "values": self.values_width}
        state = {
            name: ops.zeros((batch_size, size, width), self.compute_dtype)
            for name, width in widths.items()
        }
        return {**state, "position": np.int32(0)}

    def chunk(self, shared: Any, values: Any, state: dict) -> tuple[Any, dict]:
        """Read several tokens of each sequence; return their outputs and the next state."""
        size, position, new = state["keys"].shape[1], state["position"], shared.shape[1]
        if new is None:
            raise ValueError("The number of tokens of a chunk must be known. Received: None")
        known = not ops.is_tensor(position) or running.has_data(position)
        if self.chunk_size is None and known and position + new > size:
            rule = f"Without `chunk_size`, the stream must have at most {size} tokens."
            raise ValueError(f"{rule} Received: tokens={position + new}")
        outputs = []
        for start in range(0, new, size):
            piece = slice(start, start + size)
            mixed, state = self._next(shared[:, piece], values[:, piece], state)
            outputs.append(mixed)
        outputs = ops.concatenate(outputs, axis=1)
        if self.chunk_size is None and not known:  # compiled steps cannot raise an error
            fits = position + ops.arange(1, new + 1) <= size
            outputs = ops.where(fits[:, None], outputs, np.nan)
        return outputs, state

    def _next(self, shared, values, state):
        """Read at most one chunk of tokens."""
        size, new = state["keys"].shape[1], shared.shape[1]
        positions = key_positions(state["position"], size, new)
        query, key = self._queries_and_keys(shared)
        keys = ops.concatenate([state["keys"], key], axis=1)
        sees = seen_keys(positions, new)
        bias = self._bias_between(positions[size:] % size, positions % size)
        weights = self._weights(ops.matmul(query, ops.swapaxes(keys, 1, 2)), bias, sees, size)
        weights = self.map_dropout(weights)
        mixed = ops.matmul(weights, ops.concatenate([state["values"], values], axis=1))
        return mixed, {
            "keys": renewed(state["keys"], key, positions),
            "values": renewed(state["values"], values, positions),
            "position": state["position"] + new,
        }

    def _queries_and_keys(self, shared):
        gamma, beta = (ops.cast(weight, shared.dtype) for weight in (self.gamma, self.beta))
        query, key = (shared * gamma[i] + beta[i] for i in range(2))
        if self.function == "softmax":  # before the product, which may overflow in float16
            query = query * query.shape[-1] ** -0.5
        return query, key

    def _sees(self, mask, size):
        """Return the mask of keys per query, broadcastable to (batch, chunks, queries, keys)."""
        position = ops.arange(0, size)  # jax2onnx requires an explicit start
        before = position <= position[:, None] if self.causal else None
        if mask is None:
            return before
        mask = ops.cast(mask, "bool")
        inside = ops.ones_like(mask)  # `cut` fills the last chunk with False
        real, there = (ops.swapaxes(cut(x[..., None], size), 2, 3) for x in (mask, inside))
        if before is not None:
            real, there = (ops.logical_and(x, before) for x in (real, there))
        return visible_keys(real, there)

    def _bias(self, size):
        if self.position_bias == "simple":
            return simple_bias(self.bias_table, size)
        positions = ops.arange(size)
        return rotary_bias(self.bias_a, self.bias_b, positions, positions)

    def _bias_between(self, queries, keys):
        """Return the bias (queries, keys) of positions in a chunk."""
        if self.position_bias == "rotary":
            return rotary_bias(self.bias_a, self.bias_b, queries, keys)
        return simple_bias_between(ops.convert_to_tensor(self.bias_table), queries, keys)

    def _weights(self, scores, bias, sees, size):
        bias = ops.cast(bias, scores.dtype)
        if self.function == "softmax":
            return masked_softmax(scores + bias, sees)
        if sees is None:
            return self._activate(scores / ops.cast(size, scores.dtype) + bias)
        sees = ops.cast(sees, scores.dtype)
        context = ops.sum(sees, axis=-1, keepdims=True)
        return self._activate(scores / context + bias) * sees

    def _activate(self, scores):
        if self.function == "relu2":
            return ops.square(ops.relu(scores))
        return 0.5 * running.erfc((MEAN - scores) / (DEVIATION * 2**0.5))

    def compute_output_shape(self, shared_shape, values_shape):
        return tuple(values_shape)
