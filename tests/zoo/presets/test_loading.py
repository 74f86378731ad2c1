"""Test loading presets: invalid contents with correct checksums, and overrides."""

import contextlib
import io
import json
import re
import shutil
import warnings

import h5py
import keras
import numpy as np
import pytest

from keras_permix import zoo
from keras_permix.ops.backend import running
from keras_permix.zoo.presets.load import load_weights_content, weights_content
from keras_permix.zoo.presets.probe import verify_probe
from keras_permix.zoo.presets.writer import pack_weights
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


def damaged(content):
    """Yield at least 165 damaged files: truncated, with changed bytes or with noise."""
    rng = np.random.default_rng(0)
    for cut in range(0, len(content), len(content) // 55):
        yield content[:cut]
    for _ in range(55):
        changed, indices = bytearray(content), rng.integers(0, len(content), 3)
        for index in indices:
            changed[index] ^= int(rng.integers(1, 256))
        yield bytes(changed)
    for start in range(0, len(content) - 64, len(content) // 55):
        yield content[:start] + rng.bytes(64) + content[start + 64 :]


def test_damaged_weights_raise_or_load():
    model, outcomes = tiny(), []
    for content in damaged(pack_weights(weights_content(tiny()))):
        try:
            load_weights_content(model, content, "preset/model.weights.h5")
            outcomes.append("loaded")
        except ValueError as error:
            assert re.match(
                "`preset/model.weights.h5` must contain exactly the weights of", str(error)
            )
            outcomes.append("refused")
    assert len(outcomes) >= 165 and outcomes.count("refused") > 100
    assert all(np.isfinite(value).all() for value in weights(model).values())


def test_damaged_weights_with_correct_checksum_raise(preset):
    content = (preset / WEIGHTS).read_bytes()
    (preset / WEIGHTS).write_bytes(content[:100] + bytes(800) + content[900:])
    list_anew(preset, WEIGHTS)
    refuses(preset, f"`{preset}/{WEIGHTS}` must contain exactly the weights of its model")


NOT_FINITE = "`layers/dense/vars/1`, which is not finite"


@pytest.mark.parametrize(
    ("change", "received"),
    [
        (put("layers/a/vars/0", data=np.zeros(7)), "`layers/a/vars/0`, float64.* to no layer"),
        (put("layers/a/vars/0", data=np.zeros(3, "float32")), "which belongs to no layer"),
        (put("optimizer/vars/0", data=np.zeros(7)), "`optimizer/vars/0`.* to no layer"),
        (lambda file: file.pop(f"{HEAD}/1"), r"a file without 1 weights, of shapes \[\(3,\)\]"),
        (put(f"{HEAD}/1", data=np.zeros(4)), r"`layers/dense/vars/1`, float64 of shape \(4,\)"),
        (put(f"{HEAD}/1", data=np.zeros(3, "int32")), "`layers/dense/vars/1`, int32"),
        (put(f"{HEAD}/1", data=["a", "b", "c"]), "`layers/dense/vars/1`, object"),
        (put(f"{HEAD}/1", data=[1.0, np.nan, 0.0]), NOT_FINITE),
        (put(f"{HEAD}/1", data=[1.0, -np.inf, 0.0]), NOT_FINITE),
        (put(f"{HEAD}/0", shape=(2**20, 2**20), dtype="f4", chunks=(1, 1024)), "to no layer"),
        (put(f"{HEAD}/1", shape=(3,), dtype="S1000000000"), "not a plain array"),
        (
            put(f"{HEAD}/1", shape=(3,), maxshape=(None,), chunks=(2**21,), dtype="f4"),
            "not a plain array",
        ),
    ],
    ids=[
        "path", "same shape", "optimizer", "missing", "shape", "kind", "text", "nan", "inf", "huge",
        "long", "large chunk",
    ],
)  # fmt: skip
def test_mismatched_weights_raise(preset, change, received):
    edit_weights(preset, change)
    refuses(preset, f"`{preset}/{WEIGHTS}` must .* Received: .*{received}")


def test_external_and_virtual_weights_raise(preset, tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["bias"] = np.zeros(3, "float32")

    def external(file):
        del file[f"{HEAD}/1"]
        file[f"{HEAD}/1"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "bias")

    edit_weights(preset, external)
    refuses(preset, "without 1 weights")

    def virtual(file):
        del file[f"{HEAD}/1"]
        layout = h5py.VirtualLayout((3,), "float32")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "bias", (3,))
        file.create_virtual_dataset(f"{HEAD}/1", layout)

    edit_weights(preset, virtual)
    refuses(preset, "`layers/dense/vars/1`, float32, which is not a plain array")


def test_nonfinite_bfloat16_weights_raise():
    model = tiny(dtype="bfloat16")
    file = io.BytesIO(weights_content(model))
    with h5py.File(file, "r+") as opened:
        array = opened[f"{HEAD}/1"]
        array[...] = np.array([0x3F80, 0x7FC0, 0], "uint16").view(array.dtype)
    with pytest.raises(ValueError, match="`layers/dense/vars/1`, which is not finite"):
        load_weights_content(model, file.getvalue(), WEIGHTS)


@pytest.mark.parametrize("kwargs", [{}, {"load_weights": False}, {"num_classes": 5}])
def test_wrong_parameter_count_raises(preset, kwargs):
    count = tiny().count_params()
    edit_json(preset / "metadata.json", lambda m: m.update(parameter_count=count + 1))
    message = (
        f"`parameter_count` of {preset}/.* must be that of .*, {count:,}. Received: {count + 1:,}"
    )
    refuses(preset, message, **kwargs)


@pytest.mark.parametrize("count", [None, 1e3, "1187", True])
def test_invalid_parameter_count_raises(preset, count):
    edit_json(preset / "metadata.json", lambda m: m.update(parameter_count=count))
    refuses(preset, f"`parameter_count`, an integer. Received: {count!r}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"patch_size": 0}, "`patch_size` must be a positive integer. Received: patch_size=0"),
        ({"image_size": -8}, "`image_size` must be a positive integer. Received: image_size=-8"),
        (
            {"hidden_dim": "wide"},
            "`hidden_dim` must be a positive integer. Received: hidden_dim='wide'",
        ),
        ({"std": [0.5, 0.0, 0.5]}, "`std` must contain positive numbers"),
        ({"std": 3}, "`std` must contain one finite value per channel"),
        ({"mixer": {"name": ["csp"]}}, "`mixer` must be one of"),
        ({"mixer": {"name": {"csp": 1}}}, "`mixer` must be one of"),
        ({"mixer": ["csp"]}, ""),
        ({"pooling": ["mean"]}, "`pooling` must be one of"),
        ({"dtype": {"config": {}}}, ""),
    ],
)
def test_invalid_configuration_raises(preset, change, message):
    edit_json(preset / "config.json", lambda config: config["config"].update(change))
    list_anew(preset, "config.json")
    refuses(
        preset, f"`{preset}/config.json` must contain a valid configuration .*Received: .*{message}"
    )


@pytest.mark.parametrize(
    ("change", "overrides", "message"),
    [
        (lambda c: c.pop("image_size"), {"image_size": 16}, "The `parameter_count` of"),
        (lambda c: c.update(mixer={"x": 1}), {"mixer": {"shift": "unit"}}, "`mixer` must be one"),
    ],
)
def test_overrides_of_incomplete_configuration_raise(preset, change, overrides, message):
    edit_json(preset / "config.json", lambda config: change(config["config"]))
    list_anew(preset, "config.json")
    refuses(preset, f"{message}.* Received: ", **overrides)


@pytest.mark.parametrize("probe", [{"seed": 0}, [], 3])
def test_incomplete_probe_raises(preset, probe):
    edit_json(preset / "metadata.json", lambda metadata: metadata.update(probe=probe))
    with pytest.raises(ValueError, match="contain seed, batch, outputs, atol. .*outputs, atol$"):
        verify_probe(preset)


@pytest.mark.parametrize("name", [["CSPViT"], {"CSPViT": 1}, 3, None])
@pytest.mark.parametrize("key", ["class_name", "module", "registered_name"])
def test_nonstring_class_name_raises(preset, key, name):
    edit_json(preset / "config.json", lambda config: config.update({key: name}))
    list_anew(preset, "config.json")
    refuses(preset, "must be of a class of keras_permix.zoo .*Received: ")


@pytest.mark.parametrize("depth", [63, 900, 100_000])
@pytest.mark.parametrize("name", ["config.json", "metadata.json"])
def test_deeply_nested_json_raises(preset, name, depth):
    text = json.dumps(json.loads((preset / name).read_text("utf-8")))
    deep = '{"mixer": ' * depth + "1" + "}" * depth
    (preset / name).write_text(f'{text[:-1]}, "deep": {deep}}}', encoding="utf-8")
    if name != "metadata.json":
        list_anew(preset, name)
    refuses(preset, f"`{preset}/{name}` must be a JSON file.* Received: ")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_json_is_strict(preset, number):
    edit_json(preset / "metadata.json", lambda m: m.update(scores={"a": float(number)}))
    refuses(preset, f"metadata.json` must be a JSON file.* Received: {number}, which is not valid")


def test_oversized_metadata_raises(preset):
    with open(preset / "metadata.json", "ab") as file:
        file.truncate(2**24 + 1)
    refuses(preset, "metadata.json` must contain no more than 16,777,216 bytes")


def test_metadata_link_outside_folder_raises(preset, tmp_path):
    shutil.move(preset / "metadata.json", tmp_path / "outside.json")
    (preset / "metadata.json").symlink_to(tmp_path / "outside.json")
    refuses(preset, "must lie inside its folder. Received: .*a link to .*outside.json")


def test_damaged_weights_raise_without_warning(preset):
    edit_weights(preset, lambda file: file.pop(f"{HEAD}/1"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        refuses(preset, "without 1 weights")
    assert not caught


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
def test_dropout_override_in_mixer_list_does_not_warn(tmp_path):
    mixers = ["csp", {"name": "attention", "num_heads": 2}]
    tiny("ViT", mixer=mixers).save_to_preset(tmp_path / "p")
    dropped = ["csp", {"name": "attention", "num_heads": 2, "dropout": 0.5}]
    assert zoo.ViT.from_preset(tmp_path / "p", mixer=dropped).get_config()["mixer"][1] == dropped[1]
    with pytest.warns(UserWarning, match="were trained with"):
        zoo.ViT.from_preset(tmp_path / "p", mixer=["slice_sort", mixers[1]])


def test_override_with_fewer_layers_raises(original):
    refuses(original, r"num_layers': 1.*with which block_1 would be left out", num_layers=1)
    fresh = zoo.CSPViT.from_preset(original, num_layers=1, load_weights=False)
    assert fresh.get_config()["num_layers"] == 1


def test_labels_imply_num_classes():
    model = zoo.CSPViT.from_preset("test", labels=[*"abcde"])
    assert model.output_shape == (None, 5) and model.labels == tuple("abcde")
    with pytest.raises(ValueError, match="labels"):
        zoo.CSPViT.from_preset("test", num_classes=4, labels=[*"abcde"])
