"""Test loading presets: invalid contents with correct checksums, and overrides."""

import contextlib
import shutil

import h5py
import keras
import numpy as np
import pytest

from keras_permix import zoo
from keras_permix.ops.backend import running
from tests.zoo.models import edit_json, list_anew, tiny, weights

WEIGHTS = "model.weights.h5"
HEAD = "layers/dense/vars"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("presets") / "original"
    tiny().save_to_preset(folder)
    return folder


@pytest.fixture
def preset(original, tmp_path):
    return shutil.copytree(original, tmp_path / "preset")


def test_jax_skips_initialization_of_loaded_weights(preset, monkeypatch):
    draw, drawn = keras.initializers.VarianceScaling.__call__, []

    def watched(self, *args, **kwargs):
        drawn.append(draw(self, *args, **kwargs))
        return drawn[-1]

    monkeypatch.setattr(keras.initializers.VarianceScaling, "__call__", watched)
    zoo.CSPViT.from_preset(preset)
    assert {running.has_data(value) for value in drawn} == {keras.config.backend() != "jax"}


def test_loaded_model_with_dropout_trains(tmp_path):
    tiny(dropout=0.5).save_to_preset(tmp_path / "preset")
    model = zoo.CSPViT.from_preset(tmp_path / "preset")
    seeds = [generator for layer in model._flatten_layers() for generator in layer._seed_generators]
    states = [keras.ops.convert_to_numpy(generator.state) for generator in seeds]
    assert len({seed for seed, _ in states}) == len(seeds) > 1
    assert not any(drawn for _, drawn in states)
    model.compile("sgd", "mse")
    before = weights(model)
    model.train_on_batch(model.make_inputs(0, 2), np.ones((2, 3)))
    assert any((old != before[path]).any() for path, old in weights(model).items())


def refuses(preset, message, **kwargs):
    with pytest.raises(ValueError, match=message):
        zoo.CSPViT.from_preset(preset, **kwargs)


def edit_weights(preset, change):
    """Apply `change` to the HDF5 file of a preset, and update its checksum."""
    with h5py.File(preset / WEIGHTS, "r+") as file:
        change(file)
    list_anew(preset, WEIGHTS)


def put(name, **dataset):
    """Return a change that creates or replaces an HDF5 dataset."""

    def change(file):
        file.pop(name, None)
        file.create_dataset(name, **dataset)

    return change


def test_damaged_weights_with_correct_checksum_raise(preset):
    content = (preset / WEIGHTS).read_bytes()
    (preset / WEIGHTS).write_bytes(content[:100] + bytes(800) + content[900:])
    list_anew(preset, WEIGHTS)
    refuses(preset, f"`{preset}/{WEIGHTS}` must hold weights of the model")


@pytest.mark.parametrize(
    ("change", "received"),
    [
        (lambda file: file.pop(f"{HEAD}/1"), "expected 2 variables, but received 1"),
        (put(f"{HEAD}/1", data=np.zeros(4)), "shape"),
        (put(f"{HEAD}/1", data=["a", "b", "c"]), ""),
        (put(f"{HEAD}/0", shape=(2**20, 2**20), dtype="f4", chunks=(1, 1024)), "4.00 TB"),
    ],
    ids=["missing", "shape", "text", "huge"],
)
@pytest.mark.filterwarnings("ignore:Skipping nested container")
def test_mismatched_weights_raise(preset, change, received):
    edit_weights(preset, change)
    refuses(preset, f"(?s)`{preset}/{WEIGHTS}` must .* Received: .*{received}")


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_nonfinite_weights_raise(preset, value):
    edit_weights(preset, put(f"{HEAD}/1", data=[1.0, value, 0.0]))
    refuses(preset, f"must be finite.* Received: `head/bias` with {value}")


