"""Files and folders that are written whole or not at all, whatever is killed or full meanwhile.

What is being written has a hidden name of its own, `.NAME.TOKEN.new`, until it is on the disk; what
it replaces is `.NAME.TOKEN.old` for a moment. Both are leftovers where a process was killed.
"""

import contextlib
import os
import re
import shutil
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from keras_permix._typing import StrPath

try:
    import fcntl
except ImportError:  # Windows, where nothing is locked.
    fcntl = None  # type: ignore[assignment]  # a module or nothing, which no type says

LEFTOVER = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{12}\.(?P<state>new|old)")

# Lock file -> (process, file descriptor), of the folders that this process holds.
_held: dict[Path, tuple[int, int]] = {}
_one_thread = threading.Lock()  # Locks of files are between processes.


def write_bytes(path: StrPath, content: bytes) -> None:
    """Write a file whole, flushed to the disk; what stood there stays until then.

    A link to a file stays a link: the file it leads to is written.

    Raises:
        OSError: if the file cannot be written; what stood there is unharmed.
    """
    try:
        with replacing_file(path) as file:
            file.write(content)
    except OSError as error:
        raise OSError(
            f"`{path}` must be a file that can be written. Choose another folder, or make room. "
            f"Received: {error.strerror or error}"
        ) from error


def write_text(path: StrPath, text: str) -> None:
    """Write a text file as `write_bytes` does, in UTF-8 whatever the locale."""
    write_bytes(path, text.encode("utf-8"))


@contextlib.contextmanager
def replacing_file(path: StrPath) -> Iterator[BinaryIO]:
    """Give an empty file to write, which takes the place of `path` when all is written.

    A link to a file stays a link.

    Raises:
        OSError: if the file cannot be written; what stood there is unharmed.
    """
    target = Path(os.path.realpath(path))
    partial = _hidden(target, "new")
    try:
        with open(partial, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    _flush_folder(target.parent)


@contextlib.contextmanager
def replacing_folder(folder: StrPath) -> Iterator[Path]:
    """Give an empty folder to write in, which takes the place of `folder` when all is written.

    Other processes that replace the same folder wait. A link to a folder stays a link.

    Raises:
        OSError: if a folder cannot be made or renamed; the old one is unharmed.
    """
    folder = Path(os.path.realpath(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(_lock_file(folder)):
        _settle(folder)
        partial = _hidden(folder, "new")
        partial.mkdir()
        try:
            yield partial
            _flush_tree(partial)
            if folder.is_dir():
                os.rename(folder, _hidden(folder, "old"))
            os.rename(partial, folder)
            _flush_folder(folder.parent)
        finally:
            _settle(folder)


def recover_folder(folder: StrPath) -> None:
    """Take back a folder that is absent because its replacement was killed between two renames."""
    folder = Path(os.path.realpath(folder))
    if not folder.exists() and _leftovers(folder, "old"):
        with _locked(_lock_file(folder)):
            _settle(folder)


def recover_folders(parent: StrPath) -> None:
    """Take back each folder in `parent` that is absent for that reason."""
    for path in Path(parent).glob(".*.old"):
        if found := LEFTOVER.fullmatch(path.name):
            recover_folder(path.with_name(found["name"]))


def sweep(folder: StrPath, age: float = 0.0) -> None:
    """Remove what killed processes left in a folder.

    Args:
        folder: A folder in which nobody else writes now.
        age: Seconds, where others may write: what was touched since is let be.
    """
    now = time.time()
    for path in Path(folder).iterdir():
        with contextlib.suppress(FileNotFoundError):  # Others may sweep as well.
            if LEFTOVER.fullmatch(path.name) and now - path.stat().st_mtime >= age:
                _remove(path)


def hold_folder(folder: StrPath) -> bool:
    """Lock a folder for this process, until `release_folder` or its end.

    Returns:
        Whether it is this process's now. Where nothing can be locked it always is, with a warning.
    """
    path = _lock_in(folder)
    if path.exists() and _held.get(path, (None,))[0] == os.getpid():
        return True
    descriptor = _open_lock(path)
    locked = _lock(descriptor, wait=False)
    if locked is False:
        os.close(descriptor)
        return False
    if locked is None:
        warnings.warn(
            f"`{folder}` cannot be locked on this system. See to it that no other process uses it.",
            stacklevel=2,
        )
    _held[path] = os.getpid(), descriptor
    return True


def release_folder(folder: StrPath) -> None:
    """Let other processes have a folder that this one holds."""
    _, descriptor = _held.pop(_lock_in(folder), (None, None))
    if descriptor is not None:
        os.close(descriptor)


def _hidden(path, state):
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.{state}")


def _leftovers(path, state):
    """What killed writers of `path` left beside it, the newest first."""
    candidates = path.parent.glob(f".*.{state}") if path.parent.is_dir() else ()
    found = [
        other
        for other in candidates
        if (match := LEFTOVER.fullmatch(other.name)) and match["name"] == path.name
    ]
    return sorted(found, key=lambda other: other.stat().st_mtime, reverse=True)


def _settle(folder):
    """Make what was left of `folder` it again where it is absent, and remove the rest."""
    if not folder.exists():
        for old in _leftovers(folder, "old")[:1]:
            os.rename(old, folder)
    for state in ("new", "old"):
        for path in _leftovers(folder, state):
            _remove(path)


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _lock_in(folder):
    return Path(os.path.realpath(folder)) / ".lock"


def _lock_file(folder):
    return folder.with_name(f".{folder.name}.lock")


@contextlib.contextmanager
def in_turn(path: StrPath) -> Iterator[None]:
    """Do what other processes do as well, by a lock file, one after the other.

    Where no file can be made there, nobody waits.
    """
    path = Path(path)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(_locked(path))
        yield


@contextlib.contextmanager
def _locked(path):
    """Hold a lock file, which is there no longer than that."""
    if fcntl is None:
        yield
        return
    with _one_thread:
        descriptor = _open_locked(path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)


def _open_locked(path):
    while True:
        descriptor = _open_lock(path)
        _lock(descriptor, wait=True)
        # Who held it before may have removed the file that was waited for.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)


def _open_lock(path):
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)


def _lock(descriptor, wait):
    """Whether a file is locked for this process now; `None` where nothing can be locked."""
    if fcntl is None:
        return None
    try:
        # Record locks end with their process; those of `flock` live on in its forks.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # A file system without locks.
        return None
    return True


def _flush_tree(folder):
    for path, _, _ in os.walk(folder):
        _flush_folder(path)


def _flush_folder(folder):
    if fcntl is None:  # Windows flushes no folders.
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
