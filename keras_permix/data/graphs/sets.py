"""Sets of graphs with a target each, in files of one graph per line."""

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.data.dataset import Dataset
from keras_permix.data.graphs.pad import MAX_HOPS, pad_graphs
from keras_permix.data.graphs.preprocess import preprocess_graph
from keras_permix.data.lines import read_parts


class GraphSource:
    """Graphs with targets that are padded when a batch wants them, for `Pipeline`.

    `source[start:stop]` is a source of some of the graphs, `len(source)` their number.

    Args:
        graphs: A list of dicts as `pad_graphs` takes them, each with "y".
        nodes, hops: Sizes that every batch is padded to, as in `pad_graphs`.
    """

    def __init__(
        self, graphs: list[dict[str, Any]], nodes: int | None = None, hops: int | None = None
    ) -> None:
        self.graphs, self.nodes, self.hops = graphs, nodes, hops

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, part: slice) -> Self:
        some = copy.copy(self)
        some.graphs = self.graphs[part]
        return some

    def read(
        self, indices: Sequence[int] | np.ndarray, epoch: int = 0, index: int = 0
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Read graphs as one batch: `(inputs of pad_graphs, float32 targets (batch, targets))`."""
        chosen = [self.graphs[int(i)] for i in indices]
        inputs = pad_graphs(chosen, nodes=self.nodes, hops=self.hops)
        return inputs, inputs.pop("y").reshape(len(chosen), -1)


def load_graphs(
    name: str, data_dir: StrPath | None = None, *, labels: Sequence[str] = ("y",), **files: Any
) -> Dataset:
    """Load a set of graphs from files of JSON lines.

    A row says "nodes", a list of each node's features; "edges", a list of `[node, node, feature,
    …]`, each edge once; and under each name of `labels` a number to be predicted. Features are
    integers 0 … 510.

    Args:
        name: What the set is called.
        data_dir: Folder that the files are relative to.
        labels: Names of the targets.
        **files: `train`, `test` and `splits`, as in `read_parts`.

    Returns:
        A `Dataset` whose parts are `(GraphSource, None)`, all padded to the largest graph.

    Raises:
        ValueError: for a damaged file, or a row that is no such graph.
        FileNotFoundError: for a missing file.
    """
    parts = read_parts(name, {}, data_dir, **files)
    edge_features = max(
        (len(edge) - 2 for rows in parts for row in rows for edge in row.get("edges", [])),
        default=0,
    )
    train, test = ([read_graph(row, labels, edge_features) for row in rows] for rows in parts)
    nodes = max(len(graph["x"]) for graph in [*train, *test])
    hops = min(max(graph["edge_input"].shape[2] for graph in [*train, *test]), MAX_HOPS)
    parts = [(GraphSource(graphs, nodes, hops), None) for graphs in (train, test)]
    return Dataset(name, parts[0], parts[1], tuple(labels))


def read_graph(row, labels=(), edge_features=None):
    """The graph of one row, as `pad_graphs` takes it.

    Raises:
        ValueError: if the row is no graph, or lacks a number.
    """
    try:
        graph = preprocess_graph(row["nodes"], row["edges"], edge_features)
        if labels:
            graph["y"] = np.array([row[label] for label in labels], "float32")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"A graph must have `nodes`, `edges`{''.join(f', `{label}`' for label in labels)}. "
            f"Received: {str(row)[:200]} ({type(error).__name__}: {error})"
        ) from error
    return graph
