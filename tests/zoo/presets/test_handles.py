"""Test presets from URLs, with a local server."""

import functools
import hashlib
import http.server
import json
import os
import re
import shutil
import socket
import threading
import time
import tracemalloc
import zipfile

import numpy as np
import pytest

from keras_permix import zoo
from keras_permix.recipes import find
from keras_permix.zoo.presets import fetch, handles, names
from keras_permix.zoo.presets.handles import unpack
from tests.zoo.models import edit_json, logits, tiny


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serve a folder without logging."""

    def log_message(self, *args):
        """Log nothing."""


@pytest.fixture
def web(tmp_path, monkeypatch):
    """Serve a preset with an empty Keras cache, and yield `(folder, address)`."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    check = fetch._check_address

    def allow_this_server(url, host):
        check(url, "127.0.0.1" if url.startswith("http://127.0.0.1") else host)

    monkeypatch.setattr(fetch, "_check_address", allow_this_server)
    folder = tmp_path / "web"
    tiny().save_to_preset(folder)
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def closed_port():
    """Yield a local port that refuses connections."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_url_of_metadata(web):
    folder, address = web
    handle = f"{address}/metadata.json#sha256={sha256(folder / 'metadata.json')}"
    expected = logits(tiny())
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(handle)), expected)
    shutil.rmtree(folder)
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(handle)), expected)


@pytest.mark.parametrize("root", ["", "preset/"])
def test_url_of_archive(web, root):
    folder, address = web
    with zipfile.ZipFile(folder / "model.zip", "w") as archive:
        for path in folder.glob("*.*"):
            if path.name != "model.zip":
                archive.write(path, root + path.name)
        archive.writestr("../../escaped.txt", "out")
    handle = f"{address}/model.zip#sha256={sha256(folder / 'model.zip')}"
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(handle)), logits(tiny()))
    assert not list(folder.parent.rglob("escaped.txt"))


def test_archive_is_unpacked_once(web, monkeypatch):
    folder, address = web
    with zipfile.ZipFile(folder / "model.zip", "w") as archive:
        for path in folder.glob("*.*"):
            if path.name != "model.zip":
                archive.write(path, path.name)
    handle = f"{address}/model.zip#sha256={sha256(folder / 'model.zip')}"
    written, write = [], handles.write_bytes

    def counted(path, content):
        written.append(path.name)
        write(path, content)

    monkeypatch.setattr(handles, "write_bytes", counted)
    files = zoo.preset_info(handle).files
    assert sorted(written) == sorted(["metadata.json", *files.metadata["files"]])
    written.clear()
    assert zoo.preset_info(handle).files.folder == files.folder and written == []
    for damaged in ("model.weights.h5", "metadata.json"):
        (files.folder / damaged).write_bytes(b"damaged in the cache")
        np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(handle)), logits(tiny()))
    assert written == ["model.weights.h5", "metadata.json"]


def test_leftovers_of_killed_download_are_removed(web, tmp_path):
    folder, address = web
    digest = sha256(folder / "metadata.json")
    cache = tmp_path / "cache/keras_permix" / digest[:16]
    cache.mkdir(parents=True)
    for name, age in ((".metadata.json.0123456789ab.new", 7200), (".b.0123456789ab.new", 0)):
        (cache / name).write_bytes(b"half")
        os.utime(cache / name, (time.time() - age,) * 2)
    zoo.preset_info(f"{address}/metadata.json#sha256={digest}")
    assert sorted(path.name for path in cache.glob(".*")) == [".b.0123456789ab.new"]


def test_archive_without_metadata(web):
    folder, address = web
    with zipfile.ZipFile(folder / "model.zip", "w") as archive:
        archive.write(folder / "config.json", "config.json")
    with pytest.raises(ValueError, match="contain one `metadata.json`. Received: .*config.json"):
        zoo.CSPViT.from_preset(f"{address}/model.zip#sha256={sha256(folder / 'model.zip')}")


@pytest.mark.parametrize("kind", ["STORED", "DEFLATED", "BZIP2", "LZMA"])
@pytest.mark.parametrize("damage", ["flipped", "zeros", "cut"])
def test_damaged_archive(web, tmp_path, kind, damage):
    folder, _ = web
    with zipfile.ZipFile(tmp_path / "model.zip", "w", getattr(zipfile, f"ZIP_{kind}")) as archive:
        archive.write(folder / "metadata.json", "metadata.json")
    content = bytearray((tmp_path / "model.zip").read_bytes())
    if damage == "cut":
        del content[100:]
    elif damage == "zeros":
        content[43:200] = bytes(157)  # after a header of 30 bytes and the name
    else:
        content[60] ^= 255
    (tmp_path / "model.zip").write_bytes(content)
    message = "must be a readable zip file. Received: .*model.zip"
    with pytest.raises(ValueError, match=message):
        unpack(tmp_path / "model.zip")


def test_file_with_url(web, tmp_path):
    folder, address = web
    preset = tmp_path / "preset"
    shutil.copytree(folder, preset)
    (preset / "model.weights.h5").unlink()
    set_url(preset, f"{address}/model.weights.h5")
    assert zoo.preset_info(preset).has_weights
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(preset)), logits(tiny()))
    cached = next((tmp_path / "cache").rglob("model.weights.h5"))
    cached.write_bytes(b"damaged in the cache")
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset(preset)), logits(tiny()))


def test_weights_missing_from_wheel_are_downloaded(web, tmp_path, monkeypatch):
    folder, address = web
    monkeypatch.setattr(find, "weights_folders", lambda: (tmp_path / "weights",))
    shutil.copytree(folder, tmp_path / "weights/cspvit/mine")
    for part in ("cspvit", "cspvit/mine"):
        (folder / part).mkdir()
    weights = tmp_path / "weights/cspvit/mine/model.weights.h5"
    weights.rename(folder / "cspvit/mine/model.weights.h5")
    assert not zoo.list_presets()["cspvit/mine"].has_weights
    monkeypatch.setattr(names, "WEIGHTS_URL", address)
    assert zoo.list_presets()["cspvit/mine"].has_weights
    np.testing.assert_array_equal(logits(zoo.CSPViT.from_preset("mine")), logits(tiny()))


def test_url_with_wrong_content_raises(web, tmp_path):
    folder, address = web
    preset = tmp_path / "preset"
    shutil.copytree(folder, preset)
    (preset / "model.weights.h5").unlink()
    set_url(preset, f"{address}/other.h5")
    content = bytearray((folder / "model.weights.h5").read_bytes())
    content[-1] ^= 1
    (folder / "other.h5").write_bytes(content)
    with pytest.raises(ValueError, match="`model.weights.h5` must have the SHA-256 .* another"):
        zoo.CSPViT.from_preset(preset)
    for other, received in ((content + b"1", "more"), (content[:-1], str(len(content) - 1))):
        (folder / "other.h5").write_bytes(other)
        message = f"must contain {len(content):,} bytes.* Received: {received} from "
        with pytest.raises(ValueError, match=message):
            zoo.CSPViT.from_preset(preset)


def test_no_network_raises(web, closed_port, tmp_path):
    folder, _ = web
    preset = tmp_path / "preset"
    shutil.copytree(folder, preset)
    (preset / "model.weights.h5").unlink()
    set_url(preset, f"http://127.0.0.1:{closed_port}/model.weights.h5")
    message = "`model.weights.h5` could not be downloaded. Connect to the internet.* Received: .*"
    with pytest.raises(ConnectionError, match=message + f"127.0.0.1:{closed_port}"):
        zoo.CSPViT.from_preset(preset)
    with pytest.raises(ConnectionError, match="`preset.zip` could not be downloaded"):
        zoo.CSPViT.from_preset(f"http://127.0.0.1:{closed_port}/p.zip#sha256={'0' * 64}")


@pytest.mark.parametrize("url", ["http://example.org/m.h5", "file:///etc/passwd", "ftp://x/y"])
def test_only_https(web, tmp_path, url):
    folder, _ = web
    (folder / "model.weights.h5").unlink()
    set_url(folder, url)
    with pytest.raises(ValueError, match=f"over https only. Received: {url}"):
        zoo.CSPViT.from_preset(folder)


PRIVATE = ("localhost", "127.0.0.1", "10.0.0.7", "192.168.1.1", "169.254.169.254", "[::1]",
           "[::ffff:127.0.0.1]", "[fd00::1]", "0x7f000001")  # fmt: skip


@pytest.mark.parametrize("host", PRIVATE)
def test_private_network_address_raises(tmp_path, host):
    tiny().save_to_preset(tmp_path / "preset")
    (tmp_path / "preset" / "model.weights.h5").unlink()
    set_url(tmp_path / "preset", f"https://{host}/model.weights.h5")
    with pytest.raises(ValueError, match=f"from private networks only if.*{re.escape(host)}"):
        zoo.CSPViT.from_preset(tmp_path / "preset")


def test_public_hosts():
    assert fetch.is_public("8.8.8.8") and fetch.is_public("no-such-host.invalid")


@pytest.mark.parametrize(
    "handle",
    [
        "https://example.org/metadata.json",
        "https://example.org/p.zip#sha256=abc",
        f"https://example.org/p.tar#sha256={'0' * 64}",
        f"gs://bucket/metadata#sha256={'0' * 64}",
    ],
)
def test_malformed_handle_raises(handle):
    with pytest.raises(ValueError, match="The handle of a preset must be one of hf://"):
        zoo.CSPViT.from_preset(handle)


class Endless(http.server.BaseHTTPRequestHandler):
    """Send bytes endlessly, few at `/slow`, none at `/silent`, or redirect at `/away`."""

    def do_GET(self):
        """Handle a request."""
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://example.org/model.weights.h5")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        until = time.monotonic() + 20  # so that a client without limits fails
        while self.path != "/silent" and time.monotonic() < until:
            try:
                self.wfile.write(bytes(1 if self.path == "/slow" else 2**16))
            except OSError:
                return
            if self.path == "/slow":
                time.sleep(0.02)
        if self.path == "/silent":
            self.server.closing.wait(30)

    def log_message(self, *args):
        """Log nothing."""


@pytest.fixture
def endless(web):
    """Yield the address of an `Endless` server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        server.closing = threading.Event()
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.closing.set()
        server.shutdown()
        thread.join()