@pytest.mark.parametrize("name", [["CSPViT"], {"CSPViT": 1}, 3, None])
@pytest.mark.parametrize("key", ["class_name", "module", "registered_name"])
def test_nonstring_class_name_raises(preset, key, name):
    edit_json(preset / "config.json", lambda config: config.update({key: name}))
    list_anew(preset, "config.json")
    refuses(preset, "must be of a class of keras_permix.zoo. Received: ")


@pytest.mark.parametrize(
    ("given", "expected", "warned"),
    [
        ("csp", {"name": "csp", "shift": "linear_code"}, False),
        ({"ragged": True}, {"name": "csp", "shift": "linear_code", "ragged": True}, False),
        ({"name": "csp", "shift": "unit"}, {"name": "csp", "shift": "unit"}, True),
        ("slice_sort", {"name": "slice_sort"}, True),
    ],
)
def test_mixer_override_keeps_trained_arguments(given, expected, warned, tmp_path):
    tiny("ViT", mixer={"name": "csp", "shift": "linear_code"}).save_to_preset(tmp_path / "p")
    message = "Received: mixer=.* instead of .'name': 'csp', 'shift': 'linear_code'"
    with pytest.warns(UserWarning, match=message) if warned else contextlib.nullcontext():
        model = zoo.ViT.from_preset(tmp_path / "p", mixer=given)
    assert model.get_config()["mixer"] == expected


@pytest.mark.once
def test_override_of_trained_argument_warns(original):
    with pytest.warns(UserWarning, match=r"Received: pooling='max' instead of 'mean'$"):
        zoo.CSPViT.from_preset(original, pooling="max", num_classes=7, dropout=0.5)
    with pytest.warns(UserWarning, match=r"Received: std=\(1, 1, 1\) instead of "):
        zoo.CSPViT.from_preset(original, std=(1, 1, 1))
    zoo.CSPViT.from_preset(original, pooling="max", load_weights=False)
    zoo.CSPViT.from_preset(original, std=(0.5, 0.5, 0.5), steps_image_size=8)  # unchanged


@pytest.mark.once
@pytest.mark.parametrize("pooling", ["mean", "mean_of_length"])
def test_other_length_warns_only_if_it_changes_outputs(pooling, tmp_path):
    tiny("LRATransformer", pooling=pooling).save_to_preset(tmp_path / "p")
    message = "Received: max_sequence_length=99 instead of "
    warned = pytest.warns(UserWarning, match=message)
    with warned if pooling == "mean_of_length" else contextlib.nullcontext():
        zoo.LRATransformer.from_preset(tmp_path / "p", max_sequence_length=99)


@pytest.mark.once
def test_dropout_override_in_mixer_list_does_not_warn(tmp_path):
    mixers = ["csp", {"name": "attention", "num_heads": 2}]
    tiny("ViT", mixer=mixers).save_to_preset(tmp_path / "p")
    dropped = ["csp", {"name": "attention", "num_heads": 2, "dropout": 0.5}]
    assert zoo.ViT.from_preset(tmp_path / "p", mixer=dropped).get_config()["mixer"][1] == dropped[1]
    with pytest.warns(UserWarning, match="were trained with"):
        zoo.ViT.from_preset(tmp_path / "p", mixer=["slice_sort", mixers[1]])


def test_override_with_fewer_layers_warns(original):
    with pytest.warns(UserWarning, match="Received: num_layers=1 instead of 2$"):
        model = zoo.CSPViT.from_preset(original, num_layers=1)
    stored = weights(zoo.CSPViT.from_preset(original))
    for path, value in weights(model).items():
        np.testing.assert_array_equal(value, stored[path])


def test_labels_imply_num_classes():
    model = zoo.CSPViT.from_preset("test", labels=[*"abcde"])
    assert model.output_shape == (None, 5) and model.labels == tuple("abcde")
    with pytest.raises(ValueError, match="labels"):
        zoo.CSPViT.from_preset("test", num_classes=4, labels=[*"abcde"])
