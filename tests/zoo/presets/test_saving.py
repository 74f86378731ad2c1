"""Test saving presets: errors, killed processes and full disks."""

import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from keras_permix import zoo
from tests.harness.processes import environment
from tests.zoo.models import logits, tiny

# Save under each limit of the file size, and print the outcome.
FULL_DISK = """
import resource, sys
from keras_permix import zoo
from tests.zoo.models import tiny

model, (_, unlimited) = tiny(num_classes=4), resource.getrlimit(resource.RLIMIT_FSIZE)
for size in sys.argv[2:]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), unlimited))
    try:
        model.save_to_preset(sys.argv[1])
        print("saved", flush=True)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
"""

# Save, and kill the process at the given call of `os.rename`.
KILLED = """
import os, signal, sys
from pathlib import Path
from tests.zoo.models import tiny

rename, calls = os.rename, []

def rename_or_kill(*args):
    calls.append(args)
    if len(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    rename(*args)

os.rename = rename_or_kill
tiny(num_classes=4).save_to_preset(sys.argv[1])
"""


def run(script, *arguments):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True)


@pytest.fixture
def preset(tmp_path):
    tiny().save_to_preset(tmp_path / "preset")
    return tmp_path / "preset"


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


def test_full_disk_keeps_old_preset(preset):
    sizes = [0, 1, 500, 1000, *range(2000, 28000, 5000)]
    done = run(FULL_DISK, preset, *sizes)
    assert done.returncode == 0, done.stderr
    outcomes = done.stdout.splitlines()
    assert len(outcomes) == len(sizes)
    for outcome in outcomes:
        assert re.match("OSError .*File too large", outcome), outcome
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(preset)), logits(tiny()))
    assert listing(preset.parent) == ["preset"]


@pytest.mark.parametrize("rename", [1, 2])
def test_save_after_killed_save(preset, rename):
    done = run(KILLED, preset, rename)
    assert done.returncode == -signal.SIGKILL, done.stderr
    tiny().save_to_preset(preset)
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(preset)), logits(tiny()))
    assert not [name for name in listing(preset.parent) if name.endswith(".old")]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nonfinite_weights_raise(preset, value):
    model = tiny()
    weight = model.get_layer("block_1").mlp_in.bias
    weight.assign([1.0, value] + [0.0] * 6)
    with pytest.raises(ValueError, match=f"must be finite.* `block_1/mlp_in/bias` with {value}"):
        model.save_to_preset(preset)
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(preset)), logits(tiny()))


def test_nonfinite_bfloat16_weights_raise(tmp_path):
    model = tiny(dtype="bfloat16")
    model.get_layer("head").bias.assign([0.0, np.nan, 0.0])
    with pytest.raises(ValueError, match="must be finite.* `head/bias` with nan"):
        model.save_to_preset(tmp_path / "preset")


def test_metadata_is_strict_json(preset):
    for value in (float("nan"), np.float32("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            tiny().save_to_preset(preset, scores={"a": value})
    tiny().save_to_preset(preset, scores={"a": np.float32(0.5)})
    assert zoo.preset_info(preset).scores == {"a": 0.5}


def test_frozen_model_loads_trainable(tmp_path):
    model = tiny()
    model.trainable = False
    model.save_to_preset(tmp_path / "preset")
    loaded = zoo.CSPViT.from_preset(tmp_path / "preset")
    assert len(loaded.trainable_weights) == len(tiny().trainable_weights) > 0


def test_parameter_count_excludes_merged_lora(tmp_path):
    model = tiny()
    model.get_layer("block_0").mlp_in.enable_lora(2)
    model.save_to_preset(tmp_path / "preset")
    assert zoo.preset_info(tmp_path / "preset").parameters == tiny().count_params()


def test_saving_to_symlink_keeps_symlink(preset, tmp_path):
    (tmp_path / "link").symlink_to("preset")
    model = tiny(num_classes=4)
    model.save_to_preset(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(preset)), logits(model))


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("config.json/notes.txt", "config.json"),
        ("assets/notes.txt", "assets"),
        ("notes.txt", "notes.txt"),
    ],
)
def test_user_files_are_kept(tmp_path, path, named):
    path = tmp_path / "preset" / path
    path.parent.mkdir(parents=True)
    path.write_text("years of work", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"`folder` must be new, empty, .*'{named}'"):
        tiny().save_to_preset(tmp_path / "preset")
    assert path.read_text(encoding="utf-8") == "years of work"


def test_empty_user_folder_is_kept(tmp_path):
    (tmp_path / "preset" / "config.json").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"`folder` must be new, empty, .*\['config.json'\]"):
        tiny().save_to_preset(tmp_path / "preset")
    assert (tmp_path / "preset" / "config.json").is_dir()


LOCALE = """
import locale, sys
from pathlib import Path
from keras_permix import data, zoo
from keras_permix.training import train
from tests.training import runs
from tests.zoo.models import tiny

assert locale.getpreferredencoding(False) != "UTF-8"
labels = ["K\\u00e4se", "\\uc21c\\uc5f4", "c"]
tiny().save_to_preset(sys.argv[1], labels=labels)
assert zoo.preset_info(sys.argv[1]).metadata["labels"] == labels
recipe = Path(sys.argv[2] + ".toml")
values = {**runs.VALUES, "data": {"name": "cifar10"}}  # the images are generated
recipe.write_text(runs.as_toml(values), encoding="utf-8")
data.load_images = lambda name, data_dir=None: runs.make_images()
for _ in range(2):
    train(recipe, epochs=1, out=sys.argv[2], verbose=0)
"""


def test_files_are_utf8_in_any_locale(tmp_path):
    variables = environment(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    command = [sys.executable, "-c", LOCALE, tmp_path / "preset", tmp_path / "run"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Käse" in (tmp_path / "preset" / "task.json").read_text(encoding="utf-8")
