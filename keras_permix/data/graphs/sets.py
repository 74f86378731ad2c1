"""Load sets of graphs with targets, from SMILES or JSON lines."""

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.data.dataset import Dataset, Source
from keras_permix.data.files import Files, read_parts, read_row
from keras_permix.data.graphs.pad import MAX_HOPS
from keras_permix.data.graphs.pcqm4m import FOLDERS, read_pcqm4m
from keras_permix.data.graphs.preprocess import batch_graphs, check_graph
from keras_permix.data.graphs.smiles import FlatGraphs, cached_molecules, parse_smiles
from keras_permix.data.targets import number_of
from keras_permix.utils.checks import check_positive_or_none
from keras_permix.utils.tables import shown

HARTREE = 27.211386245988  # in eV; CODATA 2018
TEST_FRACTION = 0.1
FILES = {
    "esol": tuple(Files(file, file) for file in ("esol.csv", "delaney-processed.csv")),
    "freesolv": tuple(Files(file, file) for file in ("freesolv.csv", "SAMPL.csv")),
    "lipophilicity": tuple(
        Files(file, file) for file in ("lipophilicity.csv", "Lipophilicity.csv")
    ),
    "qm9": (Files("qm9.csv.xz", "qm9.csv.xz"),),
}
# set -> target -> column of the file, factor, and unit after it is applied
TARGETS = {
    "esol": {"log_solubility": ("measured log solubility in mols per litre", 1.0, "log10(mol/l)")},
    "freesolv": {"hydration_energy": ("expt", 1.0, "kcal/mol")},
    "lipophilicity": {"log_distribution": ("exp", 1.0, "log10")},
    "qm9": {
        "gap": ("HOMO_LUMO_gap_au", HARTREE, "eV"),
        "homo": ("HOMO_au", HARTREE, "eV"),
        "lumo": ("LUMO_au", HARTREE, "eV"),
        "dipole": ("Dipole_debye", 1.0, "D"),
        "polarizability": ("Polarizability_bohr3", 1.0, "bohr³"),
    },
    **{name: {"gap": ("homolumogap", 1.0, "eV")} for name in FOLDERS},
}


class GraphSource(Source):
    """Pad graphs with targets batch by batch, for `Pipeline`.

    `read` returns inputs as from `pad_graphs`, and float32 targets `(batch, targets)`.

    Args:
        graphs: List of pairs of int arrays, the `nodes` and `edges` of `preprocess_graph`.
        targets: Float array `(graphs, targets)`.
        nodes, hops: Int, sizes of padded batches, as in `pad_graphs`. Default: `None`.

    Example:
        >>> import numpy as np
        >>> from keras_permix.data import GraphSource
        >>> water = np.array([[8], [1], [1]]), np.array([[0, 1, 0], [0, 2, 0]])
        >>> inputs, targets = GraphSource([water], [[0.5]], nodes=4).read([0])
        >>> inputs["x"].shape, targets.tolist()
        ((1, 4, 1), [[0.5]])
    """

    def __init__(
        self,
        graphs: Any,
        targets: Any,
        nodes: int | None = None,
        hops: int | None = None,
    ) -> None:
        super().__init__(len(graphs), np.asarray(targets, "float32"))
        whole = isinstance(graphs, FlatGraphs)
        self.graphs = graphs if whole else [check_graph(*graph) for graph in graphs]
        self.nodes, self.hops = nodes, check_positive_or_none("hops", hops)

    def of_one_shape(self) -> Self:
        """Return a source that pads all batches to the largest graph and its longest path."""
        one = copy.copy(self)
        one.nodes = self.nodes or max(len(self.graphs[index][0]) for index in self.chosen)
        one.hops = self.hops or min(max(one.nodes - 1, 1), MAX_HOPS)
        return one

    def _inputs(self, chosen):
        return batch_graphs([self.graphs[i] for i in chosen], self.nodes, self.hops)


