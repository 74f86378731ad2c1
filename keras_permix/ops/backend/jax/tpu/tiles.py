"""Sort groups of tokens on a TPU in Pallas, with a network that compares integers in tiles.

A tile holds the tokens that fit into registers, in vectors of 8 sublanes: sublane `s` of vector `v`
of `n` holds token `s * n + v`. Most comparisons are between vectors; only those of the last three
sizes cross sublanes. Runs are merged bitonically, with every second run mirrored, so that all runs
ascend. Groups larger than a tile are sorted by tile and merged: first tokens in different tiles,
then tokens within each tile.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

SUBLANES = 8


@dataclass(frozen=True)
class Tiles:
    """Sort the groups of a block, in tiles.

    A vector is a list of words, each (sublanes, lanes), compared by the first word.
    """

    group_size: int  # tokens of a group, a power of two
    vectors: int  # of a tile, a power of two, at least 8
    block: int  # tokens of a block
    lanes: int  # channels of a block
    vectors_per_length: int | None = None  # consecutive ones of one sample; None without a mask

    @property
    def size(self):
        """Return the number of tokens of a tile."""
        return SUBLANES * self.vectors

    @property
    def in_any_order(self):
        """Return whether a tile belongs to one group, so that the order of its tokens is free."""
        return self.group_size >= self.size

    def load(self, ref, tile, real=None):
        """Return a word of each vector of a tile.

        `real` holds the number of real tokens from each 8 consecutive tokens on; others sort last.
        """
        words = []
        for number in range(0, self.vectors, 2):
            two = ref[self._rows(tile, number), :].astype(jnp.int32)
            words += [two[:SUBLANES], two[SUBLANES:]]
        words = self._filled(words, tile, real, jnp.iinfo(ref.dtype).max)
        return words if self.in_any_order else self._rows_to_vectors(words)

    def store(self, ref, tile, words, real=None):
        """Write a word of each vector of a tile to the rows of its tokens, 0 to padding."""
        words = self._filled(self._vectors_to_rows(words), tile, real, 0)
        for number in range(0, self.vectors, 2):
            two = jnp.concatenate(words[number : number + 2])
            ref[self._rows(tile, number), :] = two.astype(ref.dtype)

    def positions(self, tile):
        """Return the positions of the tokens of a tile in their groups, in the order of `load`."""
        numbers = range(self.vectors)
        if self.in_any_order:
            first = self._sublane() + (tile * self.size & (self.group_size - 1))
            return [first + number * SUBLANES for number in numbers]
        first = self._sublane() * self.vectors
        return [(first + number) & (self.group_size - 1) for number in numbers]

    def sort(self, read, write, held, less):
        """Sort groups: `read` returns the vectors of a tile, `write` writes them sorted.

        `less` of two vectors is True where the token of the first comes first. Groups larger than a
        tile require `held`, references for the words of a whole block.
        """

        def numbers(tile):
            return [tile * self.vectors + number for number in range(self.vectors)]

        def load(tile):
            return _load(held, numbers(tile))

        def store(tile, vectors):
            _store(held, numbers(tile), vectors)

        sizes = [self.size]
        while sizes[-1] < self.group_size:
            sizes.append(2 * sizes[-1])
        for size in sizes:
            if size > self.size:
                self._merge_tiles(held, size // self.size, less)
            self._for_each_tile(
                read if size == self.size else load,
                self._sorted if size == self.size else self._merged,
                write if size == sizes[-1] else store,
                less,
            )

    def _for_each_tile(self, load, work, store, less):
        def step(tile, _):
            store(tile, work(list(load(tile)), less))
            return _

        lax.fori_loop(0, self.block // self.size, step, 0)

    def _sorted(self, vectors, less):
        """Sort the groups of a tile, or the part of a group in a tile."""
        size = min(self.group_size, self.vectors)
        runs = [_sorted(vectors[i : i + size], less) for i in range(0, self.vectors, size)]
        vectors, sublanes = [vector for vectors in runs for vector in vectors], 2
        while sublanes * self.vectors <= min(self.group_size, self.size):
            vectors = self._merged_across(vectors, sublanes, less)
            sublanes *= 2
        return vectors

    def _merged_across(self, vectors, sublanes, less):
        """Merge two runs, each on half of `sublanes` sublanes."""
        low, high = [], []
        for one, two in zip(vectors[: len(vectors) // 2], vectors[::-1], strict=False):
            mirrored = self._crossed(two, sublanes - 1)
            keep = less(one, mirrored) != self._second(sublanes // 2)
            low.append(_chosen(keep, one, mirrored))
            high.append(self._crossed(_chosen(keep, mirrored, one), sublanes - 1))
        return self._merged([*low, *high[::-1]], less, sublanes // 4)

    def _merged(self, vectors, less, distance=SUBLANES // 2):
        """Order tokens that are `distance`, `distance` / 2, … sublanes apart, then vectors."""
        while distance:
            vectors = [self._ordered(vector, distance, less) for vector in vectors]
            distance //= 2
        return _merged(vectors, self.vectors // 2, less)

    def _ordered(self, vector, distance, less):
        """Order the tokens of a vector that are `distance` sublanes apart.

        One of two equal tokens may be kept twice.
        """
        other = self._crossed(vector, distance)
        return _chosen(less(vector, other) != self._second(distance), vector, other)

    def _merge_tiles(self, held, count, less):
        """Merge runs of `count` / 2 tiles, by comparing tokens in different tiles."""
        half = count // 2

        def work(step, _):
            run, number = lax.div(step, self.vectors), lax.rem(step, self.vectors)
            mirrored = self.vectors - 1 - number
            of_tile = [number] * half + [mirrored] * half
            numbers = [(run * count + i) * self.vectors + of_tile[i] for i in range(count)]
            vectors = self._crossed_half(_load(held, numbers))
            vectors = _merged(vectors, count - 1, less)
            _store(held, numbers, self._crossed_half(vectors))
            return _

        lax.fori_loop(0, self.block // (SUBLANES * count), work, 0)

    def _crossed_half(self, vectors):
        half = len(vectors) // 2
        return vectors[:half] + [self._crossed(vector, SUBLANES - 1) for vector in vectors[half:]]

    def _crossed(self, vector, distance):
        """Return a vector whose sublane `s` is sublane `s ^ distance` of `vector`."""
        source = self._sublane() ^ distance
        return [jnp.take_along_axis(word, source, axis=0) for word in vector]

    def _second(self, distance):
        """Mark the second of each two sublanes that are `distance`, a power of two, apart."""
        return (self._sublane() & distance) != 0

    def _sublane(self):
        return lax.broadcasted_iota(jnp.int32, (SUBLANES, self.lanes), 0)

    def _filled(self, words, tile, real, value):
        """Replace padding in consecutive tokens, if there is a mask."""
        if real is None or self.vectors_per_length is None:
            return words
        filled = []
        for number, word in enumerate(words):
            behind = number % self.vectors_per_length
            if behind == 0:
                first = real[0, 0, tile * self.vectors + number]
            filled.append(jnp.where(self._sublane() < first - behind * SUBLANES, word, value))
        return filled

    def _rows(self, tile, number):
        """Return the rows of two vectors of consecutive tokens, which fill one 16-bit vector."""
        start = pl.multiple_of(tile * self.size, 2 * SUBLANES)
        return pl.ds(start + number * SUBLANES, 2 * SUBLANES)

    def _rows_to_vectors(self, words):
        """Convert vectors of 8 consecutive tokens to those of the network."""
        count = self.vectors // SUBLANES
        squares = [self._transposed(words[start::count]) for start in range(count)]
        return [word for square in squares for word in square]

    def _vectors_to_rows(self, words):
        count = self.vectors // SUBLANES
        squares = [words[i : i + SUBLANES] for i in range(0, self.vectors, SUBLANES)]
        rows = [self._transposed(square) for square in squares]
        return [rows[number % count][number // count] for number in range(self.vectors)]

    def _transposed(self, words):
        """Transpose the sublanes and the numbers of 8 vectors, bit by bit."""
        words = list(words)
        for step in (1, 2, 4):
            second = self._second(step)
            for number in (number for number in range(SUBLANES) if not number & step):
                one, two = words[number], words[number + step]
                words[number] = jnp.where(second, pltpu.roll(two, step, 0), one)
                words[number + step] = jnp.where(second, two, pltpu.roll(one, SUBLANES - step, 0))
        return words


def _load(held, numbers):
    return [[ref[number] for ref in held] for number in numbers]


def _store(held, numbers, vectors):
    for number, vector in zip(numbers, vectors, strict=True):
        for ref, word in zip(held, vector, strict=True):
            ref[number] = word


def _sorted(vectors, less):
    """Sort along the numbers of vectors by Batcher's odd-even mergesort."""
    half = len(vectors) // 2
    if not half:
        return vectors
    return _joined(_sorted(vectors[:half], less), _sorted(vectors[half:], less), less)


