"""Which tokens and channels a program of a kernel covers, chosen from what channels read.

A channel reads every token so many tokens further on. Memory is read in sectors of a row, which
hold several channels: a program that wants one of them should want the others as well. It has some
channels, takes its tokens in chunks, one after another, and either holds rows and picks among them,
or fetches value by value, near each other in time what shares a sector, which a cache then holds.
"""

from functools import lru_cache
from typing import NamedTuple

from keras_permix.ops.backend.plan import power_of_two

SECTOR = 32  # bytes that memory is read in
WIDEST = 32  # channels
WORD = 64  # tokens of a chunk, at least: a word of bits, one per pair
ARC = 128  # tokens of a chunk whose rows are held with as many more
CIRCLE = 256  # tokens of a sample whose rows are all held
HELD = 4096  # values of a chunk, at most: registers hold no more
CACHED = 1024  # rows of a sector each, besides a chunk's, that a cache holds for a program


class Window(NamedTuple):
    """How programs cover tokens and channels, and what each of them holds."""

    tokens: int = WORD  # of a chunk
    channels: int = WIDEST  # of a program
    chunks: int = 1  # of a program
    blocks: int = 0  # of rows, each like a chunk: 1 is the circle, 2 an arc, and 0 none
    spread: int = 0  # rows that a chunk reads besides its number of tokens
    starts: tuple[int, ...] = ()  # what the first token reads first, one per tile of channels

    @property
    def warps(self):
        """Warps of a program, whose threads move 8 values of a chunk each."""
        return self.tokens * self.channels // 256

    def programs(self, tokens, channels):
        """How many cover a sample: (strips of chunks, tiles of channels)."""
        return -(-tokens // (self.chunks * self.tokens)), -(-channels // self.channels)


@lru_cache(maxsize=256)
def window_for(reads, tokens, itemsize):
    """The window for `reads`, or the default one, where they lie too far apart for any other.

    Args:
        reads: How many tokens further on every channel reads, a tuple of 0 to tokens - 1.
        tokens: Tokens of a sample.
        itemsize: Bytes of a value.
    """
    fewest = SECTOR // itemsize
    if tokens <= CIRCLE:
        circle = max(WORD, power_of_two(tokens))
        return Window(circle, min(WIDEST, HELD // circle), blocks=1)
    channels = WIDEST
    while channels >= fewest:
        starts, spread = _arcs(reads, tokens, channels)
        if spread <= ARC:
            return Window(ARC, channels, _chunks(ARC, spread, tokens), 2, spread, starts)
        channels //= 2
    if spread <= CACHED:
        chunk = HELD // fewest
        return Window(chunk, fewest, _chunks(chunk, spread, tokens))
    return Window()


def _arcs(reads, tokens, channels):
    """Where the arcs of all tiles of channels start, and how long the longest is."""
    arcs = [even_arc(reads[at : at + channels], tokens) for at in range(0, len(reads), channels)]
    return tuple(start for start, _ in arcs), max((spread for _, spread in arcs), default=0)


def _chunks(chunk, spread, tokens):
    """Chunks of a program: so many that rows which two of them load are a quarter at most."""
    chunks = -(-tokens // chunk)
    strips = min(chunks, max(1, tokens // max(4 * spread, 1)))
    return -(-chunks // strips)


def even_arc(places, tokens):
    """An arc that holds `places` and cuts no pair: its first place, and how far its last lies."""
    start, spread = arc(places, tokens)
    odd = start % 2
    return start - odd, (spread + odd + 1) // 2 * 2


def arc(places, tokens):
    """The shortest arc that holds `places`: its first place, and how far from it the last lies.

    >>> arc((6, 7, 1), tokens=8)
    (6, 3)
    """
    places = sorted(set(places))
    before = (places[-1], *places)
    gap, start = max(((b - a - 1) % tokens, b) for a, b in zip(before, places, strict=False))
    return start, tokens - 1 - gap
