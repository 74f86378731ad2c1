"""ListOps drawn at random, many trees at once: depth by depth, in NumPy.

A tree is held as the depths of its operators, from the root. Each is a `_Depth`: how many arguments
every operator has, and which of these, in one array for all operators, are operators themselves;
these are, in the same order, the operators of the next depth. Lengths and answers come from the
deepest to the root, places in the text from the root down.
"""

from typing import NamedTuple

import numpy as np

FIRST_DIGIT = 1  # "0" to "9" are the tokens 1 to 10,
MIN, MAX, MED, SM = range(11, 15)
CLOSE = 15


class _Depth(NamedTuple):
    trees: np.ndarray  # of each operator, the tree that it is in
    arguments: np.ndarray  # of each operator, the number
    nested: np.ndarray  # of each argument, whether it is an operator


def draw_listops(
    rng: np.random.Generator,
    trees: int,
    *,
    min_tokens: int,
    max_tokens: int,
    max_depth: int,
    max_arguments: int,
    nesting: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw trees, and keep those of `min_tokens` to `max_tokens` tokens.

    Args:
        rng: What all is drawn from.
        trees: How many are drawn.
        min_tokens, max_tokens: Tokens of a sequence, both included; at least 4.
        max_depth: Depth of the deepest digits, where the root is at depth 1.
        max_arguments: Each operator has 2 to this many arguments, all equally likely.
        nesting: Probability that an argument is an operator.

    Returns:
        The tokens of all sequences, one after the other, uint8; the length of each; and its answer,
        uint8.
    """
    depths, tokens = _grow(rng, trees, max_tokens, max_depth, max_arguments, nesting)
    kept = (min_tokens <= tokens) & (tokens <= max_tokens)
    depths = [_only(depth, kept) for depth in depths]
    depths = [depth for depth in depths if len(depth.trees)]
    lengths = tokens[kept]
    if not depths:
        return np.empty(0, "uint8"), lengths, np.empty(0, "uint8")
    return _written(rng, depths, lengths, max_arguments)


def _grow(rng, trees, max_tokens, max_depth, max_arguments, nesting):
    """The depths of all trees, and their tokens; trees that are too long do not grow on."""
    tokens = np.ones(trees, "int64")
    roots, depths = np.arange(trees), []
    for depth in range(1, max_depth):
        arguments = rng.integers(2, max_arguments + 1, len(roots))
        tokens += np.bincount(roots, arguments + 1, trees).astype("int64")
        nested = rng.random(arguments.sum(), "float32") < (nesting if depth + 1 < max_depth else 0)
        # What has grown too long stays in this depth, but has no operators in the next.
        long = tokens[roots] > max_tokens
        nested &= ~np.repeat(long, arguments)
        depths.append(_Depth(roots, arguments, nested))
        roots = np.repeat(roots, arguments)[nested]
    return depths, tokens


def _only(depth, kept):
    """A depth without the operators of other trees."""
    ours = kept[depth.trees]
    nested = depth.nested[np.repeat(ours, depth.arguments)]
    return _Depth(depth.trees[ours], depth.arguments[ours], nested)


def _written(rng, depths, lengths, max_arguments):
    """Tokens, lengths and answers of trees, with digits and operators drawn for them."""
    tokens = rng.integers(FIRST_DIGIT, FIRST_DIGIT + 10, lengths.sum(), "uint8")
    sizes = _sizes(depths)
    places, operators, digits = _before(lengths), [], []
    for depth, (size, argument_sizes) in zip(depths, sizes, strict=True):
        operators.append(rng.integers(MIN, SM + 1, len(places), "uint8"))
        tokens[places] = operators[-1]
        tokens[places + size - 1] = CLOSE
        before = _before(argument_sizes)
        shift = places + 1 - before[_before(depth.arguments)]
        argument_places = before + np.repeat(shift, depth.arguments)
        digits.append(tokens[argument_places] - FIRST_DIGIT)
        places = argument_places[depth.nested]
    return tokens, lengths, _answers(depths, operators, digits, max_arguments)


def _before(numbers):
    """The sum of all numbers before each."""
    return np.cumsum(numbers) - numbers


def _sizes(depths):
    """For each depth, how many tokens every operator and every argument take, with all in it."""
    found, below = [], np.empty(0, "int64")
    for depth in reversed(depths):
        argument_sizes = np.ones(len(depth.nested), "int64")
        argument_sizes[depth.nested] = below
        below = 2 + np.add.reduceat(argument_sizes, _before(depth.arguments))
        found.append((below, argument_sizes))
    return found[::-1]


def _answers(depths, operators, digits, max_arguments):
    """The answers of the roots. `digits` are those of all arguments, junk where nested."""
    below, columns = np.empty(0, "uint8"), np.arange(max_arguments)
    for depth, operator, values in zip(*map(reversed, (depths, operators, digits)), strict=True):
        values[depth.nested] = below
        table = np.full((len(operator), max_arguments), 255, "uint8")
        table[columns < depth.arguments[:, None]] = values
        table.sort(axis=1)
        rows, last = np.arange(len(table)), depth.arguments - 1
        middle = (table[rows, last // 2] + table[rows, (last + 1) // 2]) // 2
        sums = np.add.reduceat(values, _before(depth.arguments), dtype="int64") % 10
        below = np.select(
            [operator == MIN, operator == MAX, operator == MED],
            [table[:, 0], table[rows, last], middle],
            sums,
        ).astype("uint8")
    return below
