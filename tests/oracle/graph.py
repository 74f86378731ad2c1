"""NumPy reference of Graphormer, one graph at a time and without padding.

It shares no code with the package. A graph is a dict of arrays as accepted by `pad_graphs`. Weights
are dicts of float64 arrays.
"""

import math

import numpy as np

erf = np.vectorize(math.erf)
UNREACHABLE = 510


def preprocess(nodes, edges):
    """Return a graph for `pad_graphs`, by Floyd's algorithm. Edges are (a, b, *features)."""
    nodes, edges = np.asarray(nodes, int), np.asarray(edges, int)
    count, features = len(nodes), edges.shape[1] - 2
    edge_type = np.zeros((count, count, features), int)
    for a, b, *values in edges.tolist():
        numbers = [2 + 512 * feature + value for feature, value in enumerate(values)]
        edge_type[a, b] = edge_type[b, a] = numbers
    distance = np.where(edge_type.any(-1), 1, UNREACHABLE)
    np.fill_diagonal(distance, 0)
    between = {}
    for k, i, j in np.ndindex(count, count, count):
        if distance[i, k] + distance[k, j] < distance[i, j]:
            distance[i, j], between[i, j] = distance[i, k] + distance[k, j], k
    pairs = [pair for pair in np.ndindex(count, count) if 0 < distance[pair] < UNREACHABLE]
    paths = {pair: [*_inner(between, *pair), pair[1]] for pair in pairs}
    longest = max(map(len, paths.values()), default=1)
    edge_input = np.full((count, count, longest, features), -1)
    for (start, end), path in paths.items():
        for hop, pair in enumerate(zip([start, *path[:-1]], path, strict=True)):
            edge_input[start, end, hop] = edge_type[pair]
    return {
        "x": 1 + 512 * np.arange(nodes.shape[1]) + nodes,
        "in_degree": edge_type.any(-1).sum(1),
        "spatial_pos": distance,
        "attn_edge_type": edge_type,
        "edge_input": edge_input,
    }


def _inner(between, start, end):
    """Return the inner nodes of the path between two nodes."""
    if (start, end) not in between:
        return []
    node = between[start, end]
    return [*_inner(between, start, node), node, *_inner(between, node, end)]


def bias(graph, tables, edges="multi_hop", max_hops=5):
    """Return the attention bias of one graph: (heads, nodes + 1, nodes + 1)."""
    nodes, heads = len(graph["x"]), tables["virtual_distance"].shape[1]
    result = np.zeros((heads, nodes + 1, nodes + 1))
    result[:, 0, :] = result[:, :, 0] = tables["virtual_distance"][0][:, None]
    for i, j in np.ndindex(nodes, nodes):
        distance = graph["spatial_pos"][i, j]
        total = np.zeros(heads)
        if edges == "single":
            total = _edge(graph["attn_edge_type"][i, j], tables)
        elif distance < 510:
            length = min(distance, max_hops)
            for hop in range(length):
                edge = _edge(graph["edge_input"][i, j, hop] + 1, tables)
                total += edge @ tables["hop_table"][hop] / length
        result[:, i + 1, j + 1] = tables["distance_table"][distance + 1] + total
        if distance >= 20:
            result[:, i + 1, j + 1] = -np.inf
    return result


def _edge(values, tables):
    rows = [
        tables["edge_table"][value] if value else 0 * tables["edge_table"][0] for value in values
    ]
    return np.mean(rows, axis=0)


def block(tokens, bias, weights, sort=None, descending=False, real=None):
    """Apply a block to the tokens of one graph; `sort` is None, "paper" or "release".

    `real` is False for padding. A query without allowed keys attends to all keys, with a bias of 0
    instead of -inf.
    """
    real = np.ones(len(tokens), bool) if real is None else real
    allowed = np.isfinite(bias) & real
    allowed = allowed | ~allowed.any(axis=-1, keepdims=True)
    bias = np.where(np.isfinite(bias), bias, 0)
    normed = _norm(tokens, weights["mixer_norm"])
    heads, width = len(bias), tokens.shape[1]
    values = _dense(normed, weights["value"])
    mixed = np.zeros_like(values)
    for head in range(heads):
        part = np.s_[:, head * width // heads : (head + 1) * width // heads]
        scores = bias[head]
        if sort is None:
            query, key = (
                _dense(normed, weights["query"])[part],
                _dense(normed, weights["key"])[part],
            )
            scores = scores + query @ key.T / np.sqrt(width // heads)
        scores = np.where(allowed[head], scores, -np.inf)
        maps = np.exp(scores - scores.max(axis=1, keepdims=True))
        mixed[part] = maps / maps.sum(axis=1, keepdims=True) @ values[part]
    if sort == "paper":
        mixed = _sort(mixed, descending, real)
    if sort == "release":
        mixed = mixed + _sort(values, descending, real)
    tokens = tokens + _dense(mixed, weights["output"])
    hidden = _dense(_norm(tokens, weights["mlp_norm"]), weights["mlp_in"])
    hidden = hidden * (1 + erf(hidden / np.sqrt(2))) / 2
    return tokens + _dense(hidden, weights["mlp_out"])


def _norm(x, weights):
    gamma, beta = weights
    centered = x - x.mean(axis=-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + 1e-5) * gamma + beta


def _dense(x, weights):
    kernel, bias = weights
    return x @ kernel + bias


def _sort(x, descending, real):
    out = np.zeros_like(x)
    out[real] = np.where(descending, -np.sort(-x[real], axis=0), np.sort(x[real], axis=0))
    return out
