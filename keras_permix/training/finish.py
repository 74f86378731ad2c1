"""From a finished run to a preset and its model card."""

import datetime
from pathlib import Path

import keras

from keras_permix.machine import machine
from keras_permix.training.run import batches, image_metrics, make_model


def finish(model, recipe, image_data, rows, out, name):
    """Measure a trained model as it will be stored, write its preset and its card.

    Weights are stored as float16 and run in float32: the scores are measured on exactly that.

    Args:
        model: The trained model.
        recipe: The recipe as a dict.
        image_data: `ImageData` with the test set.
        rows: The log of the run.
        out: Folder of the run; gets `preset/` and `README.md`.
        name: Name of the preset, `class/preset`.

    Returns:
        The scores as a dict, e.g. `{"cifar10/test/top1": 0.75}`.
    """
    stored = make_model({**recipe, "precision": "float32"})
    stored.set_weights([_through_float16(weight) for weight in model.get_weights()])
    stored.compile(
        loss=keras.losses.CategoricalCrossentropy(from_logits=True),
        metrics=image_metrics(recipe["model"]["num_classes"]),
    )
    measured = stored.evaluate(
        batches(*image_data.test, recipe, training=False), return_dict=True, verbose=0
    )
    scores = {
        f"{image_data.name}/test/{key}": round(value, 4)
        for key, value in measured.items()
        if key != "loss"
    }
    stored.save_to_preset(
        Path(out) / "preset",
        labels=list(image_data.labels),
        data=image_data.name,
        recipe=f"zoo/{name}/recipe.py",
        license="Apache-2.0",
        scores=scores,
        weights_dtype="float16",
    )
    card = write_card(name, recipe, stored, scores, rows)
    (Path(out) / "README.md").write_text(card, encoding="utf-8")
    return scores


def _through_float16(weight):
    if weight.dtype.kind != "f":
        return weight
    return weight.astype("float16").astype(weight.dtype)


def write_card(name, recipe, model, scores, rows):
    """The model card as Markdown: data, scores beside the paper's, time, machine, limits."""
    class_name, preset = model.__class__.__name__, name.split("/")[-1]
    minutes = sum(row["seconds"] for row in rows) / 60
    paper = recipe["paper"] or {}
    table = "\n".join(
        f"| {key} | {100 * value:.2f} % | {paper.get(key.split('/')[-1], '–')} |"
        for key, value in scores.items()
    )
    return f"""# {name}

`{class_name}`, {model.count_params():,} parameters, {recipe["epochs"]} epochs of \
{recipe["data"]["name"]}.

```python
from keras_permix.zoo import {class_name}

model = {class_name}.from_preset("{preset}")
```

| score | measured | paper |
| --- | --- | --- |
{table}

{paper.get("note", "No paper reports this configuration.")}

* Scores are of the stored float16 weights, run in float32, on the whole test set, after the last \
epoch; no epoch was chosen by test accuracy.
* Recipe: `recipe.py` beside this file; train again with `permix train {name}`.
* Log: `log.csv`, one row an epoch; curves: `curves.png`.
* Trained {datetime.date.today().isoformat()} in {minutes:.0f} minutes of wall time on \
{machine()}, Keras {keras.__version__} on {keras.config.backend()}, {recipe["precision"]}.
* Limits: it knows the classes of its data set and nothing else, at the data's resolution. Good
  for comparisons, tests and fine-tuning; not for decisions about people or safety.
"""