def _joined(one, two, less):
    """Merge two sorted runs: their even numbers, their odd numbers, and pairs of both.

    The first run lies before the second, so equal values stay in order.
    """
    if len(one) == 1:
        return list(_exchange(*one, *two, _not_after))
    even, odd = (_joined(one[start::2], two[start::2], less) for start in (0, 1))
    between = [_exchange(*pair, less) for pair in zip(odd[:-1], even[1:], strict=True)]
    return [even[0], *(vector for pair in between for vector in pair), odd[-1]]


def _merged(vectors, distance, less):
    """Order vectors whose numbers differ by all bits of `distance`, and then within each half."""
    half = len(vectors) // 2
    if not half:
        return vectors
    pairs = [_exchange(vectors[number], vectors[number ^ distance], less) for number in range(half)]
    low = [low for low, _ in pairs]
    high = [pairs[number ^ distance ^ half][1] for number in range(half)]
    return _merged(low, half // 2, less) + _merged(high, half // 2, less)


def _exchange(one, two, less):
    """Return the vector of the first of each two tokens, and that of the second."""
    first = less(one, two)
    return _chosen(first, one, two), _chosen(first, two, one)


def _chosen(mask, one, two):
    """Return the words of one vector where a mask is True, else those of another."""
    return [jnp.where(mask, a, b) for a, b in zip(one, two, strict=True)]


def _not_after(one, two):
    """Return whether `one` comes first or both are equal, by the first word."""
    return one[0] <= two[0]
