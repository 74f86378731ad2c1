"""Files and folders that are written whole or not at all."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from keras_permix import safe_files
from keras_permix.safe_files import recover_folder, replacing_folder, sweep, write_bytes, write_text
from tests.harness.processes import environment

# A process that dies of the rename of the given number, counted from 1, without a word.
KILLED = """
import os, signal, sys
from pathlib import Path
from keras_permix.safe_files import replacing_folder, write_text

rename, calls = os.rename, []

def deadly(*args):
    calls.append(args)
    if len(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    rename(*args)

os.rename = deadly
with replacing_folder(sys.argv[1]) as folder:
    write_text(folder / "name", "new")
"""


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


def test_links_stay_links(tmp_path, folder):
    write_text(tmp_path / "file", "old")
    (tmp_path / "link").symlink_to("file")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text(encoding="utf-8") == "new"
    (tmp_path / "way").symlink_to(folder)
    replace(tmp_path / "way")
    assert (tmp_path / "way").is_symlink()
    assert (folder / "name").read_text(encoding="utf-8") == "new"


def test_a_file_that_cannot_be_written(tmp_path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "absent" / "file"):
        with pytest.raises(OSError, match=f"`{path}` must be a file that can be written"):
            write_bytes(path, b"content")
    assert names(tmp_path) == ["folder"]


def test_an_error_leaves_the_old_folder(tmp_path, folder):
    with pytest.raises(ZeroDivisionError):
        with replacing_folder(folder) as partial:
            write_text(partial / "name", str(1 / 0))
    assert names(tmp_path) == ["folder"]
    assert (folder / "name").read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize("rename", [1, 2])
@pytest.mark.parametrize("then", [recover_folder, replace])
def test_a_kill_loses_nothing(tmp_path, folder, rename, then):
    script = tmp_path / "permix"  # The command imports Keras where it computes alone.
    script.write_text(KILLED, encoding="utf-8")
    done = subprocess.run([sys.executable, script, folder, str(rename)], env=environment())
    script.unlink()
    assert done.returncode == -signal.SIGKILL
    assert folder.exists() == (rename == 1) and len(names(tmp_path)) == 3
    then(folder)
    expected = "old" if then is recover_folder else "new"
    assert (folder / "name").read_text(encoding="utf-8") == expected
    replace(folder)
    assert names(tmp_path) == ["folder"]


def test_only_leftovers_are_swept(tmp_path):
    kept = [".bashrc", ".folder.new", ".file.0123456789ab.txt", "folder.0123456789ab.new"]
    for name in [*kept, ".file.0123456789ab.new", ".x.0123456789ab.old"]:
        write_text(tmp_path / name, "")
    (tmp_path / ".folder.0123456789ab.new").mkdir()
    sweep(tmp_path)
    assert names(tmp_path) == sorted(kept)


def test_leftovers_that_others_may_be_writing_stay(tmp_path):
    young, old = ".a.0123456789ab.new", ".b.0123456789ab.new"
    for name in (young, old):
        write_text(tmp_path / name, "")
    os.utime(tmp_path / old, (0, 0))
    sweep(tmp_path, age=3600)
    assert names(tmp_path) == [young]


def test_one_writer_waits_for_another(tmp_path, folder):
    begun, order = threading.Event(), []

    def second():
        begun.set()
        replace(folder, "second")
        order.append("second")

    thread = threading.Thread(target=second)
    with replacing_folder(folder) as partial:
        thread.start()
        begun.wait()
        thread.join(0.2)
        write_text(partial / "name", "first")
        order.append("first")
    thread.join()
    assert order == ["first", "second"] and names(tmp_path) == ["folder"]
    assert (folder / "name").read_text(encoding="utf-8") == "second"


def test_file_systems_without_locks(tmp_path, monkeypatch):
    def no_locks(*args):
        raise OSError("No locks available")

    monkeypatch.setattr(safe_files.fcntl, "lockf", no_locks)
    replace(tmp_path / "folder")
    assert names(tmp_path) == ["folder"]
    hold_unlocked(tmp_path)


def test_systems_without_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(safe_files, "fcntl", None)
    hold_unlocked(tmp_path)


def hold_unlocked(folder):
    with pytest.warns(UserWarning, match=f"`{folder}` cannot be locked on this system"):
        assert safe_files.hold_folder(folder)
    safe_files.release_folder(folder)
