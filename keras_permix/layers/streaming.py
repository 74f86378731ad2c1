"""Read a sequence in chunks, with constant time per token and constant memory."""

from typing import Any

import keras
from keras import ops

from keras_permix._typing import Mask, Tensor
from keras_permix.ops.dispatch.checks import check_mask, is_empty
from keras_permix.utils.checks import fits


class Streaming:
    """Read a sequence in chunks, with `initial_state`, `step` and `chunk`.

    The outputs match those of the whole sequence. The state is a nested structure of tensors
    with constant shapes and dtypes, as `jax.jit`, `jax.lax.scan` and `tf.function` require. No
    gradient flows from one chunk to the previous one.

    A subclass implements `make_state(batch_size)`, which returns the initial state of a built
    layer, and `read(tokens, state, mask)`, which returns the outputs and the next state.
    """

    def initial_state(self: Any, batch_size: int) -> Any:
        """Return the state before the first token.

        Args:
            batch_size: Number of sequences.

        Returns:
            A nested structure of tensors.

        Raises:
            ValueError: if the layer is not built, or if its outputs depend on later tokens.
        """
        if not self.built:
            raise ValueError("`initial_state` requires a built layer. Received: built=False")
        return self.make_state(batch_size)

    def step(self, token: Tensor, state: Any, mask: Mask = None) -> tuple[Tensor, Any]:
        """Read one token of each sequence.

        Args:
            token: Tensor `(batch, channels)`.
            state: State from `initial_state` or the previous call.
            mask: Booleans `(batch,)`, True at real tokens.

        Returns:
            `(output, state)`: the output for this token, `(batch, channels)`, and the next state.
        """
        mask = None if mask is None else ops.expand_dims(mask, 1)
        outputs, state = self.chunk(ops.expand_dims(token, 1), state, mask)
        return outputs[:, 0], state

    def chunk(self: Any, tokens: Tensor, state: Any, mask: Mask = None) -> tuple[Tensor, Any]:
        """Read several tokens of each sequence.

        Args:
            tokens: Tensor `(batch, tokens, channels)`.
            state: State from `initial_state` or the previous call.
            mask: Booleans `(batch, tokens)`, True at real tokens.

        Returns:
            `(outputs, state)`: the outputs for these tokens, `(batch, tokens, channels)`, and the
            next state.

        Raises:
            ValueError: for tokens or a mask of another shape, or another number of sequences than
                the state.
        """
        mask = getattr(tokens, "_keras_mask", None) if mask is None else mask
        tokens = ops.convert_to_tensor(tokens, self.compute_dtype)
        batch = keras.tree.flatten(state)[0].shape[0]
        if not fits(tokens.shape, (batch, None, None)):
            rule = f"`tokens` must be (batch, tokens, channels), with {batch} sequences as `state`."
            raise ValueError(f"{rule} Received: shape={tuple(tokens.shape)}")
        mask = check_mask(mask, tokens, "tokens")
        if is_empty(tokens):
            return tokens, state
        outputs, state = self.read(tokens, state, mask)
        return outputs, keras.tree.map_structure(
            lambda x: ops.stop_gradient(x) if ops.is_tensor(x) else x, state
        )
