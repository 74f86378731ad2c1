"""Define the variants of SimpleTRON's block."""

from typing import Any

import keras

from keras_permix.layers.attention.simple_attention import SimpleAttention
from keras_permix.layers.blocks.mixer_block import MixerBlock
from keras_permix.utils.checks import check_choice

# (use_output_projection, whether to add the extra skip) by name.
VARIANTS = {
    "simple": (False, False),
    "simple_res": (False, True),
    "simple_resl": (True, True),
    "simple_l": (True, False),
}


@keras.saving.register_keras_serializable("keras_permix")
class SimpleAttentionBlock(MixerBlock):
    """Mix tokens by `SimpleAttention` in a post-norm block, in the variants of SimpleTRON.

    | variant | output projection | extra skip |
    | --- | --- | --- |
    | "simple" | no | no |
    | "simple_res" | no | yes |
    | "simple_resl" | yes | yes |
    | "simple_l" | yes | no |

    The paper does not name the last variant and reports that it usually does not converge. It
    leaves open where the extra skip goes; `extra_skip` supports both readings.

    Input and output: `(batch, tokens, channels)`. A mask `(batch, tokens)` is True at real tokens.
    Padding is never attended to.

    Args:
        num_heads: Number of heads. It must divide the input width.
        mlp_dim: Hidden width of the channel mixer.
        variant: A variant of the table.
        extra_skip: "block", from the input of the block to its output, or "attention", a second
            addition around the attention only. Ignored by variants without it.
        scale, causal: See `SimpleAttention`.
        dropout: Rate of the dropouts after the attention and after the channel mixer.
        epsilon: Epsilon of the layer normalizations. Defaults to that of BERT.
        hidden_dropout, activation: See `MixerBlock` (keyword only).

    Raises:
        ValueError: for an argument out of range, or an input width that the heads do not divide.

    Example:
        >>> import numpy as np
        >>> from keras_permix.layers import SimpleAttentionBlock
        >>> block = SimpleAttentionBlock(num_heads=4, mlp_dim=64)
        >>> tuple(block(np.ones((2, 64, 32), "float32")).shape)
        (2, 64, 32)

    Reference: Yorsh et al., "SimpleTRON", 2022, arXiv:2111.15588.
    """

    def __init__(
        self,
        num_heads: int,
        mlp_dim: int,
        variant: str = "simple_resl",
        extra_skip: str = "block",
        scale: str | None = "length",
        causal: bool = False,
        dropout: float = 0.0,
        epsilon: float = 1e-12,
        **kwargs: Any,
    ) -> None:
        check_choice("extra_skip", extra_skip, ("block", "attention"))
        use_output_projection, skips = VARIANTS[check_choice("variant", variant, VARIANTS)]
        super().__init__(
            mixer=SimpleAttention(
                num_heads=num_heads,
                use_output_projection=use_output_projection,
                scale=scale,
                causal=causal,
                dtype=kwargs.get("dtype"),
                name="attention",
            ),
            mlp_dim=mlp_dim,
            norm_first=False,
            extra_skip=extra_skip if skips else None,
            dropout=dropout,
            mixer_dropout=dropout,
            epsilon=epsilon,
            **kwargs,
        )
        self.variant = variant
        self.given_skip = extra_skip

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        for fixed in ("mixer", "mixer_dropout", "norm_first"):
            del config[fixed]
        attention = {name: getattr(self.mixer, name) for name in ("num_heads", "scale", "causal")}
        return {**config, **attention, "extra_skip": self.given_skip}
