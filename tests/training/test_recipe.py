"""Test recipes: lookup, merging, overrides and errors."""

import dataclasses

import keras
import numpy as np
import pytest

from keras_permix.lra.run import lra_run
from keras_permix.recipes.find import find_recipe
from keras_permix.recipes.load import format_overrides, parse_overrides, read_values
from keras_permix.recipes.recipe import merge
from keras_permix.tasks import TASKS
from keras_permix.training import list_recipes, load_recipe, make_model, train
from tests.zoo.models import tiny


def write(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "recipe.toml"
    path.write_text(text)
    return path


MINIMAL = 'model = { class_name = "ViT", num_classes = 2 }\ndata = { name = "mnist" }\n'


def test_recipe_by_path_gets_defaults(tmp_path):
    recipe = load_recipe(write(tmp_path, MINIMAL + "epochs = 3"))
    assert recipe.model == {"class_name": "ViT", "num_classes": 2}
    assert recipe.epochs == 3
    assert recipe.batch_size == 128


def test_merge_replaces_dicts_with_other_names():
    old = {"a": {"x": 1, "y": 2}, "mixer": {"name": "csp", "group_size": 2}}
    assert merge(old, {"a": {"y": 3}})["a"] == {"x": 1, "y": 3}
    assert merge(old, {"mixer": {"shift": "unit"}})["mixer"] == {
        "name": "csp",
        "group_size": 2,
        "shift": "unit",
    }
    assert merge(old, {"mixer": {"name": "attention"}})["mixer"] == {"name": "attention"}
    assert old["a"] == {"x": 1, "y": 2}


def test_base_and_options(tmp_path):
    base = write(
        tmp_path / "base",
        MINIMAL + "ema = 0.9\n[options.wide]\nmodel.hidden_dim = 64\nepochs = 7\n",
    )
    child = write(
        tmp_path / "child",
        f'base = "{base}"\nseed = 5\n[options.wide]\nepochs = 8\nema = "none"\n',
    )
    recipe = load_recipe(child, "wide")
    assert (recipe.seed, recipe.epochs, recipe.model["hidden_dim"]) == (5, 8, 64)
    assert recipe.ema is None and load_recipe(child).ema == 0.9
    assert load_recipe(child, "wide", ema=0.5, seed=1).ema == 0.5
    base.write_text(f'base = "{child}"\n')
    with pytest.raises(ValueError, match=r"base.*child"):
        load_recipe(child)


def test_none_unsets_an_argument_of_the_model():
    model = load_recipe("cspvit/mnist", model={"hidden_dim": None, "num_layers": 1}).model
    assert "hidden_dim" not in model and model["num_layers"] == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("1e-3", 1e-3),
        ("true", True),
        ("none", None),
        ("mixed_bfloat16", "mixed_bfloat16"),
        ("True", "True"),
        ("a b", "a b"),
        ("'2'", "2"),
        ("[1, 2]", [1, 2]),
        ("2024-05-01", "2024-05-01"),
        ('{ name = "csp", group_size = "none" }', {"name": "csp", "group_size": None}),
        ('[{ name = "csp", group_size = "none" }]', [{"name": "csp", "group_size": None}]),
        ('["none", "some"]', ["none", "some"]),
        ("1\nseed = 2", "1\nseed = 2"),
        ("", ""),
    ],
)
def test_overrides_are_toml_or_strings(text, value):
    assert parse_overrides([f"model.x={text}", "y = 3"]) == {"model": {"x": value}, "y": 3}


def test_format_overrides_round_trip():
    changes = {
        "ema": None,
        "epochs": 3,
        "data": {"name": "a b", "path": "2", "augment": True},
        "model": {"mixer": [{"name": "csp", "group_size": None}, "fourier"], "mean": [0.5, 1e-7]},
    }
    assert parse_overrides(format_overrides(changes)) == changes


def test_augmentation_can_be_removed():
    assert load_recipe("cspvit/cifar10").augmentation
    recipe = load_recipe("cspvit/cifar10", **parse_overrides(["augmentation=none"]))
    assert recipe.augmentation is None
    assert load_recipe("lratransformer/imdb").augmentation == {}  # as in runs to resume
    labels = TASKS["multilabel_image_classification"](tiny("CSPViT", predicts="labels"))
    assert labels.augment({"mixup": 0, "cutmix": 0.0, "flip": True}, seed=0).flip
    with pytest.raises(ValueError, match="require classes.*'mixup': 0.2"):
        labels.augment({"mixup": 0.2}, seed=0)


