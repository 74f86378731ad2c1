"""Files from the web, each with a checksum known beforehand."""

import contextlib
import hashlib
import http.client
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from keras_permix.utils.files import cache_folder, replacing_file, sha256_of_file, sweep

LOOPBACK = ("127.0.0.1", "localhost", "::1")
TIMEOUT = 30.0  # seconds without an answer
SLOWEST = 2**14  # bytes per second on average, after the first `TIMEOUT` seconds
LEFT = 3600.0  # seconds since the last write after which what is half written is nobody's
PIECE = 2**18  # bytes in memory at a time


def fetch(url: str, name: str, sha256: str, size: int, exact: bool = True) -> Path:
    """Fetch a file into Keras' cache, or find it there; its SHA-256 is verified either way.

    It goes to the disk as it comes, and is in the cache once all of it is right.

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
        ConnectionError: if it cannot be fetched, or comes too slowly.
        OSError: if the cache cannot be written.
    """
    _check_address(url)
    path = cache_folder() / sha256[:16] / name
    if path.is_file() and path.stat().st_size <= size and sha256_of_file(path) == sha256:
        return path
    received, digest = 0, hashlib.sha256()
    with _kept(path) as file:
        for piece in _download(url, name, sha256, size + 1):
            file.write(piece)
            digest.update(piece)
            received += len(piece)
        if received > size or (exact and received < size):
            raise ValueError(
                f"`{name}` must hold {size:,} bytes{'' if exact else ' at most'}. Try again, and "
                f"check the address. Received: {'more' if received > size else received} from {url}"
            )
        if digest.hexdigest() != sha256:
            raise ValueError(
                f"`{name}` must have the SHA-256 {sha256}. Try again, and check the address. "
                f"Received: another file from {url}"
            )
    return path


@contextlib.contextmanager
def _kept(path):
    """Give a file to write, which is in the cache when all is written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent, LEFT)
        with replacing_file(path) as file:
            yield file
    except ConnectionError:
        raise
    except OSError as error:
        raise OSError(
            "What is fetched is kept in `.keras` at home, or in the folder that `KERAS_HOME` "
            f"names, which must be one that can be written. Received: {path} ({error})"
        ) from error


def _download(url, name, sha256, limit):
    """The first `limit` bytes of what lies at a URL, in pieces as they come."""
    try:
        with urllib.request.build_opener(_Redirects).open(url, timeout=TIMEOUT) as response:
            start, received = time.monotonic(), 0
            while piece := response.read1(min(PIECE, limit - received)):
                received += len(piece)
                seconds = time.monotonic() - start
                if seconds > TIMEOUT + received / SLOWEST:
                    raise TimeoutError(f"no more than {received:,} bytes in {seconds:.1f} s")
                yield piece
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
