"""A folder of pictures becomes a preset: from another's weights, with parts of it frozen."""

import json

import numpy as np
import pytest
from PIL import Image

from keras_permix.cli import main
from keras_permix.training import load_recipe, make_model, train
from keras_permix.training.schedules import make_optimizer
from keras_permix.training.start import fit_head, freeze
from keras_permix.zoo import CSPViT
from tests.zoo.models import tiny, weights

pytestmark = pytest.mark.once  # Training and heads are tested on each backend elsewhere.

# Starts from the preset of tests, three classes of 8 x 8 images.
RECIPE = """
init = "cspvit/test"
data = dict(name="pets", source="folder", test_fraction=0.25, random_crop=False, keep=1.0)
freeze = "backbone"
optimizer = dict(name="lion", learning_rate=1e-2)
batch_size = 8
epochs = 2
"""


def write(folder, classes=("cats", "dogs")):
    """Pictures of several sizes, and a recipe. Returns the recipe's path."""
    rng = np.random.default_rng(0)
    for number, name in enumerate(classes):
        (folder / "pets" / name).mkdir(parents=True)
        for image in range(12):
            pixels = rng.integers(0, 120, (20 + image, 30, 3)) + 120 * (number % 2)
            Image.fromarray(pixels.astype("uint8")).save(folder / f"pets/{name}/{image}.png")
    (folder / "mine").mkdir()
    (folder / "mine/recipe.py").write_text(RECIPE, encoding="utf-8")
    return folder / "mine/recipe.py"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    return folder, train(write(folder), data_dir=folder, out=folder / "run", verbose=0)


def test_labels_of_the_folder_become_the_preset_s(trained):
    folder, done = trained
    assert done.model.labels == ("cats", "dogs") and done.model.output_shape == (None, 2)
    preset = folder / "run/preset"
    assert CSPViT.from_preset(preset).labels == ("cats", "dogs")
    metadata = json.loads((preset / "metadata.json").read_text(encoding="utf-8"))
    assert metadata["data"] == "pets" and metadata["data_options"]["test_fraction"] == 0.25
    assert (folder / "run/README.md").read_text(encoding="utf-8").startswith("# cspvit/mine\n")


def test_what_is_frozen_stays_and_the_rest_moves(trained):
    _, done = trained
    before, after = weights(CSPViT.from_preset("test")), weights(done.model)
    moved = {path for path in after if not np.array_equal(after[path], before.get(path))}
    assert moved == {"head_norm/gamma", "head_norm/beta", "head/kernel", "head/bias"}
    assert type(done.model.optimizer).__name__ == "Lion"


def test_the_preset_is_measured_again_and_asked(trained, capsys):
    folder, done = trained
    preset = str(folder / "run/preset")
    assert main(["evaluate", preset, "--data-dir", str(folder)]) == 0
    score = done.scores["pets/test/top1"]
    assert f"pets/test/top1: {100 * score:.2f} %" in capsys.readouterr().out
    assert main(["predict", preset, str(folder / "pets/cats/0.png")]) == 0
    assert {line.split()[-1] for line in capsys.readouterr().out.splitlines()[1:]} == {
        "cats",
        "dogs",
    }


def test_a_finished_run_is_not_begun_anew(trained):
    folder, done = trained
    again = train(folder / "mine/recipe.py", data_dir=folder, out=folder / "run", verbose=0)
    assert again.rows == done.rows and again.scores == done.scores
    for path, value in weights(again.model).items():
        np.testing.assert_array_equal(value, weights(done.model)[path])


def test_the_command_starts_from_a_preset(tmp_path, capsys):
    recipe = write(tmp_path)
    text = RECIPE.replace('init = "cspvit/test"', 'model = dict(class_name="CSPViT")')
    recipe.write_text(text, encoding="utf-8")
    options = ["--data-dir", str(tmp_path), "--out", str(tmp_path / "run"), "--verbose", "0"]
    shape = ["--init", "cspvit/test", "--set", "epochs=1"]
    assert main(["train", str(recipe), *shape, *options]) == 0
    command = json.loads((tmp_path / "run/run.json").read_text(encoding="utf-8"))["command"]
    assert "init=" in command and "cspvit/test" in command
    assert CSPViT.from_preset(tmp_path / "run/preset").get_config()["width"] == 8


def recipe(tmp_path, **changes):
    path = tmp_path / "recipe.py"
    path.write_text(RECIPE, encoding="utf-8")
    return {**load_recipe(path), "model": {"class_name": "CSPViT"}, **changes}


def test_a_preset_s_own_labels_keep_its_head(tmp_path):
    values = recipe(tmp_path)
    model = make_model(values)
    assert fit_head(model, values, ("red", "green", "blue")) is model
    other = fit_head(model, values, ("a", "b", "c"))
    assert other.labels == ("a", "b", "c")
    assert not np.array_equal(weights(other)["head/kernel"], weights(model)["head/kernel"])


def test_without_init_a_head_has_as_many_classes_as_the_data(tmp_path):
    small = dict(class_name="CSPViT", image_size=8, patch_size=2, width=8, depth=1, mlp_dim=8)
    values = recipe(tmp_path, init=None, model=small)
    model = fit_head(make_model(values), values, tuple("abcd"))
    assert model.output_shape == (None, 4) and model.labels == tuple("abcd")


def test_layers_are_frozen_by_name():
    model = tiny()
    freeze(model, ["patch_embedding", "block_*"])
    layers = {weight.path.split("/")[0] for weight in model.trainable_weights}
    assert layers == {"position_embedding", "head_norm", "head"}


@pytest.mark.parametrize(
    ("parts", "rule"),
    [("neck", "`freeze` must be .*head.*freeze='neck'"), ("*", "must leave something to train")],
)
def test_what_cannot_be_frozen(parts, rule):
    with pytest.raises(ValueError, match=rule):
        freeze(tiny(), parts)


def test_another_class_than_the_preset_s(tmp_path):
    with pytest.raises(ValueError, match="`ViT.from_preset` loads presets of ViT"):
        make_model(recipe(tmp_path, model={"class_name": "ViT"}))


def test_wrong_optimizer(tmp_path):
    optimizer = dict(name="sgd", learning_rate=1.0, momentum=2.0)
    with pytest.raises(ValueError, match="arguments of keras.optimizers.SGD.*momentum"):
        make_optimizer(recipe(tmp_path, optimizer=optimizer), 10)
