"""A run of the Long Range Arena: a task, a model, a scale and a seed."""

import dataclasses
import functools
import hashlib
import shlex
from pathlib import Path
from typing import Any

from keras_permix.lra.recipes import TEXTS, lra_recipe
from keras_permix.recipe import complete_recipe
from keras_permix.training.run import Run

# What a smoke run changes: a few steps of short texts or small images.
SMOKE = ("batch_size=2", "epochs=2", "steps_per_epoch=2", "validation_samples=2", "test_samples=2")
SMOKE_LENGTH, SMOKE_SIDE = 256, 16


@dataclasses.dataclass(frozen=True)
class LRARun(Run):
    """What `permix lra` trains, for `keras_permix.training.train`.

    Args:
        recipe: The task, one of `keras_permix.lra.published.TASKS`.
        option: The model, one of `keras_permix.lra.recipes.MODELS`.
        overrides: Strings `"epochs=2"` that change values of the recipe.
        smoke: Whether to only try it out: a few steps of generated data.
        scale: "small" or "paper".
        seed: Integer ≥ 0.

    Example:

    >>> from keras_permix.lra.run import LRARun
    >>> LRARun("listops", "csp", seed=1).command
    'permix lra listops --model csp --scale small --seed 1'
    """

    scale: str = "small"
    seed: int = 0

    @functools.cached_property
    def values(self) -> dict[str, Any]:
        recipe = lra_recipe(self.recipe, str(self.option), self.scale, self.seed)
        overrides = (*self._smoke_changes(recipe), *self.overrides)
        values = complete_recipe(recipe, overrides, self.source)
        if values["steps_per_epoch"] is None:
            raise ValueError(
                "`steps_per_epoch` must be a positive integer in the Long Range Arena, whose "
                "results say how many there were. Received: steps_per_epoch=None"
            )
        return values

    @property
    def name(self) -> str:
        return f"lra_{self.scale}/{self.recipe}_{self.option}"

    @property
    def source(self) -> str:
        return "keras_permix/lra/recipes.py"

    @property
    def command(self) -> str:
        words = ["permix", "lra", self.recipe, "--model", str(self.option), "--scale", self.scale]
        words += ["--seed", str(self.seed)]
        words += [word for override in self.overrides for word in ("--set", override)]
        return shlex.join([*words, *(["--smoke"] if self.smoke else [])])

    @property
    def folder(self) -> Path:
        digest = hashlib.sha256(" ".join(self.overrides).encode()).hexdigest()[:8]
        changed = f"_{digest}" if self.overrides else ""
        return Path("runs", f"{self.name}_{self.seed}{changed}" + "_smoke" * self.smoke)

    @property
    def is_known(self) -> bool:
        return False  # Its preset is none of the package's.

    def _smoke_changes(self, recipe):
        if not self.smoke:
            return ()
        if self.recipe in TEXTS:
            length = min(SMOKE_LENGTH, recipe["model"]["max_sequence_length"])
            return (*SMOKE, f"model.max_sequence_length={length}")
        return (*SMOKE, f"model.image_size={SMOKE_SIDE}")
