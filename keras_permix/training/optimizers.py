"""Define the optimizers and learning-rate schedules of recipes."""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any, get_args

import keras
from keras import ops

from keras_permix._typing import Tensor
from keras_permix.recipes.recipe import Recipe, ScheduleName
from keras_permix.utils.checks import check_choice


@keras.saving.register_keras_serializable("keras_permix")
class BlockMuon(keras.optimizers.Muon):
    """Apply Muon to each block of block-diagonal kernels, too.

    Muon orthogonalizes updates of matrices and updates all other weights by AdamW. The kernels of
    `BlockDense` and of the butterflies have shape `(blocks, in, out)`, which Keras' `Muon` leaves
    to AdamW. `BlockMuon` updates each block as a matrix, with a learning rate scaled by its sides.

    To load a `.keras` file of a model compiled with it, import `keras_permix.training` first.

    Args:
        **kwargs: Arguments of `keras.optimizers.Muon`.

    Example:
        >>> import keras
        >>> from keras_permix.training import BlockMuon
        >>> from keras_permix.zoo import ButterflyMixer
        >>> model = ButterflyMixer.from_preset("test")
        >>> optimizer = BlockMuon(learning_rate=5e-3, exclude_layers=["head"])
        >>> model.compile(optimizer, loss="categorical_crossentropy")

    Reference: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024;
    learning rate: Liu et al., "Muon is scalable for LLM training", 2025.
    """

    def _should_use_adamw(self, variable):
        if not getattr(variable, "is_stack_of_matrices", False):
            return super()._should_use_adamw(variable)
        return super()._should_use_adamw(
            SimpleNamespace(shape=variable.shape[1:], path=variable.path)  # one of the matrices
        )

    def lr_adjust(self, x: Tensor) -> Tensor:
        """Scale an update by the larger side of its matrices."""
        if self.rms_rate is None:
            return x
        return x * (max(x.shape[-2:]) ** 0.5 * self.rms_rate)


# Schedules as in the Long Range Arena: step 0 has a learning rate of 0, and the cosine repeats.
OF_THE_ARENA = ("cosine_cycles", "rsqrt")
# Keras' optimizers ("adamw", "lion", "muon", "sgd", …) except wrappers, and `BlockMuon`.
OPTIMIZERS = {
    name.lower(): found
    for name, found in vars(keras.optimizers).items()
    if isinstance(found, type)
    and issubclass(found, keras.optimizers.Optimizer)
    and name not in ("Optimizer", "LossScaleOptimizer", "MultiOptimizer")
} | {"blockmuon": BlockMuon}


@keras.saving.register_keras_serializable("keras_permix")
@dataclasses.dataclass(eq=False)
class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Warm up the learning rate, then decay it.

    Args:
        name: Decay: "constant", "cosine" or "linear". "cosine_epochs" is a cosine that changes once
            per epoch. "rsqrt" is an inverse square root of the step. "cosine_cycles" is a cosine
            that restarts every `total_steps` after the warm-up.
        peak: Learning rate after the warm-up. With "rsqrt", it is divided by the square root of the
            step.
        warmup_steps: Steps of the warm-up.
        total_steps: Steps of the whole run, including the warm-up.
        steps_per_epoch: Steps per epoch.
        warmup_start: Learning rate at the start of the warm-up. Defaults to 0.
        warmup_power: Exponent of the warm-up. Defaults to 1, a linear warm-up.

    Reference: Tay et al., "Long Range Arena", 2020, arXiv:2011.04006 ("rsqrt", "cosine_cycles"). Ma
    et al., "Mega", 2022, arXiv:2209.10655 (`warmup_start`, `warmup_power`), and the code of both.
    """

    name: str
    peak: float
    warmup_steps: int
    total_steps: int
    steps_per_epoch: int
    warmup_start: float = 0.0
    warmup_power: int = 1

    def __post_init__(self) -> None:
        check_choice("name", self.name, get_args(ScheduleName))

    def __call__(self, step: Tensor) -> Tensor:
        step = ops.cast(step, "float32")
        return self._warmup(step) * self._decay(step)

    def _warmup(self, step):
        """Return the learning rate without the decay."""
        begun = step if self.name in OF_THE_ARENA else step + 1.0
        share = ops.minimum(1.0, begun / max(self.warmup_steps, 1)) ** self.warmup_power
        return self.warmup_start + (self.peak - self.warmup_start) * share

    def _decay(self, step):
        """Return the factor of the decay."""
        if self.name == "constant":
            return 1.0
        if self.name == "rsqrt":
            return 1.0 / ops.sqrt(ops.maximum(step, max(self.warmup_steps, 1)))
        if self.name == "cosine_cycles":
            done = ops.maximum(step - self.warmup_steps, 0.0) / self.total_steps % 1.0
        else:
            if self.name == "cosine_epochs":
                step = ops.floor(step / self.steps_per_epoch) * self.steps_per_epoch
            span = max(self.total_steps - self.warmup_steps, 1)
            done = ops.clip((step - self.warmup_steps) / span, 0.0, 1.0)
        return 1.0 - done if self.name == "linear" else 0.5 * (1.0 + ops.cos(math.pi * done))

    def get_config(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def make_optimizer(recipe: Recipe, steps_per_epoch: int) -> Any:
    """Make the optimizer of a recipe, with its schedule and moving average.

    Biases, `gamma` and `beta` of normalization, class tokens and tables have no weight decay.
    """
    spec = dict(recipe.optimizer)
    name = check_choice("optimizer", spec.pop("name"), sorted(OPTIMIZERS))
    spec["learning_rate"] = make_schedule(recipe, steps_per_epoch)
    if recipe.ema is not None:
        spec.update(use_ema=True, ema_momentum=recipe.ema)
    optimizer = OPTIMIZERS[name](**spec)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta", "class_token", "table"])
    return optimizer


def make_schedule(recipe: Recipe, steps_per_epoch: int) -> WarmupDecay:
    """Make the learning-rate schedule of a recipe; `warmup_steps` replaces `warmup_epochs`."""
    schedule = recipe.schedule
    epochs_as_steps = round(schedule.warmup_epochs * steps_per_epoch)
    return WarmupDecay(
        schedule.name,
        recipe.optimizer["learning_rate"],
        epochs_as_steps if schedule.warmup_steps is None else schedule.warmup_steps,
        schedule.total_steps or recipe.epochs * steps_per_epoch,
        steps_per_epoch,
        schedule.warmup_start,
        schedule.warmup_power,
    )
