"""Preprocess graphs of features and edges for Graphormer."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_permix.data.graphs.pad import (
    MAX_HOPS,
    MOST_NEIGHBORS,
    UNREACHABLE,
    attention_bias,
)
from keras_permix.utils.checks import check_integer, check_positive_or_none

ROWS = 512  # per feature in the tables of `GraphEmbedding` and `GraphormerBias`
LARGEST = ROWS - 3  # because three is added to features of edges
PREPROCESSED = ("x", "in_degree", "spatial_pos", "attn_edge_type", "edge_input")


def preprocess_graph(
    nodes: np.ndarray | Sequence[Sequence[int]],
    edges: np.ndarray | Sequence[Sequence[int]],
    edge_features: int | None = None,
) -> dict[str, np.ndarray]:
    """Turn a graph into the arrays that `pad_graphs` takes.

    Feature f with value v becomes `1 + 512 f + v`, so that all features share one table. Features
    of edges are increased by another 1: 0 is "no edge". Edges are undirected and have length 1.

    Args:
        nodes: Int array `(nodes, node_features)`, values 0 to 509.
        edges: Int array `(edges, 2 + edge_features)`: the two nodes, then the features of the edge.
            Without features, each edge gets one feature 0.
        edge_features: Int, features per edge; required without edges. Default: as in `edges`.

    Returns:
        A dict of "x", "in_degree", "spatial_pos", "attn_edge_type" and "edge_input".

    Raises:
        ValueError: If an array has a wrong shape, or a value is out of range.

    Example:
        >>> from keras_permix.data import preprocess_graph
        >>> water = preprocess_graph([[8], [1], [1]], [[0, 1], [0, 2]])
        >>> water["spatial_pos"].tolist()
        [[0, 1, 1], [1, 0, 2], [1, 2, 0]]

    Reference: Ying et al., "Graphormer", 2021, arXiv:2106.05234, and the released code.
    """
    graph = check_graph(nodes, edges, edge_features)
    batch = batch_graphs([graph], most_hops=UNREACHABLE)
    return {name: batch[name][0] - (name != "attn_edge_type") for name in PREPROCESSED}


def batch_graphs(
    graphs: Any,
    nodes: int | None = None,
    hops: int | None = None,
    max_distance: int = 20,
    most_hops: int = MAX_HOPS,
) -> dict[str, np.ndarray]:
    """Preprocess and pad pairs as from `check_graph` by `preprocess_graph` and `pad_graphs`.

    Without `hops`, paths have the edges of the longest one, at most `most_hops`.
    """
    check_positive_or_none("hops", hops)
    features, edges = ([graph[part] for graph in graphs] for part in (0, 1))
    sizes = np.array([len(part) for part in features])
    nodes = sizes.max() if nodes is None else check_integer("nodes", nodes, sizes.max())
    x = np.zeros((len(graphs), nodes, features[0].shape[1]), "int32")
    x[np.arange(nodes) < sizes[:, None]] = 2 + _ids(np.concatenate(features))
    owner = np.repeat(np.arange(len(graphs)), [len(part) for part in edges])
    start, end, *values = np.concatenate(edges).astype("int64").T
    edge_type = np.zeros((len(graphs), nodes, nodes, len(values)), "int32")
    edge_type[owner, start, end] = edge_type[owner, end, start] = 2 + _ids(np.array(values).T)
    joined = edge_type[..., 0] > 0
    distance, between = shortest_paths(joined)
    if hops is None:
        hops = min(max(longest_path(distance), 1), most_hops)
    real = x[..., 0] > 0
    degree = ((joined.sum(-1) + 1) * real).astype("int32")
    if degree.max() > MOST_NEIGHBORS + 1:
        rule = f"A node must have at most {MOST_NEIGHBORS} neighbors"
        raise ValueError(f"{rule}. Received: {degree.max() - 1}")
    spatial_pos = ((distance + 1) * (real[:, :, None] & real[:, None])).astype("int32")
    none = np.zeros((1, len(values)), "int32")
    numbered = np.concatenate([edge_type.reshape(-1, len(values)) + 1, none])
    return {
        "x": x,
        "in_degree": degree,
        "out_degree": degree,
        "spatial_pos": spatial_pos,
        "attn_edge_type": edge_type,
        "edge_input": numbered[edges_on_paths(distance, between, hops)],
        "attn_bias": attention_bias(spatial_pos, max_distance),
    }


def check_graph(
    nodes: Any, edges: Any, edge_features: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the checked `nodes` and `edges` of `preprocess_graph`, with a feature per edge."""
    nodes, edges = np.asarray(nodes), np.asarray(edges)
    width = edges.shape[1] if edges.ndim == 2 else 0
    if not edges.size:
        edges = np.zeros((0, 2 + edge_features if edge_features else max(width, 2)), int)
    if edges.shape[1:] == (2,):
        edges = np.pad(edges, ((0, 0), (0, 1)))
    found = edges.shape[-1] - 2 if edges.ndim else 0
    wanted = max(found if edge_features is None else edge_features, 1)
    if nodes.ndim != 2 or edges.ndim != 2 or not nodes.size or found != wanted:
        rule = "`nodes` must be (nodes, node_features), and `edges` (edges, 2 + edge_features)"
        raise ValueError(f"{rule}. Received: {nodes.shape} and {edges.shape}, {edge_features=}")
    values, ends = np.concatenate([nodes.ravel(), edges[:, 2:].ravel()]), edges[:, :2]
    valid = {nodes.dtype.kind, edges.dtype.kind} <= {"i", "u"}
    valid = valid and (0 <= ends).all() and (ends < len(nodes)).all()
    if not valid or values.min() < 0 or values.max() > LARGEST:
        rule = f"Features must be integers from 0 to {LARGEST}, and edges must join existing nodes"
        raise ValueError(f"{rule}. Received: {nodes=}, {edges=}")
    return nodes.astype("uint16"), edges.astype("uint16")


def _ids(values):
    return ROWS * np.arange(values.shape[1], dtype="int32") + values


def shortest_paths(joined: Any) -> tuple[np.ndarray, np.ndarray]:
    """Compute the distances in edges between all nodes, and a node on each path, or -1.

    `joined`, `(batch, nodes, nodes)`, is True where an edge joins two nodes. Floyd's algorithm
    keeps the first node that shortens a path.
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
    """Find the first `hops` edges on the path of `shortest_paths` between each pair of nodes.

    The result holds indices into a flattened `(batch, nodes, nodes)`. After the end of a path, the
    index is the size of that array.
    """
    nodes, lengths, between = distance.shape[-1], distance.ravel(), between.ravel()
    steps = np.full((lengths.size, hops), lengths.size)
    (edges,) = np.nonzero(lengths == 1)
    steps[edges, 0] = edges
    # A path consists of the path to the node between its ends and the path from that node.
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
    """Return the number of edges of the longest path."""
    return int(distance[distance < UNREACHABLE].max(initial=0))
