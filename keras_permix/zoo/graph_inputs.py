"""Make and check the inputs of models of graphs."""

import warnings
from typing import Any

import keras
import numpy as np

from keras_permix.data.graphs.pad import AXES
from keras_permix.data.graphs.smiles import ATOMIC_NUMBER, element_symbols
from keras_permix.layers.graph.graph_embedding import EDGES, ROWS
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
    shapes = {name: tuple(np.shape(array)) for name, array in arrays.items()}
    batch, nodes = (*shapes.get("x", ()), 0, 0)[:2]
    for name, spec in inputs.items():
        found = shapes.get(name)
        wanted = _shape(name, batch, nodes, found or (), spec)
        if found != wanted:
            raise ValueError(
                f"`x` must be a dict of the arrays {list(inputs)}, as returned by "
                "`keras_permix.data.from_smiles` and `pad_graphs`, with the model's numbers of "
                f"features. Received: {name} of shape {found}, not {wanted}, with x of shape "
                f"{shapes.get('x')}"
            )
        if isinstance(arrays[name], np.ndarray) and name != "attn_bias":
            _check_values(name, arrays[name], spec)


def _shape(name, batch, nodes, given, spec):
    """Return the shape that an array must have, with any number of hops."""
    if name == "attn_bias":
        return (batch, nodes + 1, nodes + 1)
    node_axes, axes = AXES[name]
    rest = given[1 + node_axes : -1] if name == "edge_input" else ()
    return (batch, *(nodes,) * node_axes, *rest, *spec.shape[-1:] * (axes > node_axes))


def _check_values(name, array, spec):
    """Check that integers index the model's tables."""
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
