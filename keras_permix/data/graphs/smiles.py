"""Molecules, written as SMILES, as graphs of atoms and bonds."""

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from keras_permix.data.graphs.preprocess import batch_graphs

FLAT = ("nodes", "edges", "sizes")  # the arrays of `FlatGraphs`
AT_ONCE = 10_000  # molecules
MAX_ATOMS = 512  # of a molecule; arrays grow by the square of it, and more with `hops`
FEATURE_VERSION = "2"  # Another one whenever the same SMILES give other arrays.


class Feature(NamedTuple):
    """What RDKit's `method` says of an atom or bond: the index of its answer in `known`.

    The names in `known` are of RDKit's enumeration `names`. Any other answer has the last index,
    which is the length of `known`.
    """

    method: str
    known: Any
    names: str | None = None


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
ATOMIC_NUMBER = 0  # which of them it is; it counts from 1, and its index from 0
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

    Nodes are the atoms that a SMILES writes, without the hydrogens that it implies. They are sorted
    by RDKit's canonical ranks, so that every SMILES of a molecule gives the same arrays.
    Features are those of the Open Graph Benchmark, of PCQM4M among others. Of an atom: atomic
    number, chirality, degree, formal charge, number of hydrogens, number of radical electrons,
    hybridization, whether it is aromatic, whether it is in a ring. Of a bond: its type, stereo,
    whether it is conjugated.

    Args:
        smiles: Strings.
        nodes, hops, max_distance: As in `pad_graphs`.
        max_atoms: Largest number of atoms of a molecule, without implied hydrogens. Memory grows
            by its square.

    Returns:
        A dict of arrays as `pad_graphs` gives it, without "y".

    Raises:
        ImportError: without the package rdkit, which the extra `graph` brings.
        TypeError: for what is no list of strings.
        ValueError: for no SMILES, one that is not valid, a molecule of more than `max_atoms` atoms,
            or `nodes` smaller than a molecule.

    Example:

    >>> from keras_permix.data import from_smiles
    >>> ethanol = from_smiles(["CCO"])
    >>> ethanol["spatial_pos"][0].tolist()
    [[1, 3, 2], [3, 1, 2], [2, 2, 1]]

    Reference: Hu et al., "Open Graph Benchmark", 2020, and its code, `ogb/utils/features.py`.
    """
    graphs = parse_smiles(smiles, max_atoms)
    largest = max((len(atoms) for atoms, _ in graphs), default=0)
    if not graphs or nodes is not None and nodes < largest:
        raise ValueError(
            "`smiles` must hold at least one molecule, and `nodes` be no less than the largest "
            f"has. Received: {len(graphs)} molecules of up to {largest} atoms, nodes={nodes}"
        )
    return batch_graphs(graphs, nodes, hops, max_distance)


def parse_smiles(
    smiles: Iterable[str], max_atoms: int = MAX_ATOMS
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The atoms and bonds of molecules, as `check_graph` gives them; raises as `from_smiles`."""
    flat = parse_flat(smiles, max_atoms)
    ends_of_nodes, ends_of_edges = np.cumsum(flat["sizes"], axis=0).T
    nodes = np.split(flat["nodes"], ends_of_nodes)[:-1]
    return list(zip(nodes, np.split(flat["edges"], ends_of_edges)[:-1], strict=True))


def parse_flat(smiles: Iterable[str], max_atoms: int = MAX_ATOMS) -> dict[str, np.ndarray]:
    """Molecules in the arrays of `FlatGraphs`; raises as `from_smiles`."""
    if isinstance(smiles, str):
        raise TypeError(f"`smiles` must be a list of strings. Received: smiles={smiles!r}")
    chem, base = _rdkit()
    numbered, parts = enumerate(smiles), []
    with base.BlockLogs():
        # Lists of RDKit's answers take many times the memory of the arrays that they become.
        while some := list(itertools.islice(numbered, AT_ONCE)):
            parts.append(_parse(chem, some, max_atoms))
    parts = parts or [_parse(chem, [], max_atoms)]
    return {name: np.concatenate([part[name] for part in parts]) for name in FLAT}


