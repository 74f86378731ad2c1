"""What models of graphs take, and a look at it."""

from typing import Any

import keras
import numpy as np

from keras_permix.data.graphs.pad import AXES
from keras_permix.layers.graph.graph_embedding import EDGES, ROWS


def graph_inputs(config: dict) -> dict[str, Any]:
    """The Keras inputs of a model of graphs, by the names of `pad_graphs`.

    Args:
        config: With "node_features", "edge_features" and "edges".
    """
    paths = EDGES[config["edges"]]
    features = {"x": config["node_features"], paths: config["edge_features"]}
    inputs = {"attn_bias": keras.Input((None, None), dtype="float32", name="attn_bias")}
    for name, (_, axes) in AXES.items():
        if name not in EDGES.values() or name == paths:
            shape = (*[None] * (axes - 1), features.get(name))
            inputs[name] = keras.Input(shape, dtype="int32", name=name)
    return inputs


def check_graphs(x: Any, inputs: dict[str, Any]) -> None:
    """Check arrays or tensors that are to be a batch of graphs; nothing else is looked at.

    Args:
        x: What a model was given.
        inputs: What it takes, as `graph_inputs` gives it.

    Raises:
        ValueError: for what is no dict, a missing array, one of another shape, or a number that no
            table of the model has.
    """
    if not isinstance(x, dict | np.ndarray) and not keras.ops.is_tensor(x):
        return
    arrays = x if isinstance(x, dict) else {}
    if missing := [name for name in inputs if name not in arrays]:
        raise ValueError(
            f"`x` must be a dict of the arrays {list(inputs)}, as `keras_permix.data.from_smiles` "
            f"and `pad_graphs` give them. Received: {sorted(arrays) or type(x).__name__} "
            f"without {missing}"
        )
    shapes = {name: tuple(np.shape(arrays[name])) for name in inputs}
    batch, nodes = (*shapes["x"][:2], 0, 0)[:2]
    for name, spec in inputs.items():
        if shapes[name] != _shape(name, batch, nodes, shapes[name], spec):
            raise ValueError(
                "The arrays of `x` must be of one number of graphs and nodes, and have the "
                "features that the model takes. "
                f"Received: {name} of shape {shapes[name]}, not {(batch, *spec.shape[1:])}, "
                f"with x of shape {shapes['x']}"
            )
        if not isinstance(arrays[name], np.ndarray):
            continue
        if name != "attn_bias":
            _check_range(name, arrays[name], spec)
        elif np.isnan(arrays[name]).any():
            raise ValueError(
                "`attn_bias` must hold 0, and -inf between nodes that do not hear each other. "
                f"Received: {np.isnan(arrays[name]).sum()} times NaN"
            )


def _shape(name, batch, nodes, given, spec):
    """The shape that an array must have, its hops as they are."""
    if name == "attn_bias":
        return (batch, nodes + 1, nodes + 1)
    node_axes, axes = AXES[name]
    rest = given[1 + node_axes : -1] if name == "edge_input" else ()
    return (batch, *(nodes,) * node_axes, *rest, *spec.shape[-1:] * (axes > node_axes))


def _check_range(name, array, spec):
    """Check that numbers are rows of the model's tables."""
    one_table = name in ("in_degree", "out_degree", "spatial_pos")
    most = ROWS - 1 if one_table else ROWS * (spec.shape[-1] or 0)  # and a row for padding
    if (
        not np.issubdtype(array.dtype, np.integer)
        or not 0 <= array.min(initial=0) <= array.max(initial=0) <= most
    ):
        raise ValueError(
            f"`{name}` must hold integers of 0 … {most}, 0 for padding. "
            f"Received: {name} from {array.min()} to {array.max()}, {array.dtype}"
        )
