"""Write files and folders atomically, verify checksums, and lock folders.

A file or folder is written under a hidden name, `.NAME.TOKEN.new`, flushed to the disk, and
renamed. A replaced folder is `.NAME.TOKEN.old` in between. A killed process leaves these files
behind.
"""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from keras_permix._typing import StrPath

LEFTOVER = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{12}\.(?P<state>new|old)")
ABANDONED = 3600.0  # seconds after the last write

_locks: dict[Path, Any] = {}  # the `filelock.FileLock` of each folder that this process holds


def cache_folder() -> Path:
    """Return the folder `keras_permix` in `KERAS_HOME`, by default in `~/.keras`."""
    home = os.environ.get("KERAS_HOME")
    return (Path(home) if home else Path.home() / ".keras") / "keras_permix"


def write_bytes(path: StrPath, content: bytes) -> None:
    """Write a file atomically; see `replacing_file`."""
    try:
        with replacing_file(path) as file:
            file.write(content)
    except OSError as error:
        raise OSError(f"`{path}` must be writable. Received: {error.strerror or error}") from error


def write_text(path: StrPath, text: str) -> None:
    """Write a text file in UTF-8 as `write_bytes` does."""
    write_bytes(path, text.encode("utf-8"))


@contextlib.contextmanager
def replacing_file(path: StrPath) -> Iterator[BinaryIO]:
    """Open an empty file that replaces `path` when the block ends without an error.

    A link stays a link, and the mode of the replaced file is kept.
    """
    target = Path(os.path.realpath(path))
    partial = _hidden(target, "new")
    try:
        with open(partial, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _copy_mode(target, partial)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    _flush_folder(target.parent)


@contextlib.contextmanager
def replacing_folder(folder: StrPath) -> Iterator[Path]:
    """Make an empty folder that replaces `folder` when the block ends without an error.

    If a process was killed between the two renames, the folder is recovered first. If several
    processes write the folder at once, the last one wins. A link stays a link, and the mode of the
    replaced folder is kept.
    """
    folder = Path(os.path.realpath(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    sweep(folder.parent, ABANDONED, folder.name)
    partial = _hidden(folder, "new")
    partial.mkdir()
    try:
        yield partial
        for path, _, _ in os.walk(partial):
            _flush_folder(path)
        _copy_mode(folder, partial)
        while not _put_in_place(partial, folder):
            pass
        _flush_folder(folder.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _copy_mode(old, new):
    with contextlib.suppress(FileNotFoundError):
        shutil.copymode(old, new)


def sweep(folder: StrPath, age: float = 0.0, name: str | None = None) -> None:
    """Remove the leftovers of killed processes in a folder, and restore replaced folders.

    Pass the age `ABANDONED`, in seconds since the last write, where other processes may write.
    """
    left = []
    for path in Path(folder).iterdir():
        match = LEFTOVER.fullmatch(path.name)
        if match and name in (None, match["name"]):
            with contextlib.suppress(FileNotFoundError):  # Another process may sweep as well.
                left.append((path.stat().st_mtime, path, match))
    for written, path, match in sorted(left, reverse=True):  # the newest first
        target = path.with_name(match["name"])
        if match["state"] == "old" and not target.exists():
            with contextlib.suppress(OSError):  # Another process was faster.
                os.rename(path, target)
        elif match["state"] == "old" or time.time() - written >= age:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def hold_folder(folder: StrPath) -> bool:
    """Lock a folder until `release_folder` or the end of the process; return whether it worked."""
    from filelock import FileLock, Timeout

    path = Path(os.path.realpath(folder), ".lock")
    held = _locks.get(path)
    if held is not None and held.is_locked and path.exists():
        return True
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return False
    _locks[path] = lock
    return True


def release_folder(folder: StrPath) -> None:
    """Release a folder that this process holds."""
    lock = _locks.pop(Path(os.path.realpath(folder), ".lock"), None)
    if lock is not None:
        lock.release()


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of bytes as 64 hex digits."""
    return hashlib.sha256(content).hexdigest()


def read_with_sha256(
    path: StrPath, sha256: str, size: int | None = None, remedy: str = "Copy or download it again. "
) -> bytes:
    """Return the bytes of a file if they have the given size and SHA-256.

    `remedy` is the advice in the error message, with a trailing space.
    """
    found = os.path.getsize(path)
    if size not in (None, found):
        raise ValueError(f"`{path}` must have {size:,} bytes. {remedy}Received: {found:,} bytes")
    content = Path(path).read_bytes()
    digest = sha256_of(content)
    if digest != sha256:
        raise ValueError(f"`{path}` must have the SHA-256 {sha256}. {remedy}Received: {digest}")
    return content


def _put_in_place(partial, folder):
    """Rename `partial` to `folder`. Return `False` if another process renamed its own first."""
    old = _hidden(folder, "old")
    if folder.is_dir():
        with contextlib.suppress(FileNotFoundError):  # Another process was faster.
            os.rename(folder, old)
    try:
        os.rename(partial, folder)
        renamed = True
    except BaseException as error:
        if not isinstance(error, OSError) or error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            with contextlib.suppress(OSError):  # If this fails as well, `sweep` does it later.
                os.rename(old, folder)
            raise
        renamed = False
    shutil.rmtree(old, ignore_errors=True)
    return renamed


def _hidden(path, state):
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.{state}")


def _flush_folder(folder):
    if os.name != "posix":  # Windows flushes no folders.
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
