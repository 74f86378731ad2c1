"""Test downloads from and uploads to hubs, with their packages and a local server."""

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
    """Return a handle of each hub. Skip hubs without an installed package."""
    return require_package(request.param)


def require_package(handle):
    if not importlib.util.find_spec(PACKAGES[handle]):
        pytest.skip(f"not installed: {PACKAGES[handle]}")
    return handle


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Serve a model to the packages of the hubs, with temporary caches."""
    tiny().save_to_preset(tmp_path / "preset")
    files = {path.name: path.read_bytes() for path in (tmp_path / "preset").iterdir()}
    hub = Hub(files)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # do not wait between attempts
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
        before = unload_huggingface_hub()
        if importlib.util.find_spec("kagglesdk"):
            from kagglesdk import kaggle_env

            monkeypatch.setitem(kaggle_env._env_to_endpoint, kaggle_env.KaggleEnv.LOCAL, address)
        yield hub
        unload_huggingface_hub()
        sys.modules.update(before)


def unload_huggingface_hub():
    """Unload huggingface_hub, so that it reads its settings again. Returns its modules."""
    names = [name for name in sys.modules if name.partition(".")[0] == "huggingface_hub"]
    return {name: sys.modules.pop(name) for name in names}


def test_download(hub, handle):
    hub.files["large.bin"] = b"what the metadata does not list"
    expected, listed = logits(tiny()), sorted(set(hub.files) - {"large.bin"})
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(handle)), expected)
    assert sorted(hub.fetched) == listed
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(handle)), expected)
    assert sorted(hub.fetched) == listed  # not downloaded again


def test_upload_round_trip(hub, handle):
    hub.files = None
    tiny().upload_preset(handle, license="CC0")
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(handle)), logits(tiny()))
    assert zoo.preset_info(handle).metadata["license"] == "CC0"


@pytest.mark.parametrize("status", [401, 500])
def test_http_errors_raise(hub, handle, status):
    hub.refusal = status
    with pytest.raises(ConnectionError, match=f"`{handle}` could not be downloaded"):
        zoo.CSPViT.from_preset(handle)
    with pytest.raises(ConnectionError, match=f"(?s)`{handle}` could not be uploaded.*{status}"):
        tiny().upload_preset(handle)


def test_missing_model_raises(hub, handle):
    hub.files = None
    with pytest.raises(ConnectionError, match=f"(?s)`{handle}` could not be downloaded.*404"):
        zoo.CSPViT.from_preset(handle)


def test_corrupt_file_raises(hub, handle):
    weights = bytearray(hub.files["model.weights.h5"])
    weights[-1] ^= 1
    hub.files["model.weights.h5"] = bytes(weights)
    with pytest.raises(ValueError, match="model.weights.h5` must have the SHA-256"):
        zoo.CSPViT.from_preset(handle)


def test_cached_preset_loads_offline(hub):
    hub.files[".gitattributes"] = b"of the hub"  # not downloaded
    zoo.CSPViT.from_preset(require_package(HF))
    hub.refusal = 503
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(HF)), logits(tiny()))


@pytest.mark.parametrize("handle", PACKAGES)
def test_missing_package_raises(handle, monkeypatch):
    monkeypatch.setitem(sys.modules, PACKAGES[handle], None)
    message = rf'{handle}.* requires {PACKAGES[handle]}: pip install "keras_permix\[hub\]"'
    with pytest.raises(ImportError, match=message):
        zoo.CSPViT.from_preset(handle)
    with pytest.raises(ImportError, match=message):
        tiny().upload_preset(handle)


@pytest.mark.parametrize("name", ["{tmp_path}/kept", "../kept", "assets//x", ".x", "a/ b"])
def test_name_outside_folder_raises_before_download(hub, handle, name, tmp_path):
    (tmp_path / "kept").write_text("kept")
    metadata = json.loads(hub.files["metadata.json"])
    metadata["files"][name.format(tmp_path=tmp_path)] = {"bytes": 0, "sha256": ""}
    hub.files["metadata.json"] = json.dumps(metadata).encode()
    with pytest.raises(ValueError, match="may only name files inside its folder.* Received: "):
        zoo.CSPViT.from_preset(handle)
    assert hub.fetched == ["metadata.json"] and (tmp_path / "kept").read_text() == "kept"
