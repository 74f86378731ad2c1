"""Test the selection of tests and the exit code of `python -m tests`."""

from types import SimpleNamespace

import pytest

from tests import __main__ as main
from tests import conftest

pytestmark = pytest.mark.once


@pytest.fixture
def runs(monkeypatch):
    """Record runs instead of running pytest. Each run returns the next exit code."""

    def run(backend, flags, arguments):
        recorded.append((backend, "XLA_FLAGS" in flags, arguments))
        shares.append(flags.get(main.SHARE))
        return codes[len(recorded) - 1], (3, 2, 1), 1.5

    recorded, codes, shares = [], [0] * 5, []
    monkeypatch.setattr(main, "run", run)
    monkeypatch.setattr(main, "version", lambda name: "0.10.2")  # JAX may be absent
    return recorded, codes, shares


@pytest.mark.parametrize("backend", ["jax", "tensorflow"])
def test_compiling_backends_run_twice(runs, backend):
    recorded, *_ = runs
    assert main.run_all(backend, "not once", ["tests/ops"], {}) == (0, (6, 4, 2), 3.0)
    assert recorded == [
        (backend, True, ["-m", "not once and not as_users_do", "tests/ops"]),
        (backend, False, ["-m", "not once and as_users_do", "tests/ops"]),
    ]
    assert main.run_all(backend, "not once", ["tests/zoo"], {}) == (0, (3, 2, 1), 1.5)


@pytest.mark.parametrize(
    ("jax", "backend", "fused"),
    [("0.8.0", "jax", False), ("0.10.2", "jax", False), ("0.11.2", "jax", True),
     ("0.12.0.1", "jax", True), ("0.12.0.1", "tensorflow", False)],
)  # fmt: skip
def test_flags_suit_the_version(jax, backend, fused, monkeypatch):
    monkeypatch.setattr(main, "version", {"jax": jax}.get)
    assert ("fusion" not in main.fast_compilation(backend)["XLA_FLAGS"]) == fused


@pytest.mark.parametrize("backend", main.BACKENDS)
def test_marker_option_replaces_selection(runs, backend):
    recorded, *_ = runs
    assert main.run_all(backend, "not once", ["-m", "once"], {}) == (0, (3, 2, 1), 1.5)
    assert recorded == [(backend, False, ["-m", "not once", "-m", "once"])]


@pytest.mark.parametrize(
    ("codes", "code"), [((0, 5), 0), ((5, 0), 0), ((5, 5), 5), ((5, 1), 1), ((1, 0), 1)]
)
def test_exit_code_ignores_runs_without_tests(runs, codes, code):
    runs[1][:] = codes
    assert main.run_all("tensorflow", "not once", [], {})[0] == code


@pytest.mark.parametrize(
    ("words", "shares"),
    [
        ([], ["0/3", "0/3", "1/3", "1/3", "2/3"]),
        (["torch", "jax"], ["0/2", "1/2", "1/2"]),
        (["torch", "jax", "tests/ops"], [None] * 3),
        (["jax"], ["0/1"] * 2),
        (["--thorough"], [None] * 5),
    ],
)
def test_backends_share_the_tests(runs, words, shares, monkeypatch):
    """JAX and TensorFlow run twice with the same share."""
    monkeypatch.setattr(main.importlib.util, "find_spec", lambda name: True)
    recorded, _, seen = runs
    main.main(words)
    assert seen == shares
    assert all(("tests/ops" in words) == ("tests/ops" in arguments) for *_, arguments in recorded)
    assert not any("--thorough" in arguments for *_, arguments in recorded)


@pytest.mark.parametrize("shares", [1, 2, 3])
def test_each_test_is_in_one_share(shares):
    def item(number, *marks):
        return SimpleNamespace(
            nodeid=f"tests/test_x.py::test[{number}]", get_closest_marker=marks.count
        )

    first = [conftest.share_of(item(number), shares) for number in range(99)]
    assert set(first) == set(range(shares))
    assert [conftest.share_of(item(number), shares) for number in range(99)] == first
    for mark in ("once", "everywhere", "skipif"):
        assert conftest.share_of(item(0, mark), shares) is None


def test_workers_share_the_cores(monkeypatch):
    monkeypatch.setattr(main.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(main, "memory", lambda: 32 * 10**9)
    assert main.parallel()[:2] == ["-n", "4"] and main.threads() == {"OMP_NUM_THREADS": "2"}
