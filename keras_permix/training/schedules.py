"""Learning-rate schedules and optimizers that recipes name."""

import math
from inspect import signature
from typing import Any, get_args

import keras
from keras import ops

from keras_permix._typing import Tensor
from keras_permix.recipes.recipe import Recipe, ScheduleName
from keras_permix.training.block_muon import BlockMuon
from keras_permix.utils.checks import check_choice, check_names

# As the Long Range Arena counts: step 0 learns nothing, and a cosine begins anew after its cycle.
OF_THE_ARENA = ("cosine_cycles", "rsqrt")
# All of Keras that need no other optimizer inside, "adamw", "lion", "muon", "sgd" …, and our own.
OPTIMIZERS = {
    name.lower(): found
    for name, found in vars(keras.optimizers).items()
    if isinstance(found, type)
    and issubclass(found, keras.optimizers.Optimizer)
    and name not in ("Optimizer", "LossScaleOptimizer", "MultiOptimizer")
} | {"blockmuon": BlockMuon}


@keras.saving.register_keras_serializable("keras_permix")
class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A warm-up, then a decay, mostly to zero.

    Args:
        name: "constant", "cosine", "linear"; "cosine_epochs", a cosine that changes once per epoch,
            as the papers' code has it; or, of the Long Range Arena, "rsqrt", `peak` divided by the
            root of the step, that of the warm-up's last step until then, and "cosine_cycles", a
            cosine of `total_steps` after the warm-up that begins anew.
        peak: Learning rate after the warm-up.
        warmup_steps: Steps of the warm-up.
        total_steps: Steps of the whole run, warm-up included.
        steps_per_epoch: Steps of an epoch.
        warmup_start: Learning rate that the warm-up starts from.
        warmup_power: Power by which it rises: 1, in a line.

    Source: Tay et al., "Long Range Arena", 2020, and the released code; the warm-up from another
    rate than zero, and its power: Ma et al., "Mega", 2022, and the released code.
    """

    def __init__(
        self,
        name: str,
        peak: float,
        warmup_steps: int,
        total_steps: int,
        steps_per_epoch: int,
        warmup_start: float = 0.0,
        warmup_power: int = 1,
    ) -> None:
        self.name = check_choice("name", name, get_args(ScheduleName))
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps
        self.steps_per_epoch = steps_per_epoch
        self.warmup_start = warmup_start
        self.warmup_power = warmup_power

    def __call__(self, step: Tensor) -> Tensor:
        step = ops.cast(step, "float32")
        return self._warmup(step) * self._decay(step)

    def _warmup(self, step):
        """The learning rate without a decay."""
        begun = step if self.name in OF_THE_ARENA else step + 1.0
        share = ops.minimum(1.0, begun / max(self.warmup_steps, 1)) ** self.warmup_power
        return self.warmup_start + (self.peak - self.warmup_start) * share

    def _decay(self, step):
        """What the decay leaves of the learning rate, from 1 to 0."""
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
        return {
            "name": self.name,
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
            "steps_per_epoch": self.steps_per_epoch,
            "warmup_start": self.warmup_start,
            "warmup_power": self.warmup_power,
        }


def make_optimizer(recipe: Recipe, steps_per_epoch: int) -> Any:
    """The optimizer of a recipe, with its schedule and, where wanted, a moving average.

    Weight decay spares biases, norms, class tokens and position tables.

    Raises:
        ValueError: for an unknown optimizer, schedule or argument.
    """
    spec = dict(recipe.optimizer)
    name = check_choice("optimizer", spec.pop("name"), sorted(OPTIMIZERS))
    known = set(signature(OPTIMIZERS[name]).parameters)
    check_names(OPTIMIZERS[name].__name__, spec, known - {"kwargs"})
    spec["learning_rate"] = make_schedule(recipe, steps_per_epoch)
    if recipe.ema is not None:
        spec.update(use_ema=True, ema_momentum=recipe.ema)
    try:
        optimizer = OPTIMIZERS[name](**spec)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`optimizer` must hold arguments of {OPTIMIZERS[name].__name__}. "
            f"Received: {recipe.optimizer} ({error})"
        ) from error
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta", "class_token", "table"])
    return optimizer


def make_schedule(recipe: Recipe, steps_per_epoch: int) -> WarmupDecay:
    """The learning rate of a recipe, step by step.

    Raises:
        ValueError: for an unknown schedule or argument, or a warm-up given in epochs and in steps.
    """
    schedule = recipe.schedule
    if schedule.warmup_epochs and schedule.warmup_steps is not None:
        raise ValueError(
            "`schedule` must give its warm-up in epochs or in steps, not in both. "
            f"Received: {schedule}"
        )
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
