"""Make and check the inputs of models of graphs, and the domain and units of their data."""

import warnings
from typing import Any

import keras
import numpy as np

from keras_permix.data.graphs.pad import AXES
from keras_permix.data.graphs.smiles import ATOMIC_NUMBER, element_symbols
from keras_permix.layers.graph.graph_embedding import EDGES, ROWS
from keras_permix.utils.checks import check_integer, check_names
from keras_permix.utils.formatting import counted


def graph_inputs(config: dict) -> dict[str, Any]:
    """Make the Keras inputs of a model of graphs, with the names of `pad_graphs`."""
    paths = EDGES[config["edges"]]
    features = {"x": config["node_features"], paths: config["edge_features"]}
    inputs = {"attn_bias": keras.Input((None, None), dtype="float32", name="attn_bias")}
    for name, (_, axes) in AXES.items():
        if name not in EDGES.values() or name == paths:
            shape = (*[None] * (axes - 1), features.get(name))
            inputs[name] = keras.Input(shape, dtype="int32", name=name)
    return inputs


def check_graphs(x: Any, inputs: dict[str, Any]) -> None:
    """Check a batch of graphs, if it is a dict, an array or a tensor, against the model's inputs.

    Arrays must have the right shapes, and index the tables of the model.
    """
    if not isinstance(x, dict | np.ndarray) and not keras.ops.is_tensor(x):
        return
    arrays = x if isinstance(x, dict) else {}
    if missing := [name for name in inputs if name not in arrays]:
        raise ValueError(
            f"`x` must be a dict of the arrays {list(inputs)}, as `keras_permix.data.from_smiles` "
            f"and `pad_graphs` return. Received: {sorted(arrays) or type(x).__name__} "
            f"without {missing}"
        )
    shapes = {name: tuple(np.shape(arrays[name])) for name in inputs}
    batch, nodes = (*shapes["x"][:2], 0, 0)[:2]
    for name, spec in inputs.items():
        if shapes[name] != _shape(name, batch, nodes, shapes[name], spec):
            raise ValueError(
                "The arrays of `x` must have the same numbers of graphs and nodes, and the number "
                "of features that the model expects. "
                f"Received: {name} of shape {shapes[name]}, not {(batch, *spec.shape[1:])}, "
                f"with x of shape {shapes['x']}"
            )
        if isinstance(arrays[name], np.ndarray):
            _check_values(name, arrays[name], spec)


def _shape(name, batch, nodes, given, spec):
    """Return the shape that an array must have, with any number of hops."""
    if name == "attn_bias":
        return (batch, nodes + 1, nodes + 1)
    node_axes, axes = AXES[name]
    rest = given[1 + node_axes : -1] if name == "edge_input" else ()
    return (batch, *(nodes,) * node_axes, *rest, *spec.shape[-1:] * (axes > node_axes))


def _check_values(name, array, spec):
    """Check that integers index the model's tables, and that the bias holds no NaN."""
    if name == "attn_bias":
        if np.isnan(array).any():
            raise ValueError(
                "`attn_bias` must contain 0, and -inf between nodes that do not attend to each "
                f"other. Received: {np.isnan(array).sum()} NaN values"
            )
        return
    one_table = name in ("in_degree", "out_degree", "spatial_pos")
    most = ROWS - 1 if one_table else ROWS * (spec.shape[-1] or 0)  # plus a row for padding
    in_range = 0 <= array.min(initial=0) <= array.max(initial=0) <= most
    if not np.issubdtype(array.dtype, np.integer) or not in_range:
        raise ValueError(
            f"`{name}` must contain integers of 0 … {most}, 0 for padding. "
            f"Received: {name} from {array.min()} to {array.max()}, {array.dtype}"
        )


def warn_of_other_molecules(model, smiles, x, domain):
    """Warn of molecules with the features `x`, outside the domain of the training data."""
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
            "not counting implicit hydrogens. Predictions for other molecules are unreliable. "
            f"Received: {len(strange)} of {len(smiles)} such molecules, for example "
            f"{smiles[first][:60]!r} of {counted(real[first].sum(), 'atom')}, of {elements}",
            stacklevel=4,
        )


def check_units(units, targets):
    """Return the names of units, a str or a list with one per target."""
    if isinstance(units, str):
        return units
    names = list(units) if isinstance(units, list | tuple) else []
    if len(names) != targets or not all(isinstance(unit, str) for unit in names):
        raise ValueError(
            "`target_units` must be a str, or a list of one str per target. "
            f"Received: target_units={units!r}, targets={targets}"
        )
    return names


def check_domain(domain):
    """Return the domain of a model in plain values, or `None`."""
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
