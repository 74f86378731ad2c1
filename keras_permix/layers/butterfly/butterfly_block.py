"""Apply any layer to the blocks of a butterfly stage."""

from typing import Any

import keras
from keras import ops

from keras_permix._typing import Layer, Mask, Shape, Tensor
from keras_permix.layers.attention.local_attention import LocalAttention
from keras_permix.layers.mixing.token_mixer import MixingLayer, shape_of
from keras_permix.layers.parts.masks import mask_arguments
from keras_permix.layers.parts.wrappers import (
    check_inner,
    flatten_map,
    input_arguments,
    unflatten_map,
)
from keras_permix.ops import butterfly_permute, butterfly_stages, butterfly_unpermute
from keras_permix.utils.checks import check_integer, fits


@keras.saving.register_keras_serializable("keras_permix")
class ButterflyBlock(MixingLayer):
    """Apply a layer to strided blocks of tokens or channels.

    The axis is ordered by `ops.butterfly_permute` and cut into blocks of `block_size`, which become
    samples of a larger batch. The layer is applied, and the order is restored. With an attention
    layer this is Butterfly Attention, which costs O(tokens * block_size). If `block_size` is about
    the square root of the number of tokens, two layers mix all tokens.

    Input and output: those of the layer, such as `(batch, tokens, channels)`. The layer receives
    `(batch * blocks, block_size, channels)`, or `(batch * blocks, tokens, block_size)` with
    `axis=-1`. For maps `(batch, rows, columns, channels)`, axis 1 cuts rows and axis 2 columns.
    While TensorFlow traces, the size of the axis may be unknown. A mask `(batch, tokens)`, True at
    real tokens, is ordered and cut like the tokens, and passed to layers that take it. Attention
    layers also take an `attention_mask` `(batch, blocks, heads, n, n)` for blocks of n tokens, in
    the order of `cut`. It is True where a query may attend to a key, and heads may be 1.

    Args:
        block: Any layer that keeps the number of axes and the size of the cut axis. Keras'
            `MultiHeadAttention` and `GroupQueryAttention` receive the block as query and value.
        block_size: Entries per block, at least 2. `ops.butterfly_stages` must accept it.
        stage: Index of this layer in its network, from 0. Stages repeat after
            `ops.butterfly_stages(size, block_size)` layers.
        axis: Axis to cut: 1 for tokens, -1 for channels, or any axis except that of the batch.

    Raises:
        ValueError: for an axis that the input does not have, a block size that does not fit it, or
            a mask of another shape.
        TypeError: if `block` is not a layer.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import ButterflyBlock, SoftmaxAttention
        >>> layer = ButterflyBlock(SoftmaxAttention(num_heads=4), block_size=8, stage=1)
        >>> tuple(layer(np.ones((2, 64, 32), "float32")).shape)
        (2, 64, 32)

    Reference: Sapkota & Bhattarai, "Dimension Mixer", 2023, arXiv:2311.18735.
    """

    def __init__(
        self, block: Layer, block_size: int, stage: int = 0, axis: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.block = check_inner("block", block)
        self.block_size = check_integer("block_size", block_size, least=2)
        self.stage = check_integer("stage", stage, least=0)
        self.axis = axis

    def build(self, input_shape: Shape) -> None:
        shape, _ = self._block_shape(input_shape)
        if not self.block.built:
            self.block.build(*input_arguments(self.block, shape))

    def call(
        self,
        inputs: Tensor,
        mask: Mask = None,
        attention_mask: Mask = None,
        inputs_mask: Mask = None,  # that of Keras, if there are several tensors
    ) -> Tensor:
        mask = self._cut_mask(inputs_mask if mask is None else mask, inputs)
        if attention_mask is not None:
            attention_mask = ops.convert_to_tensor(attention_mask)
            attention_mask = ops.reshape(attention_mask, (-1, *ops.shape(attention_mask)[2:]))
        masks = mask_arguments(self.block, mask, attention_mask)
        outputs = self.block(*input_arguments(self.block, self.cut(inputs)), **masks)
        return self._join(ops.cast(outputs, self.compute_dtype), inputs)

    def cut(self, x: Tensor, axis: int | None = None) -> Tensor:
        """Cut the blocks out of `x`, `(batch, …, size, …)` to `(batch * blocks, …, size, …)`.

        `axis` defaults to that of the layer.
        """
        axis = self.axis if axis is None else axis
        x = ops.moveaxis(x, axis, 1)
        x = butterfly_permute(x, self.block_size, self.stage, axis=1, cyclic=True)
        batch, size, *others = ops.shape(x)
        blocks = batch * (size // self.block_size)
        return ops.moveaxis(ops.reshape(x, (blocks, self.block_size, *others)), 1, axis)

    def _join(self, x, inputs):
        """Undo `cut`, for blocks of `inputs`."""
        x, shape = ops.moveaxis(x, self.axis, 1), ops.shape(inputs)
        x = ops.reshape(x, (shape[0], shape[self.axis], *ops.shape(x)[2:]))
        x = butterfly_unpermute(x, self.block_size, self.stage, axis=1, cyclic=True)
        return ops.moveaxis(x, 1, self.axis)

    def _check_mask(self, mask, shape):
        if len(shape) == 3:  # `block` checks masks of other inputs
            super()._check_mask(mask, shape)

    def _check_attention_mask(self, mask, shape):
        (_, tokens, *_), axis = self._block_shape(shape)
        found, size = shape_of(mask), shape[axis]
        blocks = None if size is None else size // self.block_size
        if not fits(found, (shape[0], blocks, None, tokens, tokens)):
            rule = "`attention_mask` must have the shape (batch, blocks, heads, n, n)"
            raise ValueError(
                f"{rule}. Received: attention_mask.shape={found}, {blocks=}, n={tokens}"
            )

    def _cut_mask(self, mask, inputs):
        """Return the mask of the blocks."""
        if mask is None:
            return None
        mask, axis = ops.convert_to_tensor(mask), self.axis % len(inputs.shape)
        if axis < len(mask.shape):
            return self.cut(mask, axis)
        return ops.repeat(mask, ops.shape(inputs)[axis] // self.block_size, axis=0)

    def _block_shape(self, input_shape):
        """Return the shape that the layer receives, and the axis that is cut."""
        rank = len(input_shape)
        if self.axis not in range(-rank, rank) or self.axis % rank == 0:
            rule = "`axis` must be an axis of the input, except that of the batch."
            raise ValueError(f"{rule} Received: axis={self.axis}, {input_shape=}")
        axis = self.axis % rank
        if input_shape[axis] is not None:
            butterfly_stages(input_shape[axis], self.block_size)
        return (None, *_replace(input_shape, axis, self.block_size)[1:]), axis

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        shape, axis = self._block_shape(input_shape)
        spec = input_arguments(self.block, keras.KerasTensor(shape, self.compute_dtype))
        output_shape = self.block.compute_output_spec(*spec).shape
        return (input_shape[0], *_replace(output_shape, axis, input_shape[axis])[1:])


def _replace(shape, axis, size):
    """Return `shape` with size `size` on `axis`."""
    return (*shape[:axis], size, *shape[axis + 1 :])


@keras.saving.register_keras_serializable("keras_permix")
class ButterflyAttention(LocalAttention):
    """Attend with softmax attention within strided blocks of tokens.

    The stride grows with the layer index until the stages repeat. If `block_size` is about the
    square root of the number of tokens, two layers mix all tokens. The rest of a Transformer layer
    processes each token separately, so this equals `ButterflyBlock` around the whole layer. The
    weights match those of `SoftmaxAttention`.

    Inputs, outputs and `mask` are those of `SoftmaxAttention`. The blocks depend on the number of
    tokens, including padding.

    Args:
        num_heads, head_dim, use_qkv_bias, use_output_projection, dropout, fused: See
            `SoftmaxAttention`.
        block_size: Tokens per block, at least 2. It must divide the number of tokens. `None`: the
            smallest power of two not below the square root of that number, which must be known.
        layer_index: Index of this layer, from 0. It selects the stage of the butterfly.
        num_layers: Number of layers of the model.

    Raises:
        ValueError: for an argument out of range, an input width that the heads do not divide, or
            blocks that do not fill the tokens.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import ButterflyAttention
        >>> layer = ButterflyAttention(num_heads=4, layer_index=1, num_layers=2)
        >>> tuple(layer(np.ones((2, 64, 32), "float32")).shape)
        (2, 64, 32)

    Reference: Sapkota & Bhattarai, "Dimension Mixer", 2023, arXiv:2311.18735.
    """

    def __init__(
        self,
        num_heads: int = 8,
        block_size: int | None = None,
        layer_index: int = 0,
        num_layers: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, block_size, **kwargs)
        self._store(locals())

    def build(self, input_shape: tuple) -> None:
        super().build(input_shape)
        tokens = self._tokens_shape(input_shape)[1]
        if tokens is not None:
            butterfly_stages(tokens, self.tokens_per_block(tokens))

    def call(self, inputs: Any, mask: Any = None, training: bool | None = None) -> Any:  # type: ignore[override]
        tokens, mask = map(self._order, flatten_map(inputs, mask))
        return unflatten_map(self._order(super().call(tokens, mask, training), back=True), inputs)

    def attention_maps(self, inputs: Any, mask: Any = None) -> Any:  # type: ignore[override]
        """Return weights `(batch, blocks, heads, block_size, block_size)`, in block order."""
        return super().attention_maps(*map(self._order, flatten_map(inputs, mask)))

    def _order(self, x, back=False):
        """Bring the tokens of every block together, or undo it."""
        if x is None:
            return None
        order = butterfly_unpermute if back else butterfly_permute
        size = self.tokens_per_block(x.shape[1])
        return order(x, size, self.layer_index, axis=1, cyclic=True)
