"""Test malformed handles, and weights that a wheel omits, with a local server."""

import functools
import http.server
import shutil
import socket
import threading

import numpy as np
import pytest

from keras_permix import zoo
from keras_permix.recipes import find
from keras_permix.zoo.presets import names
from tests.zoo.models import logits, tiny


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serve a folder without logging."""

    def log_message(self, *args):
        """Log nothing."""


@pytest.fixture
def web(tmp_path, monkeypatch):
    """Install the preset "cspvit/mine" without weights, which are served from the folder `web`."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(find, "weights_folders", lambda: (tmp_path / "weights",))
    tiny().save_to_preset(tmp_path / "web/cspvit/mine")
    shutil.copytree(tmp_path / "web", tmp_path / "weights")
    (tmp_path / "weights/cspvit/mine/model.weights.h5").unlink()
    handler = functools.partial(Quiet, directory=str(tmp_path / "web"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setattr(names, "WEIGHTS_URL", f"http://127.0.0.1:{server.server_port}")
        yield tmp_path / "web/cspvit/mine"
        server.shutdown()
        thread.join()


@pytest.fixture
def closed_port():
    """Yield a local port that refuses connections."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def test_weights_missing_from_wheel_are_downloaded(web, tmp_path, monkeypatch):
    assert zoo.list_presets()["cspvit/mine"].has_weights
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset("mine")), logits(tiny()))
    cached = next((tmp_path / "cache").rglob("model.weights.h5"))
    cached.write_bytes(b"damaged in the cache")
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset("mine")), logits(tiny()))
    (web / "model.weights.h5").unlink()  # not downloaded again
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset("mine")), logits(tiny()))
    monkeypatch.setattr(names, "WEIGHTS_URL", None)
    assert not zoo.list_presets()["cspvit/mine"].has_weights
    with pytest.raises(FileNotFoundError, match="contain `model.weights.h5`.*the wheel"):
        zoo.CSPViT.from_preset("mine")


def test_url_with_wrong_content_raises(web):
    content = bytearray((web / "model.weights.h5").read_bytes())
    content[-1] ^= 1
    (web / "model.weights.h5").write_bytes(content)
    with pytest.raises(ConnectionError, match="could not be downloaded.*file hash does not match"):
        zoo.CSPViT.from_preset("mine")


def test_no_network_raises(web, closed_port, monkeypatch):
    monkeypatch.setattr(names, "WEIGHTS_URL", f"http://127.0.0.1:{closed_port}")
    message = f"`http://127.0.0.1:{closed_port}/cspvit/mine/model.weights.h5` could not be down"
    with pytest.raises(ConnectionError, match=message):
        zoo.CSPViT.from_preset("mine")


@pytest.mark.once
@pytest.mark.parametrize("handle", ["https://example.org/p.zip", "hf://model", "kaggle://me/model"])
def test_malformed_handle_raises(handle):
    for call in (zoo.CSPViT.from_preset, tiny().upload_preset):
        with pytest.raises(ValueError, match="must be hf://USER/MODEL or kaggle://USER.*Received"):
            call(handle)
