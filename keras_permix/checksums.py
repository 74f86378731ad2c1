"""Files that are read whole and with the SHA-256 they should have, or not at all."""

import hashlib
from pathlib import Path

from keras_permix._typing import StrPath


def sha256_of(content: bytes) -> str:
    """The SHA-256 of bytes, as 64 hex digits."""
    return hashlib.sha256(content).hexdigest()


def sha256_of_file(path: StrPath) -> str:
    """The SHA-256 of a file, which is never in memory as a whole."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_with_sha256(
    path: StrPath, sha256: str, size: int | None = None, remedy: str = "Copy or fetch it again. "
) -> bytes:
    """Return the bytes of a file, if it has a SHA-256.

    Args:
        path: The file.
        sha256: 64 hex digits.
        size: Bytes that it must hold, which is found out before it is read; None for any number.
        remedy: What the error advises, with a space behind it.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is of another size, or of another SHA-256.
    """
    path = Path(path)
    if size is not None and path.stat().st_size != size:
        raise ValueError(
            f"`{path}` must hold {size:,} bytes; it is truncated or of another version. "
            f"{remedy}Received: {path.stat().st_size:,} bytes"
        )
    with open(path, "rb") as file:
        content = file.read(-1 if size is None else size)
    digest = sha256_of(content)
    if digest != sha256:
        raise ValueError(
            f"`{path}` must have the SHA-256 {sha256}; it is corrupt or of another version. "
            f"{remedy}Received: {digest} ({len(content):,} bytes)"
        )
    return content
