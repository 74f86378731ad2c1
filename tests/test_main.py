"""What `python -m tests` runs, and how it ends."""

from types import SimpleNamespace

import pytest

from tests import __main__ as main
from tests import conftest

pytestmark = pytest.mark.once


@pytest.fixture
def runs(monkeypatch):
    """Notes what would be run, and lets each run end with the next of `codes`."""

    def run(backend, flags, arguments):
        noted.append((backend, "XLA_FLAGS" in flags, arguments))
        turns.append(flags.get(main.TURN))
        return codes[len(noted) - 1], (3, 2, 1), 1.5

    noted, codes, turns = [], [0] * 4, []
    monkeypatch.setattr(main, "run", run)
    return noted, codes, turns


def test_tensorflow_compiles_in_two_ways(runs):
    noted, *_ = runs
    assert main.run_all("tensorflow", "not once", ["tests/ops"], {}) == (0, (6, 4, 2), 3.0)
    assert noted == [
        ("tensorflow", True, ["-m", "not once and not as_users_do", "tests/ops"]),
        ("tensorflow", False, ["-m", "not once and as_users_do", "tests/ops"]),
    ]


@pytest.mark.parametrize("backend", main.BACKENDS)
def test_a_choice_of_markers_takes_the_place_of_both(runs, backend):
    noted, *_ = runs
    assert main.run_all(backend, "not once", ["-m", "once"], {}) == (0, (3, 2, 1), 1.5)
    assert noted == [(backend, False, ["-m", "not once", "-m", "once"])]


@pytest.mark.parametrize(
    ("codes", "code"), [((0, 5), 0), ((5, 0), 0), ((5, 5), 5), ((5, 1), 1), ((1, 0), 1)]
)
def test_a_run_without_tests_is_none_that_failed(runs, codes, code):
    runs[1][:] = codes
    assert main.run_all("tensorflow", "not once", [], {})[0] == code


@pytest.mark.parametrize(
    ("words", "turns"),
    [
        ([], ["1/3", "2/3", "2/3", "0/3"]),
        (["torch", "jax"], ["1/2", "0/2"]),
        (["torch", "jax", "tests/ops"], [None] * 2),
        (["jax"], ["0/1"]),
        (["--thorough"], [None] * 4),
    ],
)
def test_backends_take_turns_from_commit_to_commit(runs, words, turns, monkeypatch):
    """TensorFlow has two runs."""
    monkeypatch.setattr(main.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(main, "commits", lambda: 7)
    noted, _, seen = runs
    main.main(words)
    assert seen == turns
    assert all(("tests/ops" in words) == ("tests/ops" in arguments) for *_, arguments in noted)
    assert not any("--thorough" in arguments for *_, arguments in noted)


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_each_test_has_its_turn(turns):
    def item(number, *marks, file="tests/test_x.py"):
        return SimpleNamespace(nodeid=f"{file}::test[{number}]", get_closest_marker=marks.count)

    chosen = {conftest.turn_of(item(number), turns) for number in range(99)}
    assert chosen == set(range(turns))
    for mark in ("once", "everywhere"):
        assert conftest.turn_of(item(0, mark), turns) is None
    for file in conftest.SELDOM:
        seldom = (item(number, "once", file=file) for number in range(99))
        assert {conftest.turn_of(each, turns) for each in seldom} == set(range(turns))


def test_workers_share_the_cores(monkeypatch):
    monkeypatch.setattr(main.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(main, "memory", lambda: 32 * 10**9)
    assert main.parallel()[:2] == ["-n", "4"] and main.threads() == {"OMP_NUM_THREADS": "2"}