def test_order_of_overrides_of_a_named_table_is_free():
    words = ["model.mixer.mode=release", "model.mixer.name=slice_sort"]
    expected = {"model": {"mixer": {"name": "slice_sort", "mode": "release"}}}
    assert parse_overrides(words) == expected
    words = ["model.mixer=csp", "model.mixer.group_size=4"]
    assert parse_overrides(words) == {"model": {"mixer": {"name": "csp", "group_size": 4}}}
    words = ["optimizer.name=adamw", 'optimizer={name="sgd", momentum=0.5}']
    assert parse_overrides(words) == {"optimizer": {"name": "adamw"}}


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (MINIMAL + "image_size = 48", {}, "recipe.toml accepts .* model, .*image_size"),
        (MINIMAL + "learning_rate = 1", {}, "Did you mean `optimizer.learning_rate`"),
        (MINIMAL + "warmup_epoch = 1", {}, "Did you mean `schedule.warmup_epochs`"),
        (MINIMAL + "epoch = 3", {}, r"Did you mean `epochs`\? Received: \['epoch'\]"),
        (MINIMAL + "schedule.warm = 3", {}, "accepts .*schedule.name,"),
        (MINIMAL + "epochs = -2", {}, "`epochs` must be a positive integer.*epochs=-2"),
        (MINIMAL, {"batch_size": 0}, "`batch_size` must.*batch_size=0 in .* with batch_size=0$"),
        (MINIMAL, {"precision": "float8"}, "`precision` must be one of .*'float8'"),
        (MINIMAL, {"seed": 0.5}, "`seed` must be an integer.*seed=0.5"),
        (MINIMAL, {"epochs": True}, "`epochs` must be a positive integer.*epochs=True"),
        (MINIMAL, {"label_smoothing": 7}, "`label_smoothing` must.*1 excluded.*=7"),
        (MINIMAL, {"freeze": ["head", 3]}, "`freeze` must be a string, or a list of strings"),
        (
            MINIMAL,
            {"optimizer": {"learning_rate": -1}},
            "`optimizer.learning_rate` must be a number, 0 or more.*=-1",
        ),
        (MINIMAL + 'optimizer = { name = "adamw" }', {}, "`optimizer.learning_rate` must be given"),
        (MINIMAL, {"schedule": "cosine"}, "`schedule` must be a table.*'cosine'"),
        ('data = { name = "mnist" }', {}, "`model` or `init` .*Received: .*recipe.toml"),
        ('model = { class_name = "ViT" }', {}, "must set `data`"),
        (MINIMAL, {"option": "wide"}, r"`option` must be one of \(\).*'wide'"),
        (MINIMAL + "epochs =", {}, r"valid TOML. .*recipe.toml \(.*"),
    ],
)
def test_invalid_recipe_raises(tmp_path, text, arguments, message):
    with pytest.raises(ValueError, match=message):
        load_recipe(write(tmp_path, text), **arguments)


def test_unknown_recipe_suggests_nearest_name():
    with pytest.raises(
        ValueError, match="Did you mean cspvit/cifar10_small.*'cspvit/cifar10_smal'"
    ):
        load_recipe("cspvit/cifar10_smal")
    with pytest.raises(ValueError, match=r"Did you mean slicevit/\w+ or .* Received: 'slicevit'"):
        load_recipe("slicevit")


def test_unknown_model_class_raises(tmp_path):
    recipe = load_recipe(write(tmp_path, MINIMAL), model={"class_name": "Nonsense"})
    with pytest.raises(ValueError, match="CSPViT.*Received: model.class_name='Nonsense'"):
        make_model(recipe)


# (recipe, option) -> parameters of the model in the paper.
PUBLISHED = {
    ("cspvit/cifar10", None): 6_377_994,
    ("cspvit/cifar10", "attention"): 9_523_722,
    ("cspvit/cifar10", "wide"): 9_523_722,
    ("cspvit/cifar100", None): 6_504_036,
    ("cspvit/cifar100", "attention"): 9_649_764,
    ("cspvit/cifar100", "wide"): 9_649_764,
    ("cspvit/imagenet", None): 18_497_896,
    ("cspvit/imagenet", "attention"): 22_050_664,
    ("cspvit/imagenet", "wide"): 22_036_840,
    ("slicevit/cifar10", None): 6_457_866,
    ("slicevit/cifar10", "attention"): 9_603_594,
    ("slicevit/cifar100", None): 6_504_036,
    ("slicevit/mnist", "paper"): 6_423_050,
    ("slicevit/mnist", "paper_attention"): 9_568_778,
    # Published with a head for 1000 classes; the data set has 200.
    ("slicevit/tiny_imagenet", None): 18_502_504 - 800 * 385,
    ("slicevit/tiny_imagenet", "attention"): 22_050_664 - 800 * 385,
    ("slicevit/dogs_vs_cats", None): 1_112_706,
    ("slicevit/dogs_vs_cats", "attention"): 1_899_138,
}


