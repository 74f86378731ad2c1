"""Presets from the hubs and back, by their own packages, with a server here for their network."""

import importlib.util
import json
import sys

import numpy as np
import pytest

from keras_permix import zoo
from tests.zoo.models import logits, tiny
from tests.zoo.presets.hub_server import Hub, serving

pytestmark = pytest.mark.once
PACKAGES = {"hf://me/model": "huggingface_hub", "kaggle://me/model/keras/tiny": "kagglehub"}
HF, KAGGLE = PACKAGES


@pytest.fixture(params=PACKAGES)
def handle(request):
    """A handle of each hub whose package is installed."""
    return needing(request.param)


def needing(handle):
    if not importlib.util.find_spec(PACKAGES[handle]):
        pytest.skip(f"not installed: {PACKAGES[handle]}")
    return handle


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with our model, whom the packages take for theirs; what they keep is of this test."""
    tiny().save_to_preset(tmp_path / "preset")
    files = {path.name: path.read_bytes() for path in (tmp_path / "preset").iterdir()}
    hub = Hub(files)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between attempts
    with serving(hub) as address:
        variables = dict(
            HF_ENDPOINT=address, HF_HOME=str(tmp_path / "hf"), HF_TOKEN="hf_mine",
            HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_XET="1",
            HF_HUB_DISABLE_PROGRESS_BARS="1", KAGGLEHUB_CACHE=str(tmp_path / "kaggle"),
            KAGGLE_API_ENVIRONMENT="LOCALHOST", KAGGLE_API_TOKEN="mine",
            KAGGLE_CONFIG_DIR=str(tmp_path), NO_PROXY="127.0.0.1",
        )  # fmt: skip
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        before = forget()
        if importlib.util.find_spec("kagglesdk"):
            from kagglesdk import kaggle_env

            monkeypatch.setitem(kaggle_env._env_to_endpoint, kaggle_env.KaggleEnv.LOCAL, address)
        yield hub
        forget()
        sys.modules.update(before)


def forget():
    """Have the package read its settings anew when it is imported next; return its modules."""
    names = [name for name in sys.modules if name.partition(".")[0] == "huggingface_hub"]
    return {name: sys.modules.pop(name) for name in names}


def test_download(hub, handle):
    hub.files["large.bin"] = b"what the metadata does not list"
    expected, listed = logits(tiny()), sorted(set(hub.files) - {"large.bin"})
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(handle)), expected)
    assert sorted(hub.fetched) == listed
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(handle)), expected)
    assert sorted(hub.fetched) == listed  # once


def test_upload_and_back(hub, handle):
    hub.files = None
    tiny().upload_preset(handle, license="CC0")
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(handle)), logits(tiny()))
    assert zoo.preset_info(handle).metadata["license"] == "CC0"


@pytest.mark.parametrize("status", [401, 500])
def test_refusals(hub, handle, status):
    hub.refusal = status
    with pytest.raises(ConnectionError, match=f"`{handle}` could not be downloaded"):
        zoo.CSPViT.from_preset(handle)
    with pytest.raises(ConnectionError, match=f"(?s)`{handle}` could not be uploaded.*{status}"):
        tiny().upload_preset(handle)


def test_a_model_that_there_is_not(hub, handle):
    hub.files = None
    with pytest.raises(ConnectionError, match=f"(?s)`{handle}` could not be downloaded.*404"):
        zoo.CSPViT.from_preset(handle)


def test_a_file_that_is_another(hub, handle):
    weights = bytearray(hub.files["model.weights.h5"])
    weights[-1] ^= 1
    hub.files["model.weights.h5"] = bytes(weights)
    with pytest.raises(ValueError, match="model.weights.h5` must have the SHA-256"):
        zoo.CSPViT.from_preset(handle)


def test_a_file_of_another_size_is_not_fetched(hub):
    hub.files["model.weights.h5"] += bytes(2**20)
    with pytest.raises(ValueError, match=r"`model.weights.h5` must hold .* It was not downloaded."):
        zoo.CSPViT.from_preset(needing(HF))
    assert hub.fetched == ["metadata.json"]


def test_what_was_fetched_serves_without_a_connection(hub):
    hub.files[".gitattributes"] = b"of the hub"  # which is not fetched
    zoo.CSPViT.from_preset(needing(HF))
    hub.refusal = 503
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(HF)), logits(tiny()))


def test_files_that_lie_elsewhere(hub):
    """A file with a URL of its own is not asked of Kaggle, which does not have it."""
    metadata = json.loads(hub.files["metadata.json"])
    del metadata["files"]["config.json"]["url"]  # which may be left out
    metadata["files"]["model.weights.h5"]["url"] = "https://198.51.100.1:9/model.weights.h5"
    hub.files["metadata.json"] = json.dumps(metadata).encode()
    with pytest.raises(ValueError, match="network.*:9/model"):
        zoo.CSPViT.from_preset(needing(KAGGLE))


@pytest.mark.parametrize("handle", PACKAGES)
def test_a_package_that_is_not_installed(handle, monkeypatch):
    monkeypatch.setitem(sys.modules, PACKAGES[handle], None)
    message = (
        rf'{handle}.* requires the package {PACKAGES[handle]}: pip install "keras_permix\[hub\]"'
    )
    with pytest.raises(ImportError, match=message):
        zoo.CSPViT.from_preset(handle)
    with pytest.raises(ImportError, match=message):
        tiny().upload_preset(handle)


@pytest.mark.parametrize("handle", ["hf://model", "kaggle://me/model", "https://example.org/m"])
def test_upload_elsewhere(handle):
    with pytest.raises(ValueError, match="`handle` must be one of hf://USER/MODEL, kaggle://"):
        tiny().upload_preset(handle)
