"""Choose the tokens and channels that a program of a GPU kernel covers.

A channel reads tokens at a fixed offset. Rows of a few channels are loaded into shared memory, and
every channel picks its tokens there. Loading one value from each of 32 rows would take 32 times as
long as loading 32 values of one row.

Terms of the kernels:

* real: Tokens that are not padding.
* reads: The offset at which each channel reads its tokens.
* circle: All tokens of a sample. Shifts are cyclic, so the first token follows the last.
* arc: Consecutive tokens of the circle, from `start` to `start + spread`.
* held: The rows (tokens) that a program loads at once, for a few channels.
* residuals: The values that the forward pass stores for the gradient.
"""

from functools import lru_cache
from typing import Any, NamedTuple

from keras_permix.ops.backend.plan import power_of_two

SECTOR = 32  # bytes of a memory access
WIDEST = 32  # most channels, one for each thread of a warp
WORD = 64  # fewest tokens of a chunk: a word of bits, one per pair
ARC = 128  # fewest tokens of a chunk that does not hold all tokens
CIRCLE = 1024  # most tokens of a sample that are all held, instead of an arc
HELD = 16384  # most values of a program


class Window(NamedTuple):
    """Describe the tokens and channels of a program, and the rows that it holds."""

    tokens: int = WORD  # of a program
    channels: int = WIDEST  # of a program
    held: int = 0  # rows: all tokens, twice the tokens of the program, or 0
    spread: int = 0  # rows that a program reads in addition to its number of tokens
    starts: tuple[int, ...] = ()  # the first row that the first token reads, per tile of channels

    @property
    def warps(self):
        """Return the warps of a program; threads hold 16 values each, or 32 in the largest."""
        return min(16, max(self.held, self.tokens) * self.channels // 512)

    @property
    def rows(self):
        """Return the number of rows that the threads of a program cover at once."""
        return 32 * self.warps // self.channels

    def programs(self, tokens, channels):
        """Return the number of programs per sample."""
        return -(-tokens // self.tokens) * -(-channels // self.channels)

    def order(self, real, tokens, arange):
        """Return `real.order`, extended so that shifting kernels read it without masks or wrapping.

        It is padded to whole programs. If no rows are held, two rounds of the circle of real tokens
        follow. `arange` is the function of the framework.
        """
        end = -(-tokens // self.tokens) * self.tokens
        if self.held:
            return real.order[:, arange(end).clip(max=tokens - 1)]
        length, position = real.lengths[:, None], arange(3 * end)[None]
        position = position - end * (position >= end) - length * (position >= end + length)
        sample = arange(len(length))[:, None]
        return real.order[sample, position.clip(max=tokens - 1)]


class Real(NamedTuple):
    """Hold the real tokens of a masked call. Kernels use positions: real tokens, then padding."""

    order: Any = None  # (batch, tokens), int32, the token at every position
    lengths: Any = None  # (batch,), int32, the number of real tokens


ALL = Real()  # tokens of a call without a mask


class Reads(NamedTuple):
    """Hold the offset at which each channel reads, and the window of the programs."""

    window: Window
    offsets: Any = None  # int32 from 0, (channels,), with a mask (batch, channels); None: no shift
    starts: Any = None  # (tiles of channels,), int32, if the window is an arc
    real: Real = ALL
    order: Any = None  # from `Window.order`, with a mask; sorts read `real.order`

    def arrays(self):
        lengths = self.real.lengths
        return dict(reads=self.offsets, starts=self.starts, order=self.order, lengths=lengths)


@lru_cache(maxsize=256)
def window_for(reads, tokens, itemsize):
    """Return the window for `reads`, the offset of every channel, from 0 to `tokens` - 1.

    If the offsets are too far apart, this is the window for any offsets.
    """
    if tokens <= CIRCLE:
        return window_for_any(tokens, itemsize)
    wide = WIDEST
    while wide >= SECTOR // itemsize:
        starts, spread = _arcs(reads, tokens, wide)
        chunk = max(ARC, power_of_two(spread))
        if 2 * chunk * wide <= HELD and 2 * chunk <= tokens:
            return Window(chunk, wide, 2 * chunk, spread, starts)
        wide //= 2
    return window_for_any(tokens, itemsize)


@lru_cache(maxsize=256)
def reads_of(steps, tokens, itemsize, back):
    """Return the offsets at which channels read, shifted by `steps` or back, and the window."""
    reads = tuple((step if back else -step) % tokens for step in steps)
    return reads, window_for(reads, tokens, itemsize)


def window_for_any(tokens, itemsize):
    """Return the window for steps that are known only at run time: all tokens, if they fit."""
    circle = max(WORD, power_of_two(tokens))
    channels = min(WIDEST, HELD // circle)
    return Window(circle, channels, circle) if channels * itemsize >= SECTOR // 4 else Window()


def _arcs(reads, tokens, channels):
    """Return the starts of the arcs of all tiles of channels, and the longest length."""
    arcs = [even_arc(reads[at : at + channels], tokens) for at in range(0, len(reads), channels)]
    return tuple(start for start, _ in arcs), max((spread for _, spread in arcs), default=0)


def even_arc(positions, tokens):
    """Return the shortest arc around `positions` that cuts no pair: its start and its spread."""
    start, spread = arc(positions, tokens)
    odd = start % 2
    return start - odd, (spread + odd + 1) // 2 * 2


def arc(positions, tokens):
    """Return the shortest arc around `positions`: its start, and the distance to its last position.

    >>> arc((6, 7, 1), tokens=8)
    (6, 3)
    """
    positions = sorted(set(positions))
    before = (positions[-1], *positions)
    gap, start = max(((b - a - 1) % tokens, b) for a, b in zip(before, positions, strict=False))
    return start, tokens - 1 - gap
