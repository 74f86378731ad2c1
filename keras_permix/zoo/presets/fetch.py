"""Files from the web, each with a checksum known beforehand."""

import http.client
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from keras_permix.cache_folder import cache_folder
from keras_permix.checksums import sha256_of
from keras_permix.safe_files import sweep, write_bytes

LOOPBACK = ("127.0.0.1", "localhost", "::1")
TIMEOUT = 30.0  # seconds without an answer
LEFT = 3600.0  # seconds after which what is half written is nobody's: no file takes as long


def fetch(url: str, name: str, sha256: str, size: int, exact: bool = True) -> Path:
    """Fetch a file into Keras' cache, or find it there; its SHA-256 is verified either way.

    Args:
        url: `https://…`; `http://` only on this machine.
        name: Relative POSIX path of the file in the cache.
        sha256: 64 hex digits.
        size: Bytes of the file. No more are read.
        exact: Whether it has just that many, and not fewer.

    Returns:
        Its path.

    Raises:
        ValueError: for another kind of URL, or a file of another size or checksum.
        ConnectionError: if it cannot be fetched.
        OSError: if the cache cannot be written.
    """
    _check_address(url)
    path = cache_folder() / sha256[:16] / name
    if path.is_file() and path.stat().st_size <= size and sha256_of(path.read_bytes()) == sha256:
        return path
    content = _download(url, name, sha256, size + 1)
    if len(content) > size or (exact and len(content) < size):
        raise ValueError(
            f"`{name}` must hold {size:,} bytes{'' if exact else ' at most'}. Try again, and check "
            f"the address. Received: {'more' if len(content) > size else len(content)} from {url}"
        )
    if sha256_of(content) != sha256:
        raise ValueError(
            f"`{name}` must have the SHA-256 {sha256}. Try again, and check the address. "
            f"Received: another file from {url}"
        )
    _keep(path, content)
    return path


def _keep(path, content):
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent, LEFT)
        write_bytes(path, content)
    except OSError as error:
        raise OSError(
            "What is fetched is kept in `.keras` at home, or in the folder that `KERAS_HOME` "
            f"names, which must be one that can be written. Received: {path} ({error})"
        ) from error


def _download(url, name, sha256, limit):
    """The first `limit` bytes of what lies at a URL."""
    try:
        with urllib.request.build_opener(_Redirects).open(url, timeout=TIMEOUT) as response:
            return response.read(limit)
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionError(
            f"`{name}` could not be fetched. Connect to the internet, or put the file with SHA-256 "
            f"{sha256} into the preset's folder yourself. Received: {error} from {url}"
        ) from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirections that lead nowhere else than a preset's own addresses may."""

    def redirect_request(self, request, file, code, message, headers, url):
        _check_address(url)
        return super().redirect_request(request, file, code, message, headers, url)


def _check_address(url):
    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme, parts.hostname in LOOPBACK) != ("http", True):
        raise ValueError(f"A preset's file is fetched over https only. Received: {url}")
