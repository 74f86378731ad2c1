"""Shortest paths in many graphs at once."""

from typing import Any

import numpy as np

UNREACHABLE = 510  # the distance between nodes that no path joins


def shortest_paths(joined: Any) -> tuple[np.ndarray, np.ndarray]:
    """Distances in edges, and a node between each two on their path, -1 for none.

    Floyd's algorithm: the first node that makes a path shorter is kept.

    Args:
        joined: Bool array `(batch, nodes, nodes)`, True where an edge joins two nodes.

    Returns:
        Two int16 arrays `(batch, nodes, nodes)`.
    """
    distance = np.where(joined, 1, UNREACHABLE).astype("int16")
    every = np.arange(joined.shape[-1])
    distance[:, every, every] = 0
    between = np.full(joined.shape, -1, "int16")
    for node in every:
        through = distance[:, :, node, None] + distance[:, node, None]
        between[through < distance] = node
        distance = np.minimum(distance, through)
    return distance, between


def edges_on_paths(distance: Any, between: Any, hops: int) -> np.ndarray:
    """The first edges on the path between each two nodes, as `shortest_paths` found it.

    Args:
        distance, between: Int arrays `(batch, nodes, nodes)`.
        hops: Number of edges.

    Returns:
        int array `(batch, nodes, nodes, hops)`: where in a flattened `(batch, nodes, nodes)` the
        edge stands, and after the end of a path the size of that, which is nowhere.
    """
    nodes, lengths, between = distance.shape[-1], distance.ravel(), between.ravel()
    steps = np.full((lengths.size, hops), lengths.size)
    (edges,) = np.nonzero(lengths == 1)
    steps[edges, 0] = edges
    # A path is put together from the path to a node between its ends and the one from there.
    for length in range(2, longest_path(distance) + 1):
        (pairs,) = np.nonzero(lengths == length)
        middle = between[pairs]
        to = pairs - pairs % nodes + middle
        onward = pairs + (middle - pairs // nodes % nodes) * nodes
        hop, split = np.arange(min(length, hops)), lengths[to][:, None]
        late = hop >= split
        path = np.where(late, onward[:, None], to[:, None])
        steps[pairs, : len(hop)] = steps[path, hop - late * split]
    return steps.reshape(*distance.shape, hops)


def longest_path(distance: Any) -> int:
    """Edges of the longest path."""
    return int(distance[distance < UNREACHABLE].max(initial=0))
