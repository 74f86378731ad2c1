"""Read the accuracies on the Long Range Arena that papers report, in percent."""

import tomllib
from pathlib import Path

TASKS = ("listops", "text", "retrieval", "image", "pathfinder", "pathx")
# Paper -> model -> accuracy per task that the paper reports, and "recipe", a model of `recipes.py`.
PUBLISHED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
CSP_PAPER, SLICE_PAPER, TRON_PAPER, DM_PAPER = PUBLISHED
# Model of `recipes.py` -> paper and its name there.
ROWS = {
    scores["recipe"]: (paper, model)
    for paper, models in PUBLISHED.items()
    for model, scores in models.items()
    if "recipe" in scores
}


def published_rows(task: str) -> list[tuple[str, float, str]]:
    """Return rows of model, accuracy in percent and paper, in ascending order of accuracy."""
    rows = [
        (model, scores[task], paper)
        for paper, models in PUBLISHED.items()
        for model, scores in models.items()
        if task in scores
    ]
    return sorted(rows, key=lambda row: row[1])


def published_score(task: str, model: str) -> tuple[float, str] | None:
    """Return the published accuracy of a model of `permix lra` in percent, and its paper."""
    if model not in ROWS:
        return None
    paper, name = ROWS[model]
    score = PUBLISHED[paper][name].get(task)
    return None if score is None else (score, paper)