def test_download_stops_at_the_listed_size(web, endless):
    folder, _ = web
    size = (folder / "model.weights.h5").stat().st_size
    (folder / "model.weights.h5").unlink()
    set_url(folder, f"{endless}/model.weights.h5")
    message = f"`model.weights.h5` must contain {size:,} bytes.* Received: more from {endless}"
    with pytest.raises(ValueError, match=message):
        zoo.CSPViT.from_preset(folder)
    handle = f"{endless}/metadata.json#sha256={'0' * 64}"
    with pytest.raises(ValueError, match="`metadata.json` must contain 16,777,216 bytes at most"):
        zoo.CSPViT.from_preset(handle)
    assert not [path for path in (folder.parent / "cache").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("server", "timeout", "reason"),
    [("silent", 0.3, "timed out"), ("slow", 1.0, "no more than [0-9]+ bytes")],
)
def test_slow_download_times_out(web, endless, monkeypatch, server, timeout, reason):
    folder, _ = web
    (folder / "model.weights.h5").unlink()
    set_url(folder, f"{endless}/{server}")
    monkeypatch.setattr(fetch, "TIMEOUT", timeout)
    with pytest.raises(ConnectionError, match=f"could not be downloaded.* {reason}"):
        zoo.CSPViT.from_preset(folder)
    assert not [path for path in (folder.parent / "cache").rglob("*") if path.is_file()]