def _parse(chem, numbered, max_atoms):
    """The arrays of some molecules, each with its position."""
    atom_methods = [getattr(chem.Atom, feature.method) for feature in ATOM_FEATURES]
    bond_methods = [getattr(chem.Bond, feature.method) for feature in BOND_FEATURES]
    # Flat: a list for each atom would take its time.
    atoms: list[int] = []
    bonds: list[int] = []
    ends: list[int] = []
    sizes: list[tuple[int, int]] = []
    for position, text in numbered:
        molecule = _read(chem, text, position, max_atoms)
        count = molecule.GetNumAtoms(), molecule.GetNumBonds()
        for atom in map(molecule.GetAtomWithIdx, range(count[0])):
            atoms += [method(atom) for method in atom_methods]
        for bond in map(molecule.GetBondWithIdx, range(count[1])):
            ends += bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            bonds += [method(bond) for method in bond_methods]
        sizes.append(count)
    nodes, edges = _indices(atoms, ATOM_FEATURES, chem), _indices(bonds, BOND_FEATURES, chem)
    edges = np.hstack([np.array(ends, "uint16").reshape(-1, 2), edges])
    return dict(zip(FLAT, (nodes, edges, np.array(sizes, int).reshape(-1, 2)), strict=True))


def _read(chem, text, position, max_atoms):
    """The molecule of a SMILES."""
    if not isinstance(text, str):
        raise TypeError(f"`smiles` must be strings. Received: smiles[{position}]={text!r}")
    molecule = chem.MolFromSmiles(text)
    if molecule is None or not molecule.GetNumAtoms():
        raise ValueError(
            f"`smiles` must be SMILES of molecules{_why_not(chem, text)}. "
            f"Received: smiles[{position}]={text!r}"
        )
    if molecule.GetNumAtoms() > max_atoms:
        raise ValueError(
            f"`smiles` must be molecules of at most {max_atoms} atoms. Set `max_atoms` for larger "
            f"ones. Received: smiles[{position}] with {molecule.GetNumAtoms()} atoms"
        )
    return _canonical(chem, molecule)


def _canonical(chem, molecule):
    """The same molecule, its atoms, bonds and chiral tags as of no SMILES but the canonical one."""
    for atom in molecule.GetAtoms():
        atom.SetAtomMapNum(0)
    molecule = chem.MolFromSmiles(chem.MolToSmiles(molecule)) or molecule
    ranks = chem.CanonicalRankAtoms(molecule, breakTies=True, includeChirality=True)
    return chem.RenumberAtoms(molecule, sorted(range(len(ranks)), key=ranks.__getitem__))


def _why_not(chem, text):
    """What RDKit has against a molecule that is written well."""
    molecule = chem.MolFromSmiles(text, sanitize=False)
    try:
        if molecule is not None:
            chem.SanitizeMol(molecule)
    except ValueError as error:
        return f" ({error})"
    return ""


def _indices(answers, features, chem):
    """The index of each answer, uint16 `(atoms or bonds, features)`."""
    answers = np.array(answers, "int16").reshape(-1, len(features))
    columns = []
    for feature, column in zip(features, answers.T, strict=True):
        known = feature.known
        if feature.names:
            known = [getattr(chem, feature.names).names[name] for name in known]
        found = column[:, None] == np.array(known, "int16")
        columns.append(np.where(found.any(1), found.argmax(1), len(known)))
    return np.stack(columns, axis=1).astype("uint16")


def element_symbols(numbers: Iterable[int]) -> str:
    """The symbols of atomic numbers, with commas between them; "*" is no element."""
    table = _rdkit()[0].GetPeriodicTable()
    last = len(ATOM_FEATURES[ATOMIC_NUMBER].known)
    return ", ".join(table.GetElementSymbol(int(n)) if n <= last else "*" for n in numbers)


def rdkit_version() -> str:
    """The version of RDKit, on which features depend; raises an ImportError without it."""
    return _rdkit()[1].rdkitVersion


def _rdkit():
    """RDKit's chemistry, and the module that says its version and keeps it from writing."""
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise ImportError(
            'SMILES are read by RDKit: pip install "keras_permix[graph]". '
            "Received: an environment without the package rdkit"
        ) from error
    return Chem, rdBase
