"""Hold many graphs in two arrays, one of all nodes and one of all edges."""

from collections.abc import Iterable

import numpy as np

from keras_permix.data.cached import cached_arrays
from keras_permix.data.graphs.smiles import FEATURE_VERSION, parse_flat, rdkit_version


class FlatGraphs:
    """Hold graphs as a sequence of pairs, the `nodes` and `edges` of `preprocess_graph`.

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
        self.nodes, self.edges, self.sizes = np.asarray(nodes), np.asarray(edges), sizes
        self.ends = np.cumsum(sizes, axis=0)

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        (nodes, edges), (last_node, last_edge) = self.sizes[index], self.ends[index]
        return self.nodes[last_node - nodes : last_node], self.edges[last_edge - edges : last_edge]

    def seen(self, feature: int, chosen: np.ndarray) -> tuple[list[int], int]:
        """Return the values of a node feature in some graphs, and the nodes of the largest.

        Args:
            feature: Int, index of the feature.
            chosen: Int array, indices of the graphs.
        """
        is_chosen = np.isin(np.arange(len(self)), chosen)
        values = np.unique(self.nodes[np.repeat(is_chosen, self.sizes[:, 0]), feature])
        return values.tolist(), int(self.sizes[chosen, 0].max(initial=0))


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
    arrays = cached_arrays(name, content, lambda: parse_flat(smiles), count=len(smiles))
    return FlatGraphs(**arrays)