def test_download_is_streamed_to_disk(web):
    folder, address = web
    (folder / "large.zip").write_bytes(bytes(2**24))
    digest = sha256(folder / "large.zip")
    for _ in range(2):  # from the web, then from the cache
        tracemalloc.start()
        path = fetch.fetch(f"{address}/large.zip", "large.zip", digest, 2**25, exact=False)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**22
    assert sha256(path) == digest


def test_redirect_to_http_raises(web, endless):
    folder, _ = web
    (folder / "model.weights.h5").unlink()
    set_url(folder, f"{endless}/away")
    with pytest.raises(ValueError, match="over https only. Received: http://example.org"):
        zoo.CSPViT.from_preset(folder)


def test_unwritable_cache_raises(web, tmp_path, monkeypatch):
    folder, address = web
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "file"))
    handle = f"{address}/metadata.json#sha256={sha256(folder / 'metadata.json')}"
    with pytest.raises(OSError, match=f"`KERAS_HOME`.* Received: {tmp_path}/file"):
        zoo.CSPViT.from_preset(handle)


def test_files_in_subfolders(web):
    folder, address = web
    model = tiny()
    model.assets = lambda: {"assets/tokenizer/vocab.json": b"{}"}
    model.save_to_preset(folder)
    handle = f"{address}/metadata.json#sha256={sha256(folder / 'metadata.json')}"
    assert zoo.CSPViT.from_preset(handle).output_shape == (None, 3)
    (cached,) = (folder.parent / "cache").rglob("assets/tokenizer/vocab.json")
    assert cached.read_bytes() == b"{}"


def set_url(preset, url):
    """Set the URL of the weights in the metadata of a preset."""
    edit_json(preset / "metadata.json", lambda m: m["files"]["model.weights.h5"].update(url=url))
    assert json.loads((preset / "metadata.json").read_text())["files"]["model.weights.h5"]["url"]