def load_graphs(
    name: str,
    data_dir: StrPath | None = None,
    *,
    labels: Sequence[str] | None = None,
    hops: int | None = None,
    split_seed: int = 0,
    **files: Any,
) -> Dataset:
    """Load a set of graphs with targets.

    Known sets and their targets:

    - `"qm9"`: 130,831 molecules of up to 9 heavy atoms, with "gap" between HOMO and LUMO, "homo",
      "lumo" (eV), "dipole" (debye) and "polarizability" (bohr³);
    - `"esol"`: 1,128 molecules with "log_solubility" in water (log10 of mol/l);
    - `"freesolv"`: 642 molecules with "hydration_energy" (kcal/mol);
    - `"lipophilicity"`: 4,200 molecules with "log_distribution" between octanol and water (log10);
    - `"pcqm4m"`, `"pcqm4m_v2"`: 3.8 and 3.7 million molecules of OGB-LSC with "gap" (eV), from the
      unpacked archives. Their validation part is used for testing.

    QM9 and the sets of MoleculeNet (ESOL, FreeSolv, Lipophilicity) have no official split: a random
    10 %, set by `split_seed`, is for testing.

    Custom sets are JSON lines, CSV or TSV files. A row holds a molecule in "smiles" or, in JSON
    lines, a graph in "nodes", a list of node features, and "edges", which lists each edge once as
    `[node, node, feature, …]`. Features are integers from 0 to 509. Each name in `labels` is a
    column with a number.

    Sets of at least 10,000 molecules are parsed once and cached.

    Args:
        name: Str, name of the set.
        data_dir: Folder of the files. `None`: the folder in `KERAS_PERMIX_DATA` for known sets,
            else the current folder.
        labels: List of target names. Default: "gap"; the target above of other known
            sets; "y" of custom sets.
        hops: Int, edges to keep per path, as in `pad_graphs`. A model needs at most its `max_hops`.
            Default: the longest possible path, at most 20.
        split_seed: Int ≥ 0, seed of that split. Default: 0.
        **files: `train`, `test` and `splits` of a custom set, as in `listed_images`.

    Returns:
        A `Dataset` of parts `(GraphSource, None)`, padded to the largest graph.

    Raises:
        ImportError: If the set holds SMILES and rdkit (extra `graph`) is not installed.
        ValueError: If a file is damaged, or a row is not a valid graph or lacks a target.
        FileNotFoundError: If a file is missing.

    Example:
        >>> from pathlib import Path
        >>> from keras_permix.data import load_graphs
        >>> size = Path("mine.jsonl").write_text('{"smiles": "CCO", "y": 1.5}')
        >>> data = load_graphs("mine", train="mine.jsonl", test="mine.jsonl")
        >>> inputs, targets = data.train[0].read([0])
        >>> inputs["x"].shape, targets.tolist(), data.labels
        ((1, 3, 9), [[1.5]], ('y',))

    Reference: [Ramakrishnan et al., 2014](https://doi.org/10.1038/sdata.2014.22) for QM9.
    [Wu et al., "MoleculeNet", 2018](https://doi.org/10.1039/C7SC02664A) for the other small sets.
    [Hu et al., "OGB-LSC", 2021](https://arxiv.org/abs/2103.09430) for PCQM4M.
    """
    check_positive_or_none("hops", hops)
    own = bool(files) or name not in TARGETS
    columns = {} if own else TARGETS[name]
    labels = tuple(labels or list(columns)[:1] or ("y",))
    if own or name in FILES:
        train, test = read_parts(name, FILES, data_dir, **files)
    else:
        train, test = read_pcqm4m(name, data_dir)
    is_split = own or name not in FILES
    rows = [*train, *test] if is_split else train
    if all("smiles" in row for row in rows):
        graphs: Any = cached_molecules(name, (str(row["smiles"]).strip() for row in rows))
    else:
        graphs = read_graphs(rows)
    taken = [columns.get(y, (y, 1.0))[:2] for y in labels]
    targets = [[factor * number_of(row, y) for y, factor in taken] for row in rows]
    source = GraphSource(graphs, targets, hops=hops).of_one_shape()
    count = len(rows)
    order = np.arange(count) if is_split else np.random.default_rng(split_seed).permutation(count)
    cut = len(train) if is_split else count - round(TEST_FRACTION * count)
    return Dataset(name, (source[order[:cut]], None), (source[order[cut:]], None), labels)


def read_graphs(rows: list[dict], edge_features: int = 0) -> Any:
    """Read the graphs of rows as in `load_graphs`, a sequence of pairs as from `check_graph`.

    Graphs get `edge_features` features per edge if none of them has an edge.
    """
    if all("smiles" in row for row in rows):
        return parse_smiles(str(row["smiles"]).strip() for row in rows)
    edges = (edge for row in rows for edge in row.get("edges") or () if isinstance(edge, list))
    edge_features = max((len(edge) - 2 for edge in edges), default=0) or edge_features
    rule = "A graph must have `nodes` and `edges`, or every row a molecule in `smiles`."

    def read(row):
        return check_graph(row["nodes"], row["edges"], edge_features)

    graphs = [read_row(row, read, rule) for row in rows]
    for row, (nodes, _) in zip(rows, graphs, strict=True):
        if nodes.shape[1] != graphs[0][0].shape[1]:
            raise ValueError(f"All nodes must have the same features. Received: {shown(row)}")
    return graphs
