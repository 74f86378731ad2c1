"""Test recipes of the Long Range Arena: published values, models and errors."""

import dataclasses
import json
import math

import numpy as np
import pytest

from keras_permix.lra.published import PUBLISHED, ROWS, TASKS, published_rows, published_score
from keras_permix.lra.recipes import MEGAS, MIXERS, MODELS, OF_PATH_X, TEXTS, lra_recipe
from keras_permix.lra.run import lra_run
from keras_permix.training import make_model
from keras_permix.training.optimizers import make_schedule
from tests.harness import to_numpy

ALL = [
    (task, model, scale)
    for scale in ("small", "paper")
    for task in TASKS
    for model in MODELS
    if task in TEXTS or model in (*MIXERS, *MEGAS)
    if task != "pathx" or (scale == "paper" and model in OF_PATH_X)
]


def test_recipes_convert_to_json():
    for task, model, scale in ALL:
        recipe = lra_run(task, model, scale, 3).recipe
        assert json.loads(json.dumps(dataclasses.asdict(recipe)))["seed"] == 3
        schedule = make_schedule(recipe, recipe.steps_per_epoch)
        assert 0 < schedule.warmup_steps


# Batch size, steps, learning rate, warm-up steps, weight decay, width and depth. Sources: tables 6
# and 7 of the CSP paper, table 3 of the SimpleTRON paper, code of Sliceformer and Dimension Mixer.
PAPERS = {
    ("listops", "csp"): (32, 5000, 5e-2, 1000, 0.1, 512, 4),
    ("text", "csp"): (32, 20000, 5e-2, 8000, 0.1, 256, 4),
    ("retrieval", "csp"): (8, 5000, 5e-2, 8000, 0.1, 128, 4),
    ("image", "csp"): (256, 35156, 8e-3, 175, None, 128, 4),
    ("pathfinder", "csp"): (256, 125000, 1e-3, 625, None, 64, 6),
    ("retrieval", "slice"): (32, 5000, 5e-2, 8000, 0.1, 128, 4),
    ("image", "slice"): (192, 46800, 5e-3, 234, None, 96, 6),
    ("pathfinder", "slice_interleave"): (640, 50000, 5e-4, 250, None, 320, 4),
    ("listops", "simpletron"): (32, 15000, 5e-3, 1000, 0.1, 512, 6),
    ("retrieval", "simpletron"): (32, 15000, 5e-2, 8000, 0.1, 128, 4),
    ("text", "butterfly"): (32, 20000, 1e-4, 8000, None, 64, 2),
    ("image", "butterfly"): (256, 35000, 1e-4, 175, None, 64, 2),
    ("pathfinder", "butterfly"): (256, 62400, 1e-4, 312, None, 64, 2),
    ("listops", "csp_mega"): (64, 90000, 1e-3, 3000, 1e-2, 80, 6),
    ("image", "csp_mega"): (50, 180000, 1e-2, 9000, 2e-2, 160, 8),
    ("retrieval", "mega"): (64, 20000, 3e-3, 10000, 4e-2, 128, 6),
    ("pathx", "butterfly"): (64, 25000, 3e-4, 500, 1e-3, 64, 4),
    ("pathx", "csp_mega"): (60, 125000, 1e-2, 25000, 1e-2, 64, 4),
    ("pathx", "mega"): (16, 125000, 1e-2, 25000, 1e-2, 64, 4),
}


@pytest.mark.parametrize(("task", "model"), PAPERS)
def test_recipes_match_published_values(task, model):
    values = lra_recipe(task, model, "paper")
    optimizer, sizes = values["optimizer"], values["model"]
    assert PAPERS[task, model] == (
        values["batch_size"],
        values["epochs"] * values["steps_per_epoch"],
        optimizer["learning_rate"],
        values["schedule"]["warmup_steps"],
        optimizer.get("weight_decay"),
        sizes["hidden_dim"],
        sizes["num_layers"],
    )


@pytest.mark.parametrize("task", TASKS)
def test_paper_recipes_build_models(task):
    """Build one block and predict. Full attention over 16,384 pixels needs too much memory."""
    for model in [model for found, model, scale in ALL if (found, scale) == (task, "paper")]:
        recipe = lra_run(task, model, "paper", 0, ["model.num_layers=1"]).recipe
        made = make_model(recipe)
        classes = recipe.model["num_classes"]
        assert made.output_shape == (None, classes)
        if (task, model) != ("pathx", "mega"):
            logits = made(made.make_inputs(0, 1))
            assert tuple(logits.shape) == (1, classes) and np.isfinite(to_numpy(logits)).all()


@pytest.mark.parametrize(
    ("task", "shift"),
    [("image", "linear_head"), ("pathfinder", "linear_head"), ("pathx", "power_code")],
)
def test_shift_of_image_tasks_matches_released_code(task, shift):
    assert lra_recipe(task, "csp_mega", "paper")["model"]["mixer"]["shift"] == shift


