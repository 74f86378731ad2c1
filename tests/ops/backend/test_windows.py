"""Test the windows of tokens and channels that programs of GPU kernels hold."""

import numpy as np
import pytest

from keras_permix.ops import shift_steps
from keras_permix.ops.backend.triton.windows import (
    HELD,
    SECTOR,
    WORD,
    Real,
    Window,
    arc,
    window_for,
)

pytestmark = pytest.mark.once


def shortest(positions, tokens):
    """Return the spread of the shortest arc by trying every token as its start."""
    return min(
        max((position - start) % tokens for position in positions) for start in range(tokens)
    )


def test_arc_is_shortest():
    rng = np.random.default_rng(0)
    for _ in range(200):
        tokens = int(rng.integers(1, 40))
        positions = rng.integers(0, tokens, rng.integers(1, 8)).tolist()
        start, spread = arc(positions, tokens)
        assert max((position - start) % tokens for position in positions) == spread
        assert spread == shortest(positions, tokens)


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("tokens", [1, 64, 65, 196, 256, 258, 1000, 4096, 16384])
def test_windows_cover_samples_and_reads(tokens, itemsize):
    rng, channels = np.random.default_rng(1), 100
    named = [shift_steps(name, tokens, channels) for name in ("unit", "linear", "linear_head")]
    odd = np.arange(7, 7 + 2 * channels, 2)
    for reads in (*named, odd % tokens, rng.integers(0, tokens, channels), [0] * channels):
        reads = tuple(int(read) for read in reads)
        window = window_for(reads, tokens, itemsize)
        assert window.tokens < 2 * max(tokens, WORD)
        assert window.programs(tokens, channels) * window.tokens * window.channels >= (
            tokens * channels
        )
        assert max(window.held, window.tokens) * window.channels <= HELD
        assert window.warps in (1, 2, 4, 8, 16) and window.rows * window.channels % 32 == 0
        if window.held == window.tokens:
            assert window.tokens >= tokens
        elif window.held:
            starts = np.repeat(window.starts, window.channels)[:channels]
            assert max((np.array(reads) - starts) % tokens) <= window.spread <= window.tokens
            assert all(start % 2 == 0 for start in window.starts)
            assert window.held == 2 * window.tokens <= tokens
            assert window.channels * itemsize >= SECTOR


@pytest.mark.parametrize(
    ("schedule", "tokens", "channels", "itemsize", "size"),
    [
        ("linear", 196, 384, 4, (256, 32, 256)),
        ("linear_code", 64, 512, 2, (64, 32, 64)),
        ("unit", 1024, 128, 4, (1024, 16, 1024)),
        ("unit", 4096, 128, 4, (128, 32, 256)),
        ("linear", 4096, 256, 2, (256, 16, 512)),  # steps of 16: 16 channels span 240 rows
        ("linear", 4096, 4, 4, (4096, 4, 4096)),  # steps of 1024
        ("linear", 16384, 4, 4, (64, 32, 0)),  # steps of 4096: too many to hold
    ],
)
def test_window_sizes(schedule, tokens, channels, itemsize, size):
    reads = tuple(shift_steps(schedule, tokens, channels).tolist())
    window = window_for(reads, tokens, itemsize)
    assert (window.tokens, window.channels, window.held) == size


@pytest.mark.parametrize("held", [0, WORD])
def test_order_is_extended(held):
    tokens, lengths = 60, np.int32([0, 1, 7, 60])
    order = np.stack([np.random.default_rng(n).permutation(tokens) for n in range(len(lengths))])
    extended = Window(WORD, held=held).order(Real(order, lengths), tokens, np.arange)
    assert extended.shape == (len(lengths), WORD if held else 3 * WORD)
    np.testing.assert_array_equal(extended[:, :tokens], order)
    if not held:
        for row, first, length in zip(extended[:, WORD:], order, lengths, strict=True):
            np.testing.assert_array_equal(row[: 2 * length], np.tile(first[:length], 2))
