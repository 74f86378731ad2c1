"""Download files of presets with a known size and SHA-256.

Unlike `keras.utils.get_file`, this limits size, time and redirects, and writes files atomically.
"""

import hashlib
import http.client
import ipaddress
import socket
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from keras_permix.utils.files import ABANDONED, cache_folder, replacing_file, sha256_of_file, sweep

LOOPBACK = ("127.0.0.1", "localhost", "::1")
TIMEOUT = 30.0  # seconds without a response
SLOWEST = 2**14  # bytes per second on average, after the first `TIMEOUT` seconds
PIECE = 2**18  # bytes in memory at a time


def fetch(
    url: str, name: str, sha256: str, size: int, exact: bool = True, trusted: bool = False
) -> Path:
    """Download a file into Keras' cache unless it is there, and verify its SHA-256.

    Args:
        url: `https://…`, or `http://` on this machine if it is trusted.
        name: Relative POSIX path of the file in the cache.
        sha256: 64 hex digits.
        size: Largest number of bytes to read.
        exact: Whether the file must have exactly `size` bytes.
        trusted: Whether the user gave the URL, which may then be in a private network.
    """
    host = urlsplit(url).hostname if trusted else None
    _check_address(url, host)
    path = cache_folder() / sha256[:16] / name
    if path.is_file() and path.stat().st_size <= size and sha256_of_file(path) == sha256:
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path.parent, ABANDONED)
        with replacing_file(path) as file:
            received, digest = 0, hashlib.sha256()
            for piece in _download(url, host, name, sha256, size + 1):
                file.write(piece)
                digest.update(piece)
                received += len(piece)
            if received > size or (exact and received < size):
                raise ValueError(
                    f"`{name}` must contain {size:,} bytes{'' if exact else ' at most'}. Try "
                    "again, and check the address. "
                    f"Received: {'more' if received > size else received} from {url}"
                )
            if digest.hexdigest() != sha256:
                raise ValueError(
                    f"`{name}` must have the SHA-256 {sha256}. Try again, and check the address. "
                    f"Received: another file from {url}"
                )
    except ConnectionError:
        raise
    except OSError as error:
        raise OSError(
            "The cache of downloaded files must be writable: `~/.keras`, or the folder "
            f"`KERAS_HOME`. Received: {path} ({error})"
        ) from error
    return path


def is_public(host: str) -> bool:
    """Return whether a host is outside of this machine and its private networks."""
    try:
        found = socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):  # A proxy may know the host. Otherwise the request fails.
        return host not in LOOPBACK
    addresses = [ipaddress.ip_address(str(address[0]).split("%")[0]) for *_, address in found]
    return all((getattr(ip, "ipv4_mapped", None) or ip).is_global for ip in addresses)


def _download(url, host, name, sha256, limit):
    """Yield the first `limit` bytes of a URL in pieces."""
    try:
        with urllib.request.build_opener(_Redirects(host)).open(url, timeout=TIMEOUT) as response:
            start, received = time.monotonic(), 0
            while piece := response.read1(min(PIECE, limit - received)):
                received += len(piece)
                seconds = time.monotonic() - start
                if seconds > TIMEOUT + received / SLOWEST:
                    raise TimeoutError(f"no more than {received:,} bytes in {seconds:.1f} s")
                yield piece
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionError(
            f"`{name}` could not be downloaded. Connect to the internet, or copy the file with "
            f"SHA-256 {sha256} to the preset's folder. Received: {error} from {url}"
        ) from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects only to allowed addresses."""

    def __init__(self, host):
        self.host = host

    def redirect_request(self, request, file, code, message, headers, url):
        _check_address(url, self.host)
        return super().redirect_request(request, file, code, message, headers, url)


def _check_address(url, host):
    """Check that a URL is https, and not a private address other than `host`."""
    parts = urlsplit(url)
    trusted = host is not None and parts.hostname == host
    if parts.scheme != "https" and not (
        trusted and parts.scheme == "http" and parts.hostname in LOOPBACK
    ):
        raise ValueError(f"Files of presets are downloaded over https only. Received: {url}")
    if not trusted and not is_public(parts.hostname or ""):
        raise ValueError(
            "Files of presets are downloaded from private networks only if the handle of the "
            f"preset names the host. Received: {url}"
        )
