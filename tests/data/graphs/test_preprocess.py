"""Test preprocessing of graphs against the authors' code, and graphs in JSON lines."""

import json

import numpy as np
import pytest

from keras_permix.data import (
    GraphSource,
    Pipeline,
    load_graphs,
    pad_graphs,
    preprocess_graph,
)
from keras_permix.data.graphs import preprocess
from keras_permix.data.graphs.preprocess import batch_graphs, shortest_paths
from keras_permix.layers.graph import graph_embedding
from tests.data.graphs.graphs import GRAPHS
from tests.harness import load_golden
from tests.oracle import graph as oracle

GOLDEN = load_golden("graphormer")
NAMES = ("x", "in_degree", "spatial_pos", "attn_edge_type", "edge_input")


def golden_edges(index):
    """Return each undirected edge of a golden graph once, with its features."""
    ends, features = (GOLDEN[f"g{index}_raw_edge_{kind}"] for kind in ("index", "attr"))
    edges = np.concatenate([ends.T, features], axis=1)
    return edges[edges[:, 0] < edges[:, 1]]


def test_table_sizes_match():
    assert preprocess.ROWS == graph_embedding.ROWS


@pytest.mark.parametrize("index", [0, 1])
def test_graph_matches_authors(index):
    graph = preprocess_graph(GOLDEN[f"g{index}_raw_x"], golden_edges(index))
    for name in NAMES:
        np.testing.assert_array_equal(graph[name], GOLDEN[f"g{index}_{name}"], err_msg=name)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: f"{len(graph['x'])} nodes")
def test_distances_match_breadth_first_search(graph):
    (distance,), _ = shortest_paths(graph["attn_edge_type"].any(-1)[None])
    np.testing.assert_array_equal(distance, graph["spatial_pos"])


def random_graph(rng):
    """Return a random graph. Most pairs of nodes have several shortest paths or no path."""
    nodes = rng.integers(1, 15)
    edges = np.sort(rng.integers(0, nodes, (rng.integers(0, 2 * nodes), 2)))
    edges = rng.permuted(np.unique(edges, axis=0), axis=1)
    features = rng.integers(0, 5, (len(edges), 2))
    return rng.integers(0, 9, (nodes, 3)), np.hstack([edges, features])


@pytest.mark.parametrize("options", [{}, dict(nodes=17, hops=3), dict(hops=20, max_distance=2)])
def test_batched_graphs_match_single_graphs(options):
    rng = np.random.default_rng(0)
    graphs = [random_graph(rng) for _ in range(200)]
    alone = [oracle.preprocess(*graph) for graph in graphs]
    together, expected = batch_graphs(graphs, **options), pad_graphs(alone, **options)
    assert together.keys() == expected.keys()
    for name, array in together.items():
        assert array.dtype == expected[name].dtype
        np.testing.assert_array_equal(array, expected[name], err_msg=name)
    for graph, wanted in zip(graphs[:50], alone, strict=False):
        for name, array in preprocess_graph(*graph, edge_features=2).items():
            np.testing.assert_array_equal(array, wanted[name], err_msg=name)


def write(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows))


ROWS = [
    {"nodes": [[6], [6], [8]], "edges": [[0, 1, 1], [1, 2, 2]], "gap": 0.5, "mass": 44},
    {"nodes": [[6]], "edges": [], "gap": -1.0, "mass": 16},
]


def test_batches_from_json_lines(tmp_path):
    write(tmp_path / "graphs.jsonl", ROWS)
    files = dict(train="graphs.jsonl", test="graphs.jsonl", labels=("gap", "mass"))
    data = load_graphs("mine", tmp_path, **files)
    inputs, targets = Pipeline(*data.train, batch_size=2)[0]
    np.testing.assert_array_equal(targets, np.array([[0.5, 44], [-1, 16]], "float32"))
    np.testing.assert_array_equal(inputs["spatial_pos"][0], [[1, 2, 3], [2, 1, 2], [3, 2, 1]])
    assert inputs["x"][1].tolist() == [[8], [0], [0]]
    assert "y" not in inputs and inputs["attn_bias"].shape == (2, 4, 4)
    one, _ = Pipeline(*data.test, batch_size=1)[1]
    assert one["x"].shape == (1, 3, 1), "every batch is padded to the largest graph of the set"
    assert data.labels == ("gap", "mass") and data.train[0][1:].targets.tolist() == [[-1, 16]]


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        (
            {"edges": [], "y": 0},
            "must have `nodes` and `edges`, or .*Received: .*KeyError: 'nodes'",
        ),
        ({"nodes": [[1]], "edges": []}, "must have a number in the column 'y'.*KeyError: 'y'"),
        ({"nodes": [[1]], "edges": [[0, 1]], "y": 0}, "edges must join existing nodes"),
        ({"nodes": [[510]], "edges": [], "y": 0}, "must be integers from 0 to 509"),
        ({"nodes": [1, 2], "edges": [], "y": 0}, r"must be \(nodes, node_features\)"),
        ({"nodes": [[1]], "edges": [[0, 0.5]], "y": 0}, "must be integers from 0 to 509"),
        ({"nodes": [[1]], "edges": [[-1, 0]], "y": 0}, "edges must join existing nodes"),
        ({"nodes": [[1]], "edges": [[0]], "y": 0}, r"must be \(nodes, node_features\)"),
        ({"nodes": "[[1]]", "edges": "[[0, 1]]", "y": 0}, r"must be \(nodes, node_features\)"),
        ({"nodes": [[1, 2]], "edges": [], "y": 0}, "All nodes must have the same features"),
    ],
)
def test_invalid_row_raises(tmp_path, row, rule):
    write(tmp_path / "graphs.jsonl", [{"nodes": [[1]], "edges": [], "y": 0}, row])
    with pytest.raises(ValueError, match=rule):
        load_graphs("mine", tmp_path, train="graphs.jsonl", test="graphs.jsonl")


def test_set_with_a_graph_without_edges(tmp_path):
    rows = [
        {"nodes": [[1], [2]], "edges": [[0, 1, 3, 4]], "y": 0},
        {"nodes": [[1]], "edges": [], "y": 1},
    ]
    write(tmp_path / "graphs.jsonl", rows)
    data = load_graphs("mine", tmp_path, train="graphs.jsonl", test="graphs.jsonl")
    assert data.train[0].read([0, 1])[0]["attn_edge_type"].shape == (2, 2, 2, 2)


def test_graph_with_too_many_neighbors_raises():
    nodes = np.ones((513, 1), int)
    star = np.stack([np.zeros(512, int), np.arange(1, 513)], axis=1)
    with pytest.raises(ValueError, match="at most 510 neighbors. Received: 512"):
        GraphSource([(nodes, star)], [[0.0]]).read([0])
    source = GraphSource([(nodes[:511], star[:510])], [[0.0]])
    assert source.read([0])[0]["in_degree"].max() == 511


def test_source_checks_its_graphs():
    inputs, _ = GraphSource([([[8], [1]], [[0, 1]])], [[0.0]]).read([0])
    assert inputs["attn_edge_type"].shape == (1, 2, 2, 1)
    with pytest.raises(ValueError, match="edges must join existing nodes"):
        GraphSource([([[8], [1]], [[0, -1, 0]])], [[0.0]])
