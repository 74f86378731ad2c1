"""Make and check the inputs of models of graphs."""

import warnings
from typing import Any

import keras
import numpy as np

from keras_permix.data.graphs.pad import AXES
from keras_permix.data.graphs.smiles import ATOMIC_NUMBER, element_symbols
from keras_permix.layers.graph.graph_embedding import EDGES, ROWS
from keras_permix.utils.formatting import counted
from keras_permix.zoo.arrays import check_indices


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
    """Check that the arrays of graphs have the same nodes, and index the tables of the model."""
    nodes = tuple(x["x"].shape[:2])
    for name, spec in inputs.items():
        extra = name == "attn_bias"  # a node that is connected to all others
        axes = 2 if extra else AXES[name][0]
        wanted = (nodes[0], *[nodes[1] + extra] * axes)
        found = tuple(x[name].shape)
        if found[: 1 + axes] != wanted:
            raise ValueError(f"The shape of `{name}` must begin with {wanted}. Received: {found}")
        if name != "attn_bias" and isinstance(x[name], np.ndarray):
            one_table = name in ("in_degree", "out_degree", "spatial_pos")
            rows = ROWS if one_table else ROWS * spec.shape[-1] + 1  # plus a row for padding
            check_indices(name, x[name], rows)


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
