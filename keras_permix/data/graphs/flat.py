"""Hold many graphs in two arrays, one of all nodes and one of all edges."""

import copy
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from keras_permix.data.cached import cached_samples
from keras_permix.data.graphs.smiles import FEATURE_VERSION, parse_flat, rdkit_version


class FlatGraphs:
    """Hold graphs as a sequence of pairs, the `nodes` and `edges` of `preprocess_graph`.

    An index returns one graph. A slice or an array of indices returns a `FlatGraphs`.

    Args:
        nodes, edges: Arrays `(all nodes, …)` and `(all edges, …)`.
        sizes: Int array `(graphs, 2)`, number of nodes and edges of each graph.

    Example:

    >>> from keras_permix.data.graphs.flat import FlatGraphs
    >>> nodes, edges = np.arange(3)[:, None], np.array([[0, 1, 0]])
    >>> graphs = FlatGraphs(nodes, edges, sizes=np.array([[1, 0], [2, 1]]))
    >>> nodes, edges = graphs[1]
    >>> nodes.tolist(), edges.tolist()
    ([[1], [2]], [[0, 1, 0]])
    """

    def __init__(self, nodes: np.ndarray, edges: np.ndarray, sizes: np.ndarray) -> None:
        self.nodes, self.edges = np.asarray(nodes), np.asarray(edges)
        self.ends = np.concatenate([np.zeros((1, 2), int), np.cumsum(sizes, axis=0)])
        self.chosen = np.arange(len(sizes))

    def __len__(self) -> int:
        return len(self.chosen)

    def seen(self, feature: int) -> tuple[list[int], int]:
        """Return the values of a node feature, and the number of nodes of the largest graph."""
        sizes = np.diff(self.ends[:, 0])
        ours = np.zeros(len(sizes), bool)
        ours[self.chosen] = True
        values = np.unique(self.nodes[np.repeat(ours, sizes), feature])
        return values.tolist(), int(sizes[ours].max(initial=0))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice | np.ndarray):
            return self._some(index)
        number = self.chosen[index]
        (node, edge), (last_node, last_edge) = self.ends[number : number + 2]
        return self.nodes[node:last_node], self.edges[edge:last_edge]

    def _some(self, index: Any) -> Self:
        some = copy.copy(self)
        some.chosen = self.chosen[index]
        return some


def flat_molecules(name: str, smiles: Iterable[str]) -> FlatGraphs:
    """Parse molecules to graphs, and cache the graphs of large sets.

    Args:
        name: Str, name of the set.
        smiles: Iterable of SMILES strings.

    Raises:
        As in `from_smiles`.
    """
    smiles = list(smiles)
    content = "\n".join([FEATURE_VERSION, rdkit_version(), *smiles]).encode()
    arrays = cached_samples(len(smiles), name, content, lambda: parse_flat(smiles))
    return FlatGraphs(**arrays)
