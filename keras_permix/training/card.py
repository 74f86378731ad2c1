"""The model card of a preset, as Markdown."""

from typing import Any

from keras_permix._typing import Model
from keras_permix.data import Dataset
from keras_permix.data.dataset import size_of
from keras_permix.training.run import Run
from keras_permix.utils.formatting import counted, format_score


def write_card(
    model: Model,
    run: Run,
    dataset: Dataset,
    scores: dict[str, Any],
    rows: list[dict[str, Any]],
    record: dict[str, Any],
    dtype: str = "float16",
) -> str:
    """The card: what it is, scores beside the paper's, time, machine, commit, limits.

    `dtype` is that of the stored weights.
    """
    class_name = model.__class__.__name__
    preset = f'"{run.name.split("/")[-1]}")' if run.is_known else '"preset")  # beside this card'
    recipe = run.recipe
    paper = recipe.paper or {}
    seconds = sum(row["seconds"] for row in rows)
    table = "\n".join(
        f"| {key} | {format_score(key, value)} | {paper.get(key.split('/')[-1], '–')} |"
        for key, value in scores.items()
    )
    commits = ", ".join(f"`{commit}`" for commit in record["commits"])
    return f"""# {run.name}

`{class_name}`{_mixed(model)}, {model.count_params():,} parameters, \
{counted(len(rows), "epoch")} of {dataset.name}.

```python
from keras_permix.zoo import {class_name}

model = {class_name}.from_preset({preset}
```

| score | measured | paper |
| --- | --- | --- |
{table}

{paper.get("note", "No paper reports this configuration.")}

* Task: {str(model.task).replace("_", " ")}. Input: {_in_words(model.describe_input())}. Answers: \
{_some(dataset.labels)}.
* Scores are of the stored {dtype} weights, run in float32, on \
{_tested(recipe, dataset)}, {_when(record, recipe, rows)}.
* Recipe: `{run.source}`{f", option `{run.option}`" if run.option else ""}; train again with \
`{run.command}`.
{_start(recipe)}* Log: `log.csv`, one row per epoch; curves: `curves.png`.
* Trained {record["date"]} in {_duration(seconds)} of wall time on {record["machine"]}, Keras \
{record["keras"]} on {_framework(record)}, \
{recipe.precision}, seed {recipe.seed}, \
{f"commit {commits}" if commits else f"keras_permix {record['version']}"}.
* Limits: it knows its data set and nothing else. Good for comparisons, tests and fine-tuning; not \
for decisions about people or safety.
"""


def _framework(record):
    """The backend with its version, which older runs do not tell."""
    return f"{record['backend']} {record.get('backend_version', '')}".strip()


def _mixed(model):
    """What the tokens are mixed by, of a model that leaves the choice."""
    config = model.get_config()
    specs = config.get("mixer") or config.get("attention") or []
    specs = specs if isinstance(specs, list) else [specs]
    names = dict.fromkeys(spec["name"] if isinstance(spec, dict) else spec for spec in specs)
    return f", mixed by {', '.join(f'`{name}`' for name in names)}" if names else ""


def _duration(seconds):
    """Minutes where there are two or more, else seconds."""
    minutes = round(seconds / 60)
    return counted(minutes, "minute") if minutes > 1 else counted(max(round(seconds), 1), "second")


def _start(recipe):
    frozen = f"; `{recipe.freeze}` stayed as it was" if recipe.freeze else ""
    return f"* Started from the weights of `{recipe.init}`{frozen}.\n" if recipe.init else ""


def _tested(recipe, dataset):
    """How many samples are tested: `dataset` has those alone."""
    count = size_of(dataset.test[0])
    if recipe.test_samples:
        return f"{count:,} samples, evenly out of the test set"
    return f"the whole test set, {counted(count, 'sample')}"


def _when(record, recipe, rows):
    """Which weights are measured: what callbacks leave is not ours to say."""
    if names := record.get("callbacks"):
        return f"as the run ended, with callbacks beyond the recipe: {', '.join(names)}"
    if recipe.early_stopping and rows:
        best = min(rows, key=lambda row: row["val_loss"])["epoch"]
        return f"after epoch {best}, which has the lowest loss on the validation part"
    return "after the last epoch; no epoch was chosen by test scores"


def _in_words(description):
    return ", ".join(f"{key} {value}" for key, value in description.items()) or "see the class"


def _some(labels):
    return ", ".join([*labels[:10], *(["…"] if len(labels) > 10 else [])])
