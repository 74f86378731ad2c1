"""Files from the web, each with a checksum known beforehand."""

import os
from pathlib import Path
from urllib.parse import urlsplit

import keras

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def fetch(url, name, sha256):
    """Fetch a file into Keras' cache, or find it there; its SHA-256 is verified either way.

    Args:
        url: `https://…`; `http://` only on this machine.
        name: Plain name of the file in the cache.
        sha256: 64 hex digits.

    Returns:
        Its path.

    Raises:
        ValueError: for another kind of URL, or a file with another checksum.
        ConnectionError: if it cannot be fetched.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme, parts.hostname in LOOPBACK) != ("http", True):
        raise ValueError(f"A preset's file is fetched over https only. Received: {url}")
    try:
        return _cached(url, name, sha256)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must have the SHA-256 {sha256}. Try again, and check the address. "
            f"Received: another file from {url}"
        ) from error
    except Exception as error:  # Keras raises a bare Exception where the network fails.
        raise ConnectionError(
            f"`{name}` could not be fetched. Connect to the internet, or put the file with SHA-256 "
            f"{sha256} into the preset's folder yourself. Received: {error}"
        ) from error


def _cached(url, name, sha256):
    return Path(
        keras.utils.get_file(
            name,
            url,
            file_hash=sha256,
            hash_algorithm="sha256",
            cache_subdir=f"keras_permix/{sha256[:16]}",
            cache_dir=os.environ.get("KERAS_HOME"),
        )
    )