# Parameters of the blocks of the authors' models. MEGA's blocks have biases for 2002 or 4002
# distances.
STACKS = {
    ("listops", "transformer"): 8_402_944,
    ("listops", "csp"): 6_305_792,
    ("text", "slice"): 2_630_656,
    ("retrieval", "csp"): 659_968,
    ("listops", "mega"): 586_098,
    ("text", "mega"): 923_668,
    ("retrieval", "mega"): 1_385_502,
    ("listops", "csp_mega"): 529_440,
    ("text", "csp_mega"): 857_608,
    ("retrieval", "csp_mega"): 1_286_412,
    ("image", "csp_mega"): 2_640_640,
}


@pytest.mark.parametrize(("task", "model"), STACKS)
def test_blocks_match_published_parameter_counts(task, model):
    made = make_model(lra_run(task, model, "paper").recipe)
    blocks = [layer for layer in made.layers if layer.name.startswith("block_")]
    sizes = [math.prod(weight.shape) for block in blocks for weight in block.trainable_weights]
    assert sum(sizes) == STACKS[task, model]


def test_seed_changes_only_the_seed_key():
    first, second = (lra_recipe("listops", "csp", seed=seed) for seed in (0, 1))
    assert {key for key in first if first[key] != second[key]} == {"seed"}


def test_small_models_have_equal_size():
    sizes = {
        tuple(
            lra_recipe("text", model)["model"][key]
            for key in ("hidden_dim", "num_layers", "mlp_dim")
        )
        for model in MODELS
    }
    assert len(sizes) == 1


@pytest.mark.parametrize("scale", ["small", "paper"])
@pytest.mark.parametrize("suffix", ["", "_res", "_resl"])
def test_simpletron_recipes_differ_only_in_variant(suffix, scale):
    values = lra_recipe("text", f"simpletron{suffix}", scale)
    assert values["model"].pop("variant") == f"simple{suffix}"
    assert values["model"]["class_name"] == "SimpleTRON"
    base = lra_recipe("text", "simpletron", scale)
    assert base["model"].pop("variant") == "simple"
    assert {**values, "paper": None} == {**base, "paper": None}


@pytest.mark.parametrize("model", MODELS)
def test_small_recipes_build_models(model):
    assert make_model(lra_run("listops", model).recipe).output_shape == (None, 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("text", "csp", "large"), "`scale` must be one of .*Received: scale='large'"),
        (("pathx", "mega"), "`scale='paper'`.*Received: model='mega', scale='small'"),
        (("pathx", "csp", "paper"), "`pathx` requires.*mega.*Received: model='csp'"),
        (("image", "simpletron_res"), "`simpletron_res` requires.*Received: task='image'"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        lra_recipe(*arguments)


# Averages in the papers. That of the Sinkhorn Transformer is omitted: it does not match its row.
AVERAGES = {
    "Transformer": 54.39, "Local attention": 46.06, "Linear Transformer": 50.55, "Reformer": 50.67,
    "Sinkformer": 51.18, "Sparse Transformer": 51.24,
    "Linformer": 51.36, "Performer": 51.41, "Synthesizer": 52.88, "Longformer": 53.46,
    "BigBird": 55.01, "CosFormer": 55.23, "Transformer + CSP": 58.91, "S4": 80.48, "S5": 87.46,
    "ETSMLP": 83.09, "SPADE": 86.19, "MEGA": 88.21, "MEGA-chunk": 85.66,
    "Sliceformer, ascend": 58.91, "Sliceformer, interleave": 58.28,
    "Sliceformer, max exchange": 54.96,
}  # fmt: skip
AVERAGES_OF_DM = {
    "standard attention": 58.77, "Reformer": 55.04, "Linformer": 55.59, "Performer": 53.63,
    "Nyströmformer": 58.95, "Butterfly attention": 59.83,
}  # fmt: skip


def test_published_scores_match_published_averages():
    checked = 0
    for paper, models in PUBLISHED.items():
        averages = AVERAGES_OF_DM if "Dimension Mixer" in paper else AVERAGES
        for model, scores in models.items():
            if model in averages:
                counted = TASKS[:5] if averages is AVERAGES_OF_DM else TASKS
                found = [scores[task] for task in counted if task in scores]
                assert sum(found) / len(found) == pytest.approx(averages[model], abs=0.0101), model
                checked += 1
    assert checked == len(AVERAGES) + len(AVERAGES_OF_DM)


def test_models_have_published_rows():
    assert set(ROWS) <= set(MODELS)
    assert published_score("text", "fourier") is None
    assert published_score("pathx", "csp") is None
    assert lra_recipe("image", "csp", "paper")["paper"]["top1"] == "48.02 %"
    assert lra_recipe("image", "csp_mega", "paper")["paper"] is None
    rows = published_rows("listops")
    assert rows[0][:2] == ("Local attention", 15.82) and rows[-1][0] == "MEGA"
