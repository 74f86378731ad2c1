"""Batches of texts of similar lengths, which need less padding."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

GROUPS = 16  # of lengths; texts of one group are in one batch, or in two


def check_lengths(pad_to: Sequence[int], max_sequence_length: int) -> tuple[int, ...]:
    """Return the lengths that batches may be padded to, of which `max_sequence_length` is the last.

    Raises:
        ValueError: if they do not rise from 1 or more to less than `max_sequence_length`.
    """
    if not isinstance(pad_to, list | tuple) or not all(isinstance(n, int) for n in pad_to):
        raise ValueError(f"`pad_to` must be a list of integers. Received: pad_to={pad_to!r}")
    lengths = (*pad_to, max_sequence_length)
    if min(lengths) < 1 or list(lengths) != sorted(set(lengths)):
        raise ValueError(
            "`pad_to` must be lengths that rise, from 1 or more to less than "
            "`max_sequence_length`. "
            f"Received: pad_to={tuple(pad_to)}, max_sequence_length={max_sequence_length}"
        )
    return lengths


def similar_lengths(
    rng: np.random.Generator, lengths: Sequence[int] | np.ndarray, batch_size: int
) -> np.ndarray:
    """A random order of texts, in which those of a batch have similar lengths.

    Args:
        rng: What it is drawn from.
        lengths: Of each text; any measure that grows with the number of tokens.
        batch_size: Texts in a batch. Batches are in random order; the last one may be smaller.

    Returns:
        int array `(texts,)`, each index once.
    """
    ranks = np.argsort(np.argsort(lengths, kind="stable"))
    order = rng.permutation(len(ranks))
    order = order[np.argsort(ranks[order] * GROUPS // len(ranks), kind="stable")]
    order = np.roll(order, rng.integers(len(order)))  # so that no length is always left over
    full = len(order) - len(order) % batch_size
    batches = rng.permutation(order[:full].reshape(-1, batch_size))
    return np.concatenate([batches.reshape(-1), order[full:]])


def of_one_shape(source: Any) -> Any:
    """A source of sequences that is padded to one length in place of several."""
    one = copy.copy(source)
    one.pad_to = (source.max_sequence_length,)
    return one


def trim(inputs: dict[str, np.ndarray], lengths: Sequence[int]) -> dict[str, np.ndarray]:
    """Padded sequences, cut to the shortest of some lengths that leaves all real tokens.

    Args:
        inputs: Dict of arrays `(batch, tokens)`, among them "mask".
        lengths: As `check_lengths` returns them.
    """
    longest = np.flatnonzero(inputs["mask"].any(axis=0)).max(initial=0) + 1
    width = next(length for length in lengths if length >= longest)
    return {name: array[:, :width] for name, array in inputs.items()}