@pytest.mark.parametrize(("name", "option"), PUBLISHED)
def test_paper_recipes_have_published_parameter_count(name, option):
    recipe = load_recipe(name, option)
    assert make_model(recipe).count_params() == PUBLISHED[name, option]


def test_every_recipe_and_option_builds():
    for name in list_recipes():
        options = [None, *load_options(name)]
        for option in options:
            recipe = load_recipe(
                name, option, model={"hidden_dim": 144, "num_layers": 1}, init=None
            )
            outputs = recipe.model.get("num_classes", 1)  # graph models output one number
            assert make_model(recipe).output_shape == (None, outputs)


STAGES = (None, *(f"stage_{number}" for number in range(2, 8)))


@pytest.mark.filterwarnings("ignore:A preset predicts well only with")  # larger blocks
def test_pathx_stage_starts_from_previous_stage(tmp_path):
    before, name = None, "lratransformer/pathx"
    for option, size in zip(STAGES, (32, 64, *[128] * 5), strict=True):
        start = {} if before is None else {"init": str(tmp_path / str(before.stage))}
        recipe = load_recipe(name, option, model={"num_layers": 1}, **start)
        model = make_model(recipe)
        config = model.get_config()
        assert (config["image_size"], config["mixer"]["block_size"]) == (size, size)
        if before is not None:
            times = size // before.get_config()["image_size"]
            for weight, old in zip(model.weights, before.weights, strict=True):
                weight, old = map(keras.ops.convert_to_numpy, (weight, old))
                if weight.shape != old.shape:  # each position becomes a square of positions
                    old = old.reshape(size // times, size // times, -1)
                    old = old.repeat(times, axis=0).repeat(times, axis=1).reshape(weight.shape)
                np.testing.assert_array_equal(weight, old)
        before = model
        before.stage = option
        model.save_to_preset(tmp_path / str(option))


def test_last_pathx_stage_matches_long_range_arena():
    last = dataclasses.asdict(load_recipe("lratransformer/pathx", "stage_7"))
    arena = dataclasses.asdict(lra_run("pathx", "butterfly", "paper").recipe)
    arena["model"]["head_dims"] = list(arena["model"]["head_dims"])
    keys = ("model", "optimizer", "schedule", "batch_size", "epochs", "steps_per_epoch")
    assert {key: last[key] for key in keys} == {key: arena[key] for key in keys}
    assert last["paper"]["top1"] == arena["paper"]["top1"]


def load_options(name):
    return read_values(find_recipe(name)).get("options") or {}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": -2}, "`epochs` must.*epochs=-2 in .* with epochs=-2$"),
        ({"model": {"hidden_dmi": 64}}, "Did you mean `hidden_dim`"),
        ({"model": {"dropout": 2}}, "`dropout` must"),
        ({"optimizer": {"learning_rat": 1}}, "not recognized.*'learning_rat'"),
        ({"optimizer": {"name": "adamw"}}, "`optimizer.learning_rate` must be given"),
        ({"optimizer": {"name": "adan", "learning_rate": 1}}, "`optimizer` must be .*'adan'"),
        ({"schedule": {"warmup_epoch": 3}}, "Did you mean `schedule.warmup_epochs`"),
    ],
)
@pytest.mark.parametrize("smoke", [False, True])
def test_invalid_value_raises_before_data_are_read(tmp_path, monkeypatch, wrong, message, smoke):
    monkeypatch.setattr(TASKS["image_classification"], "load", None)
    monkeypatch.setattr(TASKS["image_classification"], "generate", None)
    with pytest.raises(ValueError, match=message):
        train(write(tmp_path, MINIMAL), **wrong, out=tmp_path / "run", smoke=smoke)


def test_smoke_run_raises_for_invalid_value(tmp_path):
    path = write(tmp_path, MINIMAL + "epochs = -2")
    with pytest.raises(ValueError, match="`epochs` must.*epochs=-2"):
        train(path, out=tmp_path / "run", smoke=True)
