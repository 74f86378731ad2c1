"""Test `cached_arrays`: reuse, damaged files, failures and concurrent processes."""

import multiprocessing
import os
import time

import numpy as np
import pytest

from keras_permix.data.cached import cached_arrays

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


class Maker:
    """Make arrays, and count the calls."""

    def __init__(self, value):
        self.value, self.count = value, 0

    def __call__(self):
        self.count += 1
        return {"x": np.full((3, 2), self.value), "y": np.arange(self.value)}


def test_arrays_are_made_once_per_content(home):
    make, other = Maker(5), Maker(6)
    for _ in range(2):
        arrays = cached_arrays("a", b"five", make)
        np.testing.assert_array_equal(arrays["x"], np.full((3, 2), 5))
        np.testing.assert_array_equal(arrays["y"], np.arange(5))
    assert isinstance(arrays["x"], np.memmap) and not arrays["x"].flags.writeable
    assert cached_arrays("a", b"six", other)["x"][0, 0] == 6
    assert (make.count, other.count) == (1, 1)
    assert len(list((home / "keras_permix/data").glob("a-*"))) == 2


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:20], lambda b: b""])
def test_damaged_files_are_recreated(home, damage):
    make = Maker(5)
    cached_arrays("a", b"", make)
    (path,) = home.rglob("x.npy")
    path.write_bytes(damage(path.read_bytes()))
    np.testing.assert_array_equal(cached_arrays("a", b"", make)["x"], np.full((3, 2), 5))
    assert make.count == 2


def test_failed_maker_leaves_no_files(home):
    def fail():
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        cached_arrays("a", b"", fail)
    assert not list(home.rglob("a*"))


def test_unwritable_cache_warns(home):
    home.write_text("a file where the folder should be")
    make = Maker(5)
    for _ in range(2):
        with pytest.warns(UserWarning, match="a is not cached.*KERAS_HOME"):
            assert cached_arrays("a", b"", make)["y"].tolist() == [0, 1, 2, 3, 4]
    assert make.count == 2


def _load(home):
    def make():
        with open(home / "made", "a") as file:
            file.write("x")
        time.sleep(0.2)
        return Maker(5)()

    return cached_arrays("a", b"", make)["x"].tolist()


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, not used here
@pytest.mark.skipif(os.name == "nt", reason="requires fork")
def test_concurrent_processes_make_one_copy(home):
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map(_load, [home] * 8) == [[[5, 5]] * 3] * 8
    assert sorted(path.name for path in home.rglob("*.npy")) == ["x.npy", "y.npy"]
    assert (home / "made").read_text() == "x"
    assert [path.name for path in home.rglob(".*")] == [".a.lock"]
