"""Draw many trees of ListOps at once, depth by depth, in NumPy.

A tree is a list of depths of operators, from the root. A `_Depth` holds the number of arguments of
each operator, and one array for all operators that marks the arguments that are operators. Those
are, in the same order, the operators of the next depth. Lengths and results are computed from the
deepest depth to the root, positions in the text from the root down.
"""

from typing import NamedTuple

import numpy as np

FIRST_DIGIT = 1  # the tokens 1 to 10 are "0" to "9"
MIN, MAX, MED, SM = range(11, 15)
CLOSE = 15


class _Depth(NamedTuple):
    trees: np.ndarray  # the tree of each operator
    arguments: np.ndarray  # the number of arguments of each operator
    nested: np.ndarray  # whether each argument is an operator


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
    """Draw `trees` trees, and keep those of `min_tokens` to `max_tokens` tokens.

    The other arguments are those of `generated_listops`. The results are the tokens of all
    sequences, concatenated, uint8; their lengths; and their results, uint8.
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
    """Return the depths of all trees and their numbers of tokens; long trees stop growing."""
    tokens = np.ones(trees, "int64")
    roots, depths = np.arange(trees), []
    for depth in range(1, max_depth):
        arguments = rng.integers(2, max_arguments + 1, len(roots))
        tokens += np.bincount(roots, arguments + 1, trees).astype("int64")
        nested = rng.random(arguments.sum(), "float32") < (nesting if depth + 1 < max_depth else 0)
        # Too long trees keep this depth, but get no operators in the next.
        long = tokens[roots] > max_tokens
        nested &= ~np.repeat(long, arguments)
        depths.append(_Depth(roots, arguments, nested))
        roots = np.repeat(roots, arguments)[nested]
    return depths, tokens


def _only(depth, kept):
    """Return a depth without the operators of dropped trees."""
    ours = kept[depth.trees]
    nested = depth.nested[np.repeat(ours, depth.arguments)]
    return _Depth(depth.trees[ours], depth.arguments[ours], nested)


def _written(rng, depths, lengths, max_arguments):
    """Draw digits and operators of trees; return tokens, lengths and results."""
    tokens = rng.integers(FIRST_DIGIT, FIRST_DIGIT + 10, lengths.sum(), "uint8")
    sizes = _sizes(depths)
    positions, operators, digits = _before(lengths), [], []
    for depth, (size, argument_sizes) in zip(depths, sizes, strict=True):
        operators.append(rng.integers(MIN, SM + 1, len(positions), "uint8"))
        tokens[positions] = operators[-1]
        tokens[positions + size - 1] = CLOSE
        before = _before(argument_sizes)
        shift = positions + 1 - before[_before(depth.arguments)]
        argument_positions = before + np.repeat(shift, depth.arguments)
        digits.append(tokens[argument_positions] - FIRST_DIGIT)
        positions = argument_positions[depth.nested]
    return tokens, lengths, _answers(depths, operators, digits, max_arguments)


def _before(numbers):
    """Return the sum of all numbers before each number."""
    return np.cumsum(numbers) - numbers


def _sizes(depths):
    """Return the number of tokens of each operator and each argument, per depth."""
    found, below = [], np.empty(0, "int64")
    for depth in reversed(depths):
        argument_sizes = np.ones(len(depth.nested), "int64")
        argument_sizes[depth.nested] = below
        below = 2 + np.add.reduceat(argument_sizes, _before(depth.arguments))
        found.append((below, argument_sizes))
    return found[::-1]


def _answers(depths, operators, digits, max_arguments):
    """Return the results of the roots; `digits` of nested arguments are overwritten."""
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
