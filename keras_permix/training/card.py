"""Write the model card of a preset as Markdown."""

from typing import Any

from keras_permix._typing import Model
from keras_permix.data import Dataset
from keras_permix.data.dataset import size_of
from keras_permix.training.run import Run
from keras_permix.utils.formatting import counted, duration, format_score

BESIDE = '"preset")  # the folder next to this card'  # in the code of a card


def write_card(
    model: Model,
    run: Run,
    dataset: Dataset,
    scores: dict[str, Any],
    rows: list[dict[str, Any]],
    record: dict[str, Any],
    dtype: str = "float16",
) -> str:
    """Write a model card: usage, scores, paper, recipe, training time, machine and limits.

    `record` is that of the `Recorder`, and `dtype` the dtype of the stored weights.
    """
    class_name, recipe = type(model).__name__, run.recipe
    paper = recipe.paper or {}
    seconds = sum(row["seconds"] for row in rows)
    taken = ", ".join(f"{key} {value}" for key, value in model.describe_input().items())
    labels = [*dataset.labels[:10], *["…"] * (len(dataset.labels) > 10)]
    frozen = f"; `{recipe.freeze}` was frozen" if recipe.freeze else ""
    start = f"* Started from the weights of `{recipe.init}`{frozen}.\n" if recipe.init else ""
    count = size_of(dataset.test[0])
    tested = f"the whole test set, {counted(count, 'sample')}"
    if recipe.test_samples == count:
        tested = f"{count:,} evenly spaced samples of the test set"
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

model = {class_name}.from_preset({BESIDE}
```

| score | measured | paper |
| --- | --- | --- |
{table}

{paper.get("note", "No paper reports this configuration.")}

* Task: {str(model.task).replace("_", " ")}. Input: {taken or "see the class"}. Output: \
{", ".join(labels)}.
* Scores are computed in float32 from the stored {dtype} weights on \
{tested}, {_when(record, recipe, rows)}.
* Recipe: `{run.source}`{f", option `{run.option}`" if run.option else ""}; reproduce with \
`{run.command}`.
{start}* Log: `log.csv`, one row per epoch; curves: `curves.png`.
* Trained {record["date"]} in {duration(seconds)} of wall time on {record["machine"]}, Keras \
{record["keras"]} on {record["backend"]} {record["backend_version"]}, \
{recipe.precision}, seed {recipe.seed}, \
{f"commit {commits}" if commits else f"keras_permix {record['version']}"}.
* Limits: the model was trained for {dataset.name} only. Use it for comparisons, tests and \
fine-tuning, not for decisions about people or safety.
"""


def _mixed(model):
    """Name the mixers of a model if its configuration has any."""
    config = model.get_config()
    specs = config.get("mixer")
    specs = [spec for spec in (specs if isinstance(specs, list) else [specs]) if spec]
    names = dict.fromkeys(spec["name"] if isinstance(spec, dict) else spec for spec in specs)
    return f", mixer {', '.join(f'`{name}`' for name in names)}" if names else ""


def _when(record, recipe, rows):
    """Describe the epoch whose weights are scored."""
    if recipe.early_stopping and rows:
        best = min(rows, key=lambda row: row["val_loss"])["epoch"]
        return f"after epoch {best}, which has the lowest validation loss"
    if names := record.get("callbacks"):
        return f"at the end of a run with additional callbacks: {', '.join(names)}"
    return "after the last epoch (the epoch was not selected by test scores)"
