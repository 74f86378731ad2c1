"""Pad graphs of different sizes to one batch of arrays."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from keras_permix.utils.checks import check_integer, check_positive_or_none

MAX_HOPS = 20
UNREACHABLE = 510  # the distance between nodes without a path
MOST_NEIGHBORS = 510  # The tables of degrees have 512 rows, for padding and degrees from 0.
# name -> (number of node axes, number of axes)
AXES = {
    "x": (1, 2),
    "in_degree": (1, 1),
    "out_degree": (1, 1),
    "spatial_pos": (2, 2),
    "attn_edge_type": (2, 3),
    "edge_input": (2, 4),
}


def pad_graphs(
    graphs: Iterable[dict[str, Any]],
    *,
    nodes: int | None = None,
    hops: int | None = None,
    max_distance: int = 20,
) -> dict[str, np.ndarray]:
    """Pad preprocessed graphs to one size, in the layout that `GraphormerBias` takes.

    Features, degrees, distances and the edges on paths are increased by 1, because 0 is padding:
    a distance d becomes d + 1. Edge types are not changed; their 0 is "no edge".

    Args:
        graphs: Iterable of dicts of integer arrays, for n nodes each:

            * "x", features of the nodes, `(n, node_features)`;
            * "spatial_pos", distances in edges, `(n, n)`, 510 without a path;
            * "attn_edge_type", features of edges, `(n, n, edge_features)`, 0 without an edge;
            * "edge_input", features of each edge on the shortest path between two nodes,
              `(n, n, hops, edge_features)`, -1 after its end;
            * "in_degree", `(n,)`, and for directed graphs also "out_degree";
            * "y", the target, a number or an array (optional).
        nodes: Int, size to pad to. Default: `None`, the size of the largest graph.
        hops: Int, edges to keep per path. Default: `None`, the longest path, at most 20.
        max_distance: Int. Nodes this far or farther do not attend to each other. Default: 20.

    Returns:
        A dict of arrays of these names with a leading batch axis, int32, except that "y" is
        float32. It also holds "attn_bias", float32 `(batch, nodes + 1, nodes + 1)`: 0 if a token
        (row) attends to another (column), else -inf. Token 0 is the virtual node, which attends to
        all nodes, and all nodes attend to it.

    Raises:
        KeyError: If an array is missing.
        ValueError: If the sizes of arrays differ, a distance or a degree is out of range, or
            `nodes` is smaller than a graph.

    Example:
        >>> import numpy as np
        >>> from keras_permix.data import pad_graphs
        >>> one = dict(x=np.array([[5]]), in_degree=np.array([0]), spatial_pos=np.array([[0]]))
        >>> one["attn_edge_type"] = np.zeros((1, 1, 1), int)
        >>> one["edge_input"] = np.full((1, 1, 1, 1), -1)
        >>> batch = pad_graphs([one], nodes=2)
        >>> batch["x"].tolist(), batch["spatial_pos"].tolist()
        ([[[6], [0]]], [[[1, 0], [0, 0]]])
        >>> batch["attn_bias"].tolist()
        [[[0.0, 0.0, -inf], [0.0, 0.0, -inf], [0.0, 0.0, -inf]]]

    Reference: Ying et al., "Graphormer", 2021, arXiv:2106.05234, and the released code.
    """
    graphs = [{"out_degree": graph.get("in_degree"), **graph} for graph in graphs]
    for graph in graphs:
        sizes = {name: np.shape(graph[name])[: AXES[name][0]] for name in AXES}
        if len({size for shape in sizes.values() for size in shape}) > 1:
            raise ValueError(f"Arrays of a graph must have the same nodes. Received: {sizes}")
        distance = np.asarray(graph["spatial_pos"])
        if distance.min() < 0 or distance.max() > UNREACHABLE:
            span = f"{distance.min()} to {distance.max()}"
            raise ValueError(f"`spatial_pos` must be from 0 to {UNREACHABLE}. Received: {span}")
        degree = max(np.max(graph[name]) for name in ("in_degree", "out_degree"))
        if degree > MOST_NEIGHBORS:
            rule = f"A node must have at most {MOST_NEIGHBORS} neighbors"
            raise ValueError(f"{rule}. Received: {degree}")
    largest = max(len(graph["x"]) for graph in graphs)
    nodes = largest if nodes is None else check_integer("nodes", nodes, largest)
    if check_positive_or_none("hops", hops) is None:
        longest = max(np.shape(graph["edge_input"])[2] for graph in graphs)
        hops = min(max(longest, 1), MAX_HOPS)
    batch = {name: np.stack([_pad(graph, name, nodes, hops) for graph in graphs]) for name in AXES}
    batch["attn_bias"] = attention_bias(batch["spatial_pos"], max_distance)
    if "y" in graphs[0]:
        batch["y"] = np.stack([np.asarray(graph["y"], "float32") for graph in graphs])
    return batch


def _pad(graph, name, nodes, hops):
    """Return an array of a graph, counted from 1 except edge types, and padded with zeros."""
    array = np.asarray(graph[name]) + (name != "attn_edge_type")
    node_axes, _ = AXES[name]
    shape = [nodes] * node_axes + [*array.shape[node_axes:]]
    if name == "edge_input":
        array, shape[2] = array[:, :, :hops], hops
    padded = np.zeros(shape, "int32")
    padded[tuple(map(slice, array.shape))] = array
    return padded


def attention_bias(spatial_pos, max_distance):
    """Return the "attn_bias" for padded distances, which masks far nodes and padding."""
    batch, nodes, _ = spatial_pos.shape
    bias = np.zeros((batch, nodes + 1, nodes + 1), "float32")
    among_nodes, columns = bias[:, 1:, 1:], bias[:, :, 1:]
    among_nodes[spatial_pos > max_distance] = -np.inf
    real = np.diagonal(spatial_pos, axis1=1, axis2=2) > 0
    np.copyto(columns, -np.inf, where=~real[:, None])
    return bias
