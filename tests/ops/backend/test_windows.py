"""What a program of a kernel holds: all that its channels read, and no more than fits."""

import numpy as np
import pytest

from keras_permix.ops import shift_steps
from keras_permix.ops.backend.triton.windows import HELD, SECTOR, WORD, arc, window_for

pytestmark = pytest.mark.once


def shortest(positions, tokens):
    """How far the last of the shortest arc lies, by trying every token as the first."""
    return min(
        max((position - start) % tokens for position in positions) for start in range(tokens)
    )


def test_an_arc_is_the_shortest_that_holds_the_places():
    rng = np.random.default_rng(0)
    for _ in range(200):
        tokens = int(rng.integers(1, 40))
        positions = rng.integers(0, tokens, rng.integers(1, 8)).tolist()
        start, spread = arc(positions, tokens)
        assert max((position - start) % tokens for position in positions) == spread
        assert spread == shortest(positions, tokens)


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("tokens", [1, 64, 65, 196, 256, 258, 1000, 4096, 16384])
def test_programs_cover_a_sample_and_hold_what_they_read(tokens, itemsize):
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
        ("linear", 4096, 256, 2, (256, 16, 512)),  # a step of 16: 240 rows for 16 channels
        ("linear", 4096, 4, 4, (4096, 4, 4096)),  # of 1024
        ("linear", 16384, 4, 4, (64, 32, 0)),  # of 4096, which nothing holds
    ],
)
def test_windows_are_as_wide_as_steps_allow(schedule, tokens, channels, itemsize, size):
    reads = tuple(shift_steps(schedule, tokens, channels).tolist())
    window = window_for(reads, tokens, itemsize)
    assert (window.tokens, window.channels, window.held) == size
