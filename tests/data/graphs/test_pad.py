"""Test `pad_graphs`: agreement with the authors' code, padding, masks and errors."""

import numpy as np
import pytest

from keras_permix.data import pad_graphs
from tests.data.graphs.graphs import make_graph
from tests.harness import load_golden

GOLDEN = load_golden("graphormer")
NAMES = ("x", "in_degree", "spatial_pos", "attn_edge_type", "edge_input")


def golden_graphs():
    """Return the two preprocessed graphs of the golden file."""
    graphs = [{name: GOLDEN[f"g{i}_{name}"] for name in NAMES} for i in (0, 1)]
    return [{**graph, "y": y} for graph, y in zip(graphs, GOLDEN["batch_y"], strict=True)]


def chain(nodes, **options):
    """Return a path graph."""
    return make_graph([(node, node + 1) for node in range(nodes - 1)], nodes, **options)


def test_batch_matches_authors():
    batch = pad_graphs(golden_graphs())
    assert {f"batch_{name}" for name in batch} == {n for n in GOLDEN if n.startswith("batch_")}
    for name, array in batch.items():
        floating = name in ("attn_bias", "y")
        assert array.dtype == ("float32" if floating else "int32")
        np.testing.assert_array_equal(array, GOLDEN[f"batch_{name}"].astype(array.dtype))


@pytest.mark.parametrize("nodes", [None, 6])
def test_smaller_graph_is_padded(nodes):
    graphs = [chain(5), chain(2)]
    small, size = graphs[1], nodes or 5
    batch = pad_graphs(graphs, nodes=nodes)
    for name, axes in dict(x=1, in_degree=1, spatial_pos=2, attn_edge_type=2).items():
        real = (1, *[slice(2)] * axes)
        np.testing.assert_array_equal(batch[name][real], small[name] + (name != "attn_edge_type"))
        assert np.count_nonzero(batch[name][1]) == np.count_nonzero(batch[name][real])
    np.testing.assert_array_equal(batch["edge_input"][1, :2, :2, :1], small["edge_input"] + 1)
    assert batch["edge_input"].shape == (2, size, size, 4, 2)
    assert np.count_nonzero(batch["edge_input"][1]) == np.count_nonzero(small["edge_input"] + 1)
    assert (batch["attn_bias"][1, :, :3] == 0).all()
    assert (batch["attn_bias"][1, :, 3:] == -np.inf).all()


def test_distant_nodes_are_masked():
    graphs = [chain(24), make_graph([(0, 1)], 3)]
    bias = pad_graphs(graphs)["attn_bias"]
    distance = np.abs(np.arange(24)[:, None] - np.arange(24))
    np.testing.assert_array_equal(bias[0, 1:, 1:] == -np.inf, distance >= 20)
    unseen = np.zeros((3, 3), bool)
    unseen[2, :2] = unseen[:2, 2] = True
    np.testing.assert_array_equal(bias[1, 1:4, 1:4] == -np.inf, unseen)
    near = pad_graphs(graphs, max_distance=3)["attn_bias"]
    np.testing.assert_array_equal(near[0, 1:, 1:] == -np.inf, distance >= 3)
    assert np.isfinite(bias[0, 0]).all() and np.isfinite(bias[0, :, 0]).all()


@pytest.mark.parametrize(("hops", "kept"), [(None, 20), (2, 2), (25, 25)])
def test_hops_are_truncated_and_padded(hops, kept):
    graph = chain(24)
    paths = pad_graphs([graph], hops=hops)["edge_input"]
    assert paths.shape == (1, 24, 24, kept, 2)
    common = min(kept, 23)
    np.testing.assert_array_equal(paths[0, :, :, :common], graph["edge_input"][:, :, :common] + 1)
    assert (paths[:, :, :, common:] == 0).all()


def test_directed_graphs_and_graphs_without_edges():
    single = make_graph([], 1)
    batch = pad_graphs([{**single, "out_degree": np.array([3])}])
    assert (batch["in_degree"].item(), batch["out_degree"].item()) == (1, 4)
    assert batch["edge_input"].shape == (1, 1, 1, 1, 2) and not batch["edge_input"].any()


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, dict(nodes=2), "integer of at least 3. Received: nodes=2"),
        (dict(in_degree=np.ones(4, int)), {}, r"same nodes.*'in_degree': \(4,\)"),
        (dict(spatial_pos=np.ones((3, 2), int)), {}, r"same nodes.*'spatial_pos': \(3, 2\)"),
        (dict(spatial_pos=np.eye(3, dtype=int) - 1), {}, "from 0 to 510. Received: -1 to 0"),
        (dict(spatial_pos=np.full((3, 3), 511)), {}, "from 0 to 510. Received: 511 to 511"),
        (dict(in_degree=np.full(3, 511)), {}, "at most 510 neighbors. Received: 511"),
        ({}, dict(hops=0), "`hops` must be a positive integer.*hops=0"),
    ],
)
def test_invalid_graphs_raise(change, options, message):
    with pytest.raises(ValueError, match=message):
        pad_graphs([chain(3), {**chain(3), **change}], **options)
