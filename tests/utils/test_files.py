"""Test atomic writes of files and folders, cleanup, and folder locks."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from keras_permix.utils.files import (
    ABANDONED,
    hold_folder,
    release_folder,
    replacing_folder,
    sweep,
    write_bytes,
    write_text,
)
from tests.harness.processes import environment

pytestmark = pytest.mark.once

# Lets a process import `keras_permix.utils` without Keras.
ALONE = """
import importlib.util, os, signal, sys

spec = importlib.util.find_spec("keras_permix")
sys.modules["keras_permix"] = importlib.util.module_from_spec(spec)
"""
# A process that kills itself at the given call of `os.rename`, counted from 1.
KILLED = """
from keras_permix.utils.files import replacing_folder, write_text

rename, calls = os.rename, []

def kill_at_rename(*args):
    calls.append(args)
    if len(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    rename(*args)

os.rename = kill_at_rename
with replacing_folder(sys.argv[1]) as folder:
    write_text(folder / "name", "new")
"""
HOLD = """
from keras_permix.utils.files import hold_folder

print(hold_folder(sys.argv[1]))
"""


def run(script, *arguments):
    command = [sys.executable, "-c", ALONE + script]
    return subprocess.run(
        [*command, *map(str, arguments)], env=environment(), capture_output=True, text=True
    )


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def replace(folder, text="new"):
    with replacing_folder(folder) as partial:
        write_text(partial / "name", text)


@pytest.fixture
def folder(tmp_path):
    replace(tmp_path / "folder", "old")
    return tmp_path / "folder"


def test_text_is_utf8(tmp_path):
    write_text(tmp_path / "file", "käse – 순열")
    assert (tmp_path / "file").read_bytes() == "käse – 순열".encode()


def test_symlinks_are_preserved(tmp_path, folder):
    write_text(tmp_path / "file", "old")
    (tmp_path / "link").symlink_to("file")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text(encoding="utf-8") == "new"
    (tmp_path / "link_to_folder").symlink_to(folder)
    replace(tmp_path / "link_to_folder")
    assert (tmp_path / "link_to_folder").is_symlink()
    assert (folder / "name").read_text(encoding="utf-8") == "new"


def test_unwritable_path_raises(tmp_path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "absent" / "file"):
        with pytest.raises(OSError, match=f"`{path}` must be writable"):
            write_bytes(path, b"content")
    assert names(tmp_path) == ["folder"]


def test_folder_does_not_replace_file(tmp_path):
    write_text(tmp_path / "file", "kept")
    with pytest.raises(NotADirectoryError):
        replace(tmp_path / "file")
    assert names(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "kept"


def test_error_keeps_old_folder(tmp_path, folder):
    with pytest.raises(ZeroDivisionError):
        with replacing_folder(folder) as partial:
            write_text(partial / "name", str(1 / 0))
    assert names(tmp_path) == ["folder"]
    assert (folder / "name").read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize("failing", [{2}, {2, 3}], ids=["replace", "replace and restore"])
def test_failed_renames_keep_old_folder(tmp_path, folder, monkeypatch, failing):
    rename, calls = os.rename, []

    def fail(*paths):
        calls.append(paths)
        if len(calls) in failing:
            raise PermissionError(13, "denied")
        rename(*paths)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(PermissionError):
        replace(folder)
    monkeypatch.undo()
    assert folder.exists() == (failing == {2})
    with pytest.raises(ZeroDivisionError), replacing_folder(folder):
        raise ZeroDivisionError
    assert names(tmp_path) == ["folder"]
    assert (folder / "name").read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize("rename", [1, 2])
def test_killed_process_keeps_old_folder(tmp_path, folder, rename):
    done = run(KILLED, folder, rename)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert folder.exists() == (rename == 1)
    for path in tmp_path.glob(".*.new"):
        os.utime(path, (0, 0))
    with pytest.raises(ZeroDivisionError), replacing_folder(folder):
        assert (folder / "name").read_text(encoding="utf-8") == "old"
        raise ZeroDivisionError
    assert names(tmp_path) == ["folder"]


def test_sweep_removes_only_temporary_files(tmp_path):
    kept = [".bashrc", ".folder.new", ".file.0123456789ab.txt", "folder.0123456789ab.new", "x"]
    for name in [*kept, ".file.0123456789ab.new", ".x.0123456789ab.old"]:
        write_text(tmp_path / name, "")
    (tmp_path / ".folder.0123456789ab.new").mkdir()
    sweep(tmp_path)
    assert names(tmp_path) == sorted(kept)


def test_sweep_keeps_recent_temporary_files(tmp_path):
    young, old = ".a.0123456789ab.new", ".b.0123456789ab.new"
    for name in (young, old):
        write_text(tmp_path / name, "")
    os.utime(tmp_path / old, (0, 0))
    sweep(tmp_path, ABANDONED)
    assert names(tmp_path) == [young]


def test_concurrent_writers_leave_one_complete_folder(tmp_path):
    def write(text):
        for _ in range(20):
            with replacing_folder(tmp_path / "folder") as partial:
                for name in "ab":
                    (partial / name).write_text(text)

    threads = [threading.Thread(target=write, args=(text,)) for text in "1234"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names(tmp_path) == ["folder"]
    assert (tmp_path / "folder/a").read_text() == (tmp_path / "folder/b").read_text()


def test_reading_lock_file_keeps_lock(folder):
    thread = threading.Thread(target=hold_folder, args=(folder,))
    thread.start()
    thread.join()
    assert hold_folder(folder) and hold_folder(folder)
    (folder / ".lock").read_bytes()  # would release a POSIX record lock
    assert run(HOLD, folder).stdout == "False\n"
    release_folder(folder)
    assert run(HOLD, folder).stdout == "True\n"


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.skipif(os.name != "posix", reason="requires POSIX modes")
def test_modes_are_kept_or_follow_umask(tmp_path):
    before = os.umask(0o027)
    try:
        replace(tmp_path / "folder")
        assert (mode(tmp_path / "folder"), mode(tmp_path / "folder/name")) == (0o750, 0o640)
        (tmp_path / "folder").chmod(0o700)
        (tmp_path / "folder/name").chmod(0o604)
        write_text(tmp_path / "folder/name", "again")
        assert mode(tmp_path / "folder/name") == 0o604
        replace(tmp_path / "folder")
        assert mode(tmp_path / "folder") == 0o700
    finally:
        os.umask(before)
