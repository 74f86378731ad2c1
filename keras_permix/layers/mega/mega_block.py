"""Define the block of MEGA: gated attention over a moving average, then a feed-forward layer."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_permix._typing import Layer, Mask, Shape, Tensor
from keras_permix.layers.mega.damped_ema import DampedEMA
from keras_permix.layers.mega.mega_attention import FUNCTIONS, MegaAttention
from keras_permix.layers.mega.mega_feed_forward import (
    NORMS,
    STDDEV,
    MegaFeedForward,
    make_norm,
    normalize,
)
from keras_permix.layers.mixers import CUSTOM, MIXERS, check_mixer, make_mixer
from keras_permix.layers.mixing.token_mixer import TokenMixer
from keras_permix.layers.parts.masks import clean_padding, mask_arguments
from keras_permix.layers.parts.wrappers import Composite, input_arguments, make_dropout
from keras_permix.layers.streaming import Streaming
from keras_permix.utils.checks import check_choice, check_named, check_names


@keras.saving.register_keras_serializable("keras_permix")
class MegaBlock(Streaming, Composite):
    """Average tokens, mix them by gated attention or permutation, then mix channels.

    With `x = norm(inputs)` and `averaged = DampedEMA(x)`:

        values = silu(x @ Wv + bv)
        update, shared, reset, candidate = split(averaged @ Wm + bm)
        hidden = silu(candidate + (mixer(silu(shared), values) * silu(reset)) @ Wh + bh)
        outputs = inputs + sigmoid(update) * (hidden - inputs)

    followed by the feed-forward layer. If `mixer` is a layer, it receives only the values. With
    `CSP(..., use_value_projection=False, use_output_projection=False)`, time and memory of the
    block are linear in the tokens.

    Input and output: `(batch, tokens, channels)`. A mask `(batch, tokens)` is True at real tokens.
    Padding is neither averaged nor attended to nor permuted. A causal block without `truncation`
    supports streaming (`initial_state`, `step`, `chunk`) without masks. Its state holds the keys
    and values of a chunk, or of `max_sequence_length` tokens without chunks. If compiled, `step`
    and `chunk` return NaN for later tokens.

    Args:
        inner_dim: Width of the values. `None`: twice the width of the input.
        shared_dim: Width of the shared representation of queries and keys.
        mixer: An attention function, "softmax", "laplace" or "relu2" (see `MegaAttention`), or a
            layer that keeps the shape of the values `(batch, tokens, inner_dim)`. The mask is
            passed to layers that take one; others treat padding as real tokens.
        mlp_dim: Hidden width of the feed-forward layer. `None`: `inner_dim`.
        average: A dict of arguments of `DampedEMA`: `ema_dim`, `truncation`, `bidirectional`.
            `bidirectional` defaults to `not causal`.
        attention: A dict of arguments of `MegaAttention`: `position_bias`, `max_sequence_length`,
            `chunk_size`, `ragged`, and `dropout`, the rate of the dropout on the attention map.
        causal: Whether a token depends only on itself and earlier tokens. Requires an attention
            function.
        norm: "layernorm", "scalenorm", "rmsnorm" or "batchnorm". On PyTorch, all except "scalenorm"
            compute in float32 even for float64 inputs. In training, the statistics of "batchnorm"
            are those of all tokens of a batch, also with `causal=True`.
        norm_first: Whether to normalize the inputs of both halves of the block or their outputs.
        dropout: Rate of the dropouts of the average, the hidden values and the outputs.
        hidden_dropout: Rate of the dropouts of the values and within the feed-forward layer.
        drop_unused: Whether to omit the weights of attention if `mixer` is a layer. The released
            code of CSP keeps these unused weights.

    Raises:
        ValueError: for an argument that is out of range or unknown, or an unsupported number of
            tokens. Graphs that TensorFlow traced for any number of tokens raise a TensorFlow error.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import MegaBlock
        >>> tuple(MegaBlock(shared_dim=16)(np.ones((2, 64, 32), "float32")).shape)
        (2, 64, 32)
        >>> block = MegaBlock(attention={"chunk_size": 32}, causal=True)
        >>> tuple(block(np.ones((2, 64, 32), "float32")).shape)
        (2, 64, 32)
        >>> outputs, state = block.chunk(np.ones((2, 40, 32), "float32"), block.initial_state(2))
        >>> output, state = block.step(np.ones((2, 32), "float32"), state)
        >>> tuple(output.shape), int(state["attention"]["position"])
        ((2, 32), 41)

    Reference: Ma et al., "Mega", 2022, arXiv:2209.10655 and the released code. Yuan & Xu,
    "Channel-wise Sample Permutation", 2024, arXiv:2410.10914 (CSP as the mixer).
    """

    def __init__(
        self,
        inner_dim: int | None = None,
        shared_dim: int = 64,
        mixer: str | Layer = "softmax",
        mlp_dim: int | None = None,
        average: dict[str, Any] | None = None,
        attention: dict[str, Any] | None = None,
        causal: bool = False,
        norm: str = "layernorm",
        norm_first: bool = True,
        dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        drop_unused: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        mixer = keras.layers.deserialize(mixer) if isinstance(mixer, dict) else mixer
        self.attends = not isinstance(mixer, keras.layers.Layer)
        if self.attends:
            check_choice("mixer", mixer, FUNCTIONS)
        self.attention_arguments = dict(attention or {})
        del attention
        average = dict(average or {})
        self._store(locals(), norm=NORMS)
        self.ema = self._make_ema()
        self.attention = self._make_attention()

    def _make_ema(self):
        arguments = {"bidirectional": not self.causal, **self.average}
        if self.causal and arguments["bidirectional"]:
            rule = "`average` must not set `bidirectional=True` in a causal block."
            raise ValueError(f"{rule} Received: average={self.average}")
        return DampedEMA(**arguments, dtype=self.dtype_policy, name="ema")

    def _make_attention(self):
        """Return the attention, or None if no attention weights are wanted."""
        chunk_size = self.attention_arguments.get("chunk_size")
        if not self.attends and (self.causal or chunk_size is not None):
            rule = "`mixer` must be an attention function for `causal` and `chunk_size`."
            raise ValueError(f"{rule} Received: mixer={self.mixer}")
        attention = MegaAttention(
            function=self.mixer if self.attends else "softmax",
            causal=self.causal,
            unused=not self.attends,
            **self.attention_arguments,
            dtype=self.dtype_policy,
            name="attention",
        )
        return attention if self.attends or not self.drop_unused else None

    def build(self, input_shape: Shape) -> None:
        *outer, width = self._tokens_shape(input_shape, maps=False)
        policy, inner = self.dtype_policy, self.inner_dim or 2 * width
        shared = 0 if self.attention is None else self.shared_dim
        self.parts = (width, shared, inner, width)  # widths of the gates
        self.norm_layer = make_norm(self.norm, dtype=policy, name="norm")
        self.norm_layer.build(input_shape)
        self.ema.build(input_shape)
        self.value_dense = self._dense("value", inner, input_shape, "silu", STDDEV)
        self.gate_dense = self._dense("gate", sum(self.parts), input_shape, stddev=STDDEV)
        self.hidden_dense = self._dense("hidden", width, (*outer, inner), stddev=STDDEV)
        if self.attention is not None:
            self.attention.build((*outer, shared), (*outer, inner))
        if not self.attends and not self.mixer.built:
            self.mixer.build(*input_arguments(self.mixer, (*outer, inner)))
        self.feed_forward = MegaFeedForward(
            mlp_dim=self.mlp_dim or inner,
            norm=self.norm,
            norm_first=self.norm_first,
            dropout=self.dropout,
            hidden_dropout=self.hidden_dropout,
            dtype=policy,
            name="feed_forward",
        )
        self.feed_forward.build(input_shape)
        self.average_dropout = make_dropout(self.dropout, dtype=policy)
        self.value_dropout = make_dropout(self.hidden_dropout, dtype=policy)
        self.output_dropout = make_dropout(self.dropout, dtype=policy)

    def call(self, inputs: Tensor, mask: Mask = None) -> Tensor:
        inputs = clean_padding(inputs, mask)
        x = self._begin(inputs, mask)
        values, averaged = self._values(x), self.ema(x, mask=mask)
        update, shared, reset, candidate = self._gates(averaged)
        if self.attends:
            mixed = self.attention(shared, values, mask=mask)
        else:
            arguments = input_arguments(self.mixer, values)
            mixed = self.mixer(*arguments, **mask_arguments(self.mixer, mask))
            mixed = ops.cast(mixed, values.dtype)
        return self._end(inputs, update, mixed * reset, candidate, mask)

    def make_state(self, batch_size: int) -> dict[str, Any]:
        if not self.causal:
            raise ValueError("`initial_state` requires causal=True. Received: causal=False")
        return {
            "average": self.ema.initial_state(batch_size),
            "attention": self.attention.initial_state(batch_size),
        }

    def read(self, tokens: Tensor, state: Any, mask: Mask) -> tuple[Tensor, Any]:
        if mask is not None:
            rule = "`mask` must be None in streams"
            raise ValueError(f"{rule}. Received: mask.shape={tuple(mask.shape)}")
        x = self._begin(tokens, None)
        averaged, average = self.ema.chunk(x, state["average"])
        update, shared, reset, candidate = self._gates(averaged)
        mixed, attention = self.attention.chunk(shared, self._values(x), state["attention"])
        outputs = self._end(tokens, update, mixed * reset, candidate, None)
        return outputs, {"average": average, "attention": attention}

    def _begin(self, inputs, mask):
        return normalize(self.norm_layer, inputs, mask) if self.norm_first else inputs

    def _values(self, x):
        return self.value_dropout(self.value_dense(x))

    def _gates(self, averaged):
        """Return the update gate, the shared representation, the reset gate and the candidate."""
        gates = self.gate_dense(self.average_dropout(averaged))
        ends = np.cumsum(self.parts)[:3].tolist()
        update, shared, reset, candidate = ops.split(gates, ends, axis=-1)
        return ops.sigmoid(update), ops.silu(shared), ops.silu(reset), candidate

    def _end(self, inputs, update, mixed, candidate, mask):
        hidden = ops.silu(candidate + self.hidden_dense(mixed))
        x = inputs + update * (self.output_dropout(hidden) - inputs)
        x = x if self.norm_first else normalize(self.norm_layer, x, mask)
        return self.feed_forward(x, mask=mask)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "attention": self.attention_arguments}


# Mixers without projections, which the block provides.
PERMUTING = tuple(name for name in MIXERS if issubclass(MIXERS[name].layer, TokenMixer))


def check_mega_mixer(mixer):
    """Check a mixer and return the name of an attention function, or a dict of another mixer."""
    if isinstance(mixer, keras.layers.Layer):
        mixer = check_mixer(mixer)
    spec = check_named("mixer", mixer, (*FUNCTIONS, *PERMUTING, CUSTOM))
    if spec["name"] not in FUNCTIONS:
        return check_mixer(spec)
    check_names(spec["name"], spec, ["name"])
    return spec["name"]


def make_mega_mixer(spec, layer_index, num_layers, ragged, **arguments):
    """Make the mixer of a `MegaBlock`: the name of a function, or a layer without projections."""
    if spec in FUNCTIONS:
        return spec
    arguments |= {"use_value_projection": False, "use_output_projection": False}
    return make_mixer(spec, layer_index, num_layers, ragged=ragged, **arguments)
