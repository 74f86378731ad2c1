"""Permute tokens by a differentiable relaxation of CSP."""

from typing import Any

import keras

from keras_permix import ops
from keras_permix._typing import Mask, Tensor
from keras_permix.layers.mixing.csp import CSP
from keras_permix.ops.sinkhorn import check_temperature
from keras_permix.utils.checks import check_integer


@keras.saving.register_keras_serializable("keras_permix")
class SinkhornCSP(CSP):
    """Mix tokens by a differentiable relaxation of `CSP(align="reference")`.

    In every group of tokens, each channel is aligned to the reference channel by Sinkhorn
    iterations at a temperature. As the temperature falls, the layer approaches
    `CSP(align="reference")` with the same weights. The temperature is a weight that is not
    trained. Anneal it with `layer.temperature.assign(…)` in a callback at the start of an epoch.

    Input and output: `(batch, tokens, channels)`, or maps as in `CSP`. A mask `(batch, tokens)` is
    True at real tokens. Only these are permuted, as if the padding were absent, and padded values
    become zero before the output projection. Memory grows with `iterations` × tokens ×
    `group_size` × inner channels.

    Args:
        temperature: Initial temperature, above 0, in units of a product of two values.
        iterations: Number of normalizations of rows and columns.
        group_size, shift, layer_index, num_layers, ragged: See `CSP`.
        inner_dim, use_value_bias, use_output_projection, dropout: See `CSP`.

    Raises:
        ValueError: for an argument out of range, or tokens that `group_size` does not divide if
            `ragged=False`.

    Example:

    >>> import numpy as np
    >>> from keras_permix.layers import SinkhornCSP
    >>> layer = SinkhornCSP(temperature=1.0, iterations=5, group_size=8)
    >>> tuple(layer(np.ones((2, 64, 32), "float32")).shape)
    (2, 64, 32)
    >>> layer.temperature.assign(0.1)  # doctest: +SKIP

    Reference:
        Yuan and Xu, "Towards Better Multi-head Attention via Channel-wise Sample Permutation",
        2024, arXiv:2410.10914, equation (9) and Theorem 2. The soft form is an extension of this
        package.
    """

    def __init__(self, temperature: float = 1.0, iterations: int = 20, **kwargs: Any) -> None:
        if "align" in kwargs:
            raise ValueError(
                'SinkhornCSP does not support `align`: it always uses `align="reference"`. '
                f"Received: align={kwargs['align']!r}"
            )
        super().__init__(align="reference", **kwargs)
        self.iterations = check_integer("iterations", iterations)
        check_temperature(temperature)
        self.temperature = self.add_weight(
            shape=(),
            initializer=keras.initializers.Constant(temperature),
            trainable=False,
            autocast=False,
            name="temperature",
        )

    def mix(self, values: Tensor, mask: Mask = None) -> Tensor:
        return ops.sinkhorn_csp(
            values,
            self._steps,
            self.group_size,
            iterations=self.iterations,
            temperature=keras.ops.convert_to_tensor(self.temperature),
            ragged=self.ragged,
            mask=mask,
        )

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["align"]
        temperature = float(keras.ops.convert_to_numpy(self.temperature))
        return {**config, "temperature": temperature, "iterations": self.iterations}
