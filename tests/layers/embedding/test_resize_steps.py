"""Test that resized shift steps move tokens as on the original grid."""

import numpy as np
import pytest

from keras_permix.layers.embedding.grids import resize_delays, resize_steps

pytestmark = pytest.mark.once  # uses only NumPy


def shortest_move(step, rows, columns, extra):
    """Return the shortest move (rows, columns) that is equivalent to a step."""
    moves = [
        (down, right)
        for down in range(-rows, rows + 1)
        for right in range(-columns, columns + 1)
        if (down * columns + right - step) % (rows * columns + extra) == 0
    ]
    return min(moves, key=lambda move: move[0] ** 2 + move[1] ** 2)


@pytest.mark.parametrize(("rows", "columns", "extra"), [(8, 8, 0), (4, 6, 0), (8, 8, 1), (3, 5, 0)])
def test_doubled_grid_doubles_moves(rows, columns, extra):
    steps = range(rows * columns + extra)
    moves = [shortest_move(step, rows, columns, extra) for step in steps]
    tokens = 4 * rows * columns + extra
    expected = [(2 * down * 2 * columns + 2 * right) % tokens for down, right in moves]
    assert resize_steps(steps, (rows, columns), (2 * rows, 2 * columns), extra) == expected


def test_neighbors_stay_neighbors():
    neighbors = [0, 1, -1, 8, -8]
    for side, moved in ((6, 1), (10, 1), (12, 2), (16, 2)):
        expected = moved * np.array([0, 1, -1, side, -side]) % side**2
        assert resize_steps(neighbors, (8, 8), (side, side)) == expected.tolist()


def test_same_grid_keeps_steps():
    assert resize_steps([-1, 70, 13], (8, 8), (8, 8)) == [63, 6, 13]


def test_delays_never_wrap_around():
    """Moves of any length double with the grid, and halve with it."""
    moves = [(0, 1), (0, 3), (1, 0), (7, 2), (9, -1)]
    delays = [8 * down + right for down, right in moves]
    doubled = [2 * down * 16 + 2 * right for down, right in moves]
    assert resize_delays(delays, (8, 8), (16, 16)) == doubled
    assert resize_delays(doubled, (16, 16), (8, 8)) == delays
    assert resize_delays([2, 4, 16], (8, 8), (4, 4), least=2) == [2, 2, 4]
