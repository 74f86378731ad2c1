"""Mix tokens, then channels, each with a residual and a normalization."""

from functools import partial
from typing import Any

import keras

from keras_permix._typing import Layer, Mask, Shape, Tensor
from keras_permix.layers.parts.masks import mask_arguments
from keras_permix.layers.parts.wrappers import Composite, check_inner, input_arguments, make_dropout

ACTIVATIONS = {
    "gelu": keras.activations.gelu,
    "gelu_tanh": partial(keras.activations.gelu, approximate=True),
    "relu": keras.activations.relu,
}


@keras.saving.register_keras_serializable("keras_permix")
class MixerBlock(Composite):
    """Mix tokens, then mix channels, each with a residual and a normalization.

    With `mlp(x) = dense(activation(dense(x)))`, and without dropout:

    * `norm_first=True`, as in vision transformers: `x = x + mixer(norm(x))`,
      `x = x + mlp(norm(x))`;
    * `norm_first=False`, as in BERT: `x = norm(x + mixer(x))`, `x = norm(x + mlp(x))`.

    Input and output: `(batch, tokens, channels)`, or maps `(batch, rows, columns, channels)` if the
    mixer supports them. A mask `(batch, tokens)`, True at real tokens, and an `attention_mask` are
    passed to mixers that take them.

    Args:
        mixer: The layer that mixes tokens: a layer of this package, Keras' `MultiHeadAttention`, or
            any layer that keeps the shape.
        mlp_dim: Hidden width of the channel mixer.
        norm_first: Whether to normalize the input of each mixer (pre-norm) or the sum (post-norm).
        extra_skip: `None`; "block", which adds the input of the block to its output; or
            "attention", which adds it a second time after the mixer.
        dropout: Rate of the dropout after the channel mixer, in `[0, 1)`.
        hidden_dropout: Rate of the dropout within the channel mixer.
        mixer_dropout: Rate of the dropout after the mixer, in addition to the dropout of the mixer.
        epsilon: Epsilon of the layer normalizations. BERT uses 1e-12.
        activation: "gelu", "gelu_tanh" (its tanh approximation) or "relu".

    Raises:
        ValueError: for an argument out of range, or a wrong shape.
        TypeError: if `mixer` is not a layer.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import CSP, MixerBlock
        >>> tuple(MixerBlock(CSP(), mlp_dim=64)(np.ones((2, 64, 32), "float32")).shape)
        (2, 64, 32)

    Reference: Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021, arXiv:2010.11929. Devlin
    et al., "BERT", 2018, arXiv:1810.04805. Yorsh et al., "SimpleTRON", 2022, arXiv:2111.15588 (the
    extra skip connection).
    """

    def __init__(
        self,
        mixer: Layer,
        mlp_dim: int,
        norm_first: bool = True,
        extra_skip: str | None = None,
        dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        mixer_dropout: float = 0.0,
        epsilon: float = 1e-5,
        activation: str = "gelu",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        mixer = check_inner("mixer", mixer)
        self._store(locals(), extra_skip=(None, "block", "attention"), activation=ACTIVATIONS)

    def build(self, input_shape: Shape) -> None:
        width, policy = self._tokens_shape(input_shape)[-1], self.dtype_policy
        self.mixer_norm = self._norm("mixer_norm", input_shape)
        self.mlp_norm = self._norm("mlp_norm", input_shape)
        activation = ACTIVATIONS[self.activation]
        self.mlp_in = self._dense("mlp_in", self.mlp_dim, input_shape, activation)
        self.mlp_out = self._dense("mlp_out", width, (*input_shape[:-1], self.mlp_dim))
        self.drop_mixed = make_dropout(self.mixer_dropout, dtype=policy)
        self.drop_hidden = make_dropout(self.hidden_dropout, dtype=policy)
        self.drop_outputs = make_dropout(self.dropout, dtype=policy)
        if not self.mixer.built:
            self.mixer.build(*input_arguments(self.mixer, input_shape))

    def call(
        self,
        inputs: Tensor,
        mask: Mask = None,
        attention_mask: Mask = None,
        inputs_mask: Mask = None,  # that of Keras, if there are several tensors
    ) -> Tensor:
        masks = mask_arguments(self.mixer, inputs_mask if mask is None else mask, attention_mask)
        mixed = self.mixer_norm(inputs) if self.norm_first else inputs
        tokens = inputs + self.drop_mixed(self.mixer(*input_arguments(self.mixer, mixed), **masks))
        if self.extra_skip == "attention":
            tokens = tokens + inputs
        if self.norm_first:
            tokens = tokens + self._mlp(self.mlp_norm(tokens))
        else:
            tokens = self.mixer_norm(tokens)
            tokens = self.mlp_norm(tokens + self._mlp(tokens))
        return tokens + inputs if self.extra_skip == "block" else tokens

    def _mlp(self, tokens):
        hidden = self.drop_hidden(self.mlp_in(tokens))
        return self.drop_outputs(self.mlp_out(hidden))
