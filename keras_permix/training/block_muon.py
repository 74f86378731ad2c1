"""Muon for kernels that are stacks of matrices."""

import keras

from keras_permix._typing import Tensor


@keras.saving.register_keras_serializable("keras_permix")
class BlockMuon(keras.optimizers.Muon):
    """Keras' `Muon`, which makes each block of a block-diagonal kernel orthogonal as well.

    Muon steps along the nearest orthogonal matrix to the momentum, and leaves what is no matrix to
    AdamW. Keras' own counts among that the kernels of `BlockDense` and of the butterflies, which
    hold nearly all of their models' weights: `(blocks, in, out)`, a stack of matrices. Here each
    block is one, its rate scaled by its own sides. For all other weights the two are the same.

    A `.keras` file of a model that was compiled with it is loaded after `import
    keras_permix.training`.

    Args:
        All of `keras.optimizers.Muon`.

    Example:

    >>> import keras
    >>> from keras_permix.training import BlockMuon
    >>> from keras_permix.zoo import ButterflyMixer
    >>> model = ButterflyMixer.from_preset("test")
    >>> optimizer = BlockMuon(learning_rate=5e-3, exclude_layers=["head"])
    >>> model.compile(optimizer, loss="categorical_crossentropy")

    Source: Jordan et al., "Muon", 2024; the rate: Liu et al., "Muon is scalable for LLM training",
    2025.
    """

    def _should_use_adamw(self, variable):
        if not getattr(variable, "is_stack_of_matrices", False):
            return super()._should_use_adamw(variable)
        return super()._should_use_adamw(_Matrix(variable))

    def lr_adjust(self, x: Tensor) -> Tensor:
        """Scale an update by the larger side of its matrices."""
        if self.rms_rate is None:
            return x
        return x * (max(x.shape[-2:]) ** 0.5 * self.rms_rate)


class _Matrix:
    """One of the matrices of a stack, as far as Muon asks."""

    def __init__(self, variable):
        self.shape = variable.shape[1:]
        self.path = variable.path
