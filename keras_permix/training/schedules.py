"""Learning-rate schedules and optimizers that recipes name."""

import math
from inspect import signature
from typing import Any

import keras
from keras import ops

from keras_permix._typing import Tensor
from keras_permix.layers.parts.checks import check_choice, check_names

SCHEDULES = ("constant", "cosine", "cosine_epochs", "linear")
# All of Keras that need no other optimizer inside: "adamw", "lion", "muon", "sgd" …
OPTIMIZERS = {
    name.lower(): found
    for name, found in vars(keras.optimizers).items()
    if isinstance(found, type)
    and issubclass(found, keras.optimizers.Optimizer)
    and name not in ("Optimizer", "LossScaleOptimizer", "MultiOptimizer")
}


@keras.saving.register_keras_serializable("keras_permix")
class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up from zero, then a decay to zero.

    Args:
        name: "constant", "cosine", "linear", or "cosine_epochs" (a cosine that changes once an
            epoch, as the papers' code has it).
        peak: Learning rate after the warm-up.
        warmup_steps: Steps of the warm-up.
        total_steps: Steps of the whole run, warm-up included.
        steps_per_epoch: Steps of an epoch.
    """

    def __init__(
        self, name: str, peak: float, warmup_steps: int, total_steps: int, steps_per_epoch: int
    ) -> None:
        self.name = check_choice("name", name, SCHEDULES)
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps
        self.steps_per_epoch = steps_per_epoch

    def __call__(self, step: Tensor) -> Tensor:
        step = ops.cast(step, "float32")
        warmup = ops.minimum(1.0, (step + 1.0) / max(self.warmup_steps, 1))
        if self.name == "cosine_epochs":
            step = ops.floor(step / self.steps_per_epoch) * self.steps_per_epoch
        span = max(self.total_steps - self.warmup_steps, 1)
        done = ops.clip((step - self.warmup_steps) / span, 0.0, 1.0)
        if self.name == "constant":
            return self.peak * warmup
        decay = 1.0 - done if self.name == "linear" else 0.5 * (1.0 + ops.cos(math.pi * done))
        return self.peak * warmup * decay

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
            "steps_per_epoch": self.steps_per_epoch,
        }


def make_optimizer(recipe: dict[str, Any], steps_per_epoch: int) -> Any:
    """The optimizer of a recipe, with its schedule and, where wanted, a moving average.

    Weight decay spares biases, norms, class tokens and position tables.

    Raises:
        ValueError: for an unknown optimizer, schedule or argument.
    """
    spec = dict(recipe["optimizer"])
    name = spec.pop("name")
    if name not in OPTIMIZERS:
        raise ValueError(f"`optimizer` must name one of {sorted(OPTIMIZERS)}. Received: {name!r}")
    schedule = {"warmup_epochs": 0, **recipe["schedule"]}
    check_names("`schedule`", schedule, ("name", "warmup_epochs"))
    known = set(signature(OPTIMIZERS[name]).parameters)
    check_names(OPTIMIZERS[name].__name__, spec, known - {"kwargs"})
    spec["learning_rate"] = WarmupDecay(
        schedule["name"],
        spec["learning_rate"],
        round(schedule["warmup_epochs"] * steps_per_epoch),
        recipe["epochs"] * steps_per_epoch,
        steps_per_epoch,
    )
    if recipe["ema"] is not None:
        spec.update(use_ema=True, ema_momentum=recipe["ema"])
    try:
        optimizer = OPTIMIZERS[name](**spec)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`optimizer` must hold arguments of keras.optimizers.{OPTIMIZERS[name].__name__}. "
            f"Received: {recipe['optimizer']} ({error})"
        ) from error
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta", "class_token", "table"])
    return optimizer
