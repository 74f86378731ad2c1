"""Parse molecules in SMILES to graphs of atoms and bonds."""

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from keras_permix.data.cached import cached_arrays
from keras_permix.data.graphs.preprocess import batch_graphs
from keras_permix.utils.checks import import_extra

FLAT = ("nodes", "edges", "sizes")  # the arrays of `FlatGraphs`
AT_ONCE = 10_000  # molecules
MAX_ATOMS = 512  # memory grows with its square
FEATURE_VERSION = "2"  # increase it if the same SMILES give other arrays


class Feature(NamedTuple):
    """Describe a feature of an atom or bond: the index of a value in `known`, else its length."""

    method: str  # of RDKit, returns the value
    known: Any  # values, or names of an enumeration
    names: str | None = None  # RDKit's enumeration


ATOM_FEATURES = (
    Feature("GetAtomicNum", range(1, 119)),
    Feature(
        "GetChiralTag",
        ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW", "CHI_OTHER"),
        "ChiralType",
    ),
    Feature("GetTotalDegree", range(11)),
    Feature("GetFormalCharge", range(-5, 6)),
    Feature("GetTotalNumHs", range(9)),
    Feature("GetNumRadicalElectrons", range(5)),
    Feature("GetHybridization", ("SP", "SP2", "SP3", "SP3D", "SP3D2"), "HybridizationType"),
    Feature("GetIsAromatic", (False, True)),
    Feature("IsInRing", (False, True)),
)
ATOMIC_NUMBER = 0  # index of this feature, whose values count from 1
BOND_FEATURES = (
    Feature("GetBondType", ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC"), "BondType"),
    Feature(
        "GetStereo",
        ("STEREONONE", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS", "STEREOANY"),
        "BondStereo",
    ),
    Feature("GetIsConjugated", (False, True)),
)


def from_smiles(
    smiles: Iterable[str],
    *,
    nodes: int | None = None,
    hops: int | None = None,
    max_distance: int = 20,
    max_atoms: int = MAX_ATOMS,
) -> dict[str, np.ndarray]:
    """Turn molecules into one batch of graphs, as `Graphormer` takes them.

    Nodes are the atoms without implicit hydrogens. They are sorted by RDKit's canonical ranks, so
    that every SMILES of a molecule gives the same arrays. Features are those of the Open Graph
    Benchmark:

    - atoms: atomic number, chirality, degree, formal charge, hydrogens, radical electrons,
      hybridization, whether aromatic, whether in a ring;
    - bonds: type, stereo, whether conjugated.

    Args:
        smiles: Iterable of str.
        nodes, hops, max_distance: As in `pad_graphs`.
        max_atoms: Int, largest number of atoms of a molecule, without implicit hydrogens. Memory
            grows with its square. Default: 512.

    Returns:
        A dict of arrays as `pad_graphs` returns it, without "y".

    Raises:
        ImportError: If the package rdkit (extra `graph`) is not installed.
        TypeError: If `smiles` is not a list of strings.
        ValueError: If there are no SMILES, one is not valid, a molecule has more than `max_atoms`
            atoms, or `nodes` is smaller than a molecule.

    Example:
        >>> from keras_permix.data import from_smiles
        >>> ethanol = from_smiles(["CCO"])
        >>> ethanol["spatial_pos"][0].tolist()
        [[1, 3, 2], [3, 1, 2], [2, 2, 1]]

    Reference: Hu et al., "Open Graph Benchmark", 2020, and its code, `ogb/utils/features.py`.
    """
    graphs = parse_smiles(smiles, max_atoms)
    if not graphs:
        raise ValueError("`smiles` must contain a molecule. Received: smiles=[]")
    return batch_graphs(graphs, nodes, hops, max_distance)


class FlatGraphs:
    """Hold graphs as a sequence of pairs, the `nodes` and `edges` of `preprocess_graph`.

    `nodes` and `edges` are arrays of those of all graphs, and `sizes`, `(graphs, 2)`, are their
    numbers in each graph.
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
        """Return the values of a node feature in chosen graphs, and the nodes of the largest."""
        is_chosen = np.isin(np.arange(len(self)), chosen)
        values = np.unique(self.nodes[np.repeat(is_chosen, self.sizes[:, 0]), feature])
        return values.tolist(), int(self.sizes[chosen, 0].max(initial=0))


def cached_molecules(name: str, smiles: Iterable[str]) -> FlatGraphs:
    """Parse molecules as `parse_smiles` does, and cache the graphs of large sets."""
    smiles, version = list(smiles), _rdkit()[1].rdkitVersion  # features depend on it
    content = "\n".join([FEATURE_VERSION, version, *smiles]).encode()
    arrays = cached_arrays(name, content, lambda: _parse_flat(smiles, MAX_ATOMS), len(smiles))
    return FlatGraphs(**arrays)


def parse_smiles(smiles: Iterable[str], max_atoms: int = MAX_ATOMS) -> FlatGraphs:
    """Parse molecules to graphs as from `check_graph`; raise errors as `from_smiles`."""
    return FlatGraphs(**_parse_flat(smiles, max_atoms))


def _parse_flat(smiles, max_atoms):
    """Parse molecules to the arrays of `FlatGraphs`."""
    if isinstance(smiles, str):
        raise TypeError(f"`smiles` must be a list of strings. Received: smiles={smiles!r}")
    chem, base = _rdkit()
    numbered, parts = enumerate(smiles), []
    with base.BlockLogs():
        # Lists of Python numbers take many times the memory of arrays.
        while some := list(itertools.islice(numbered, AT_ONCE)):
            parts.append(_parse(chem, some, max_atoms))
    parts = parts or [_parse(chem, [], max_atoms)]
    return {name: np.concatenate(arrays) for name, *arrays in zip(FLAT, *parts, strict=True)}


def _parse(chem, numbered, max_atoms):
    """Parse pairs of position and SMILES to the arrays of `FlatGraphs`."""
    atom_features = _lookups(chem.Atom, ATOM_FEATURES, chem)
    bond_features = _lookups(chem.Bond, BOND_FEATURES, chem)
    # Flat lists, because a list per atom is slow.
    atoms, bonds, sizes = [], [], []
    for position, text in numbered:
        molecule = _read(chem, text, position, max_atoms)
        for atom in molecule.GetAtoms():
            atoms += [table.get(method(atom), len(table)) for method, table in atom_features]
        for bond in molecule.GetBonds():
            bonds += bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            bonds += [table.get(method(bond), len(table)) for method, table in bond_features]
        sizes.append((molecule.GetNumAtoms(), molecule.GetNumBonds()))
    nodes = np.array(atoms, "uint16").reshape(-1, len(ATOM_FEATURES))
    edges = np.array(bonds, "uint16").reshape(-1, 2 + len(BOND_FEATURES))
    return nodes, edges, np.array(sizes, int).reshape(-1, 2)


def _lookups(kind, features, chem):
    """Return a method of atoms or bonds, and a dict from its values to indices, per feature."""
    found = []
    for method, known, names in features:
        values = [getattr(chem, names).names[name] for name in known] if names else known
        found.append((getattr(kind, method), {value: n for n, value in enumerate(values)}))
    return found


def _read(chem, text, position, max_atoms):
    """Return the molecule of a SMILES, in canonical form."""
    molecule = chem.MolFromSmiles(text)
    if molecule is None or not molecule.GetNumAtoms():
        rule = f"`smiles` must be valid SMILES{_problem(chem, text)}"
        raise ValueError(f"{rule}. Received: smiles[{position}]={text!r}")
    if molecule.GetNumAtoms() > max_atoms:
        found = f"smiles[{position}] with {molecule.GetNumAtoms()} atoms"
        rule = f"`smiles` must have at most {max_atoms} atoms (`max_atoms` of `from_smiles`)"
        raise ValueError(f"{rule}. Received: {found}")
    for atom in molecule.GetAtoms():
        atom.SetAtomMapNum(0)
    # Atoms, bonds and chiral tags depend on the SMILES; the canonical one makes them unique.
    molecule = chem.MolFromSmiles(chem.MolToSmiles(molecule)) or molecule
    ranks = chem.CanonicalRankAtoms(molecule, breakTies=True, includeChirality=True)
    return chem.RenumberAtoms(molecule, sorted(range(len(ranks)), key=ranks.__getitem__))


def _problem(chem, text):
    """Return RDKit's complaint about a molecule whose SMILES is well-formed."""
    molecule = chem.MolFromSmiles(text, sanitize=False)
    problems = () if molecule is None else chem.DetectChemistryProblems(molecule)
    return "".join(f" ({problem.Message()})" for problem in problems[:1])


def element_symbols(numbers: Iterable[int]) -> str:
    """Format atomic numbers as symbols separated by commas; "*" is an unknown element."""
    table = _rdkit()[0].GetPeriodicTable()
    last = len(ATOM_FEATURES[ATOMIC_NUMBER].known)
    return ", ".join(table.GetElementSymbol(int(n)) if n <= last else "*" for n in numbers)


def _rdkit():
    """Return the modules `Chem` and `rdBase` of RDKit."""
    import_extra("rdkit", "graph", "Reading SMILES")
    from rdkit import Chem, rdBase

    return Chem, rdBase
