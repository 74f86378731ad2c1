"""What a model of molecules says of its training: the units of its answers, and its domain."""

import warnings

import numpy as np

from keras_permix.data.graphs.smiles import ATOMIC_NUMBER, element_symbols
from keras_permix.utils.checks import check_integer, check_names
from keras_permix.utils.formatting import counted


def warn_of_other_molecules(model, smiles, x, domain):
    """Warn of molecules that are others than in training.

    Args:
        model: What the model is called.
        smiles: List of str.
        x: Their array of features, `(molecules, nodes, features)`.
        domain: As `check_domain` gives it.
    """
    atoms = x[..., ATOMIC_NUMBER]
    real = atoms > 0
    known = np.isin(atoms, 1 + np.array(domain["elements"])) | ~real  # 2 + the index
    strange = np.flatnonzero(~known.all(1) | (real.sum(1) > domain["max_atoms"]))
    if len(strange):
        first = strange[0]
        elements = element_symbols(np.unique(atoms[first][real[first]]) - 1)
        warnings.warn(
            f"This {model} was trained on molecules of up to "
            f"{counted(domain['max_atoms'], 'atom')}, of {element_symbols(domain['elements'])}, "
            "implied hydrogens aside: what it answers for others is a guess. "
            f"Received: {len(strange)} of {len(smiles)} beyond that, such as "
            f"{smiles[first][:60]!r} of {counted(real[first].sum(), 'atom')}, of {elements}",
            stacklevel=4,
        )


def check_units(units, targets):
    """Return the names of units, a str or a list of one for each target."""
    if isinstance(units, str):
        return units
    names = list(units) if isinstance(units, list | tuple) else []
    if len(names) != targets or not all(isinstance(unit, str) for unit in names):
        raise ValueError(
            "`target_units` must be a str, or one for each target. "
            f"Received: target_units={units!r}, targets={targets}"
        )
    return names


def check_domain(domain):
    """Return the molecules of a training in plain values, or `None`."""
    if domain is None:
        return None
    try:
        check_names("`domain`", domain, ("elements", "max_atoms"))
        elements = [check_integer("elements", number) for number in domain["elements"]]
        return {"elements": elements, "max_atoms": check_integer("max_atoms", domain["max_atoms"])}
    except (KeyError, TypeError) as error:
        raise ValueError(
            "`domain` must be None, or a dict of `elements`, a list of atomic numbers, and "
            f"`max_atoms`. Received: domain={domain!r}"
        ) from error
