"""Plan runs of the Long Range Arena."""

import dataclasses
import hashlib
import shlex
from collections.abc import Iterable
from pathlib import Path

from keras_permix.lra.recipes import TEXTS, lra_recipe
from keras_permix.recipes.load import parse_overrides
from keras_permix.recipes.recipe import make_recipe, merge
from keras_permix.training.run import Run
from keras_permix.utils.checks import check_integer

SOURCE = "keras_permix/lra/tables.toml"
# Values of a smoke run: a few steps of short texts or small images.
SMOKE = dict(batch_size=2, epochs=2, steps_per_epoch=2, validation_samples=2, test_samples=2)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LRARun(Run):
    """Hold a run of the Long Range Arena for `keras_permix.training.train`; see `lra_run`."""

    task: str
    model: str
    scale: str
    seed: int
    overrides: tuple[str, ...]

    @property
    def folder(self) -> Path:
        digest = hashlib.sha256(" ".join(self.overrides).encode()).hexdigest()[:8]
        changed = f"_{digest}" if self.overrides else ""
        return Path("runs", f"{self.name}_{self.seed}{changed}" + "_smoke" * self.smoke)


def lra_run(
    task: str,
    model: str,
    scale: str = "small",
    seed: int = 0,
    overrides: Iterable[str] = (),
    smoke: bool = False,
) -> LRARun:
    """Plan a run of `lra_recipe`; a smoke run trains for a few steps on generated data.

    `overrides` such as `"epochs=2"` set values of the recipe.

    Example:
        >>> lra_run("listops", "csp", seed=1).command
        'permix lra listops --model csp --scale small --seed 1'
    """
    values, overrides = lra_recipe(task, model, scale, seed), tuple(overrides)
    if smoke:
        small = {"image_size": 16}
        if task in TEXTS:
            length = values["model"]["max_sequence_length"]
            small = {"max_sequence_length": min(256, length)}
        values = merge(values, {**SMOKE, "model": small})
    recipe = make_recipe(merge(values, parse_overrides(overrides)), SOURCE)
    check_integer("steps_per_epoch", recipe.steps_per_epoch)  # for the column of steps
    if recipe.seed != seed:
        raise ValueError(f"Set `seed` (`--seed`) instead of an override. Received: {overrides}")
    words = ["permix", "lra", task, "--model", model, "--scale", scale, "--seed", str(seed)]
    words += [word for override in overrides for word in ("--set", override)]
    words += ["--smoke"] * smoke
    return LRARun(
        recipe=recipe,
        name=f"lra_{scale}/{task}_{model}",
        source=SOURCE,
        command=shlex.join(words),
        option=model,
        smoke=smoke,
        task=task,
        model=model,
        scale=scale,
        seed=seed,
        overrides=overrides,
    )
