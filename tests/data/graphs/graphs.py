"""Provide test graphs, preprocessed by breadth-first search, and batches of them."""

import numpy as np

from keras_permix.data import pad_graphs


def make_graph(edges, nodes, seed=0):
    """Return a graph with random features, preprocessed by breadth-first search."""
    rng = np.random.default_rng(seed)
    neighbors = {node: [] for node in range(nodes)}
    edge_type = np.zeros((nodes, nodes, 2), int)
    for a, b in edges:
        neighbors[a].append(b)
        neighbors[b].append(a)
        edge_type[a, b] = edge_type[b, a] = rng.integers(1, 1025, 2)
    paths = {(node, node): [node] for node in range(nodes)}
    for start in range(nodes):
        reached = [start]
        for node in reached:
            for other in neighbors[node]:
                if (start, other) not in paths:
                    paths[start, other] = [*paths[start, node], other]
                    reached.append(other)
    distance = np.full((nodes, nodes), 510)
    hops = max(map(len, paths.values())) - 1
    edge_input = np.full((nodes, nodes, hops, 2), -1)
    for (a, b), path in paths.items():
        distance[a, b] = len(path) - 1
        for hop in range(len(path) - 1):
            edge_input[a, b, hop] = edge_type[path[hop], path[hop + 1]]
    return {
        "x": rng.integers(1, 1024, (nodes, 3)),
        "in_degree": np.array([len(neighbors[node]) for node in range(nodes)]),
        "spatial_pos": distance,
        "attn_edge_type": edge_type,
        "edge_input": edge_input,
    }


# A ring with a tail, an edge and an isolated node, and a path beyond the maximum distance.
GRAPHS = [
    make_graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (4, 5), (5, 6)], 7, seed=1),
    make_graph([(0, 1)], 3, seed=2),
    make_graph([(node, node + 1) for node in range(22)], 23, seed=3),
]
SIZES = [len(graph["x"]) for graph in GRAPHS]
BATCH = pad_graphs(GRAPHS)
MASK = np.arange(24) <= np.array(SIZES)[:, None]
TOKENS = np.random.default_rng(0).normal(size=(3, 24, 8)).astype("float32")
