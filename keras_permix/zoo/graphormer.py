"""Define Graphormer, a Transformer on graphs, with attention or sorting."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import keras
import numpy as np

from keras_permix._typing import MixerSpecs
from keras_permix.data.graphs.preprocess import batch_graphs
from keras_permix.data.graphs.smiles import ATOM_FEATURES, BOND_FEATURES, from_smiles
from keras_permix.layers.graph.graph_embedding import EDGES, GraphEmbedding, GraphormerBias
from keras_permix.layers.graph.graphormer_block import MIXERS, GraphormerBlock, initial_stddev
from keras_permix.layers.mixers import mixer_at
from keras_permix.layers.parts.wrappers import Dense, make_dropout
from keras_permix.utils.checks import check_named, check_names, plain
from keras_permix.zoo.arrays import check_texts
from keras_permix.zoo.classifier import collect_arguments, pool_tokens
from keras_permix.zoo.graph_inputs import check_graphs, graph_inputs, warn_of_other_molecules
from keras_permix.zoo.model import ZooModel
from keras_permix.zoo.outputs import check_scale
from keras_permix.zoo.registry import zoo_model

HOP_TABLES = 128  # number in the released code
NODES = 8  # largest number of nodes of random graphs


@zoo_model
class Graphormer(ZooModel):
    """Predict numbers for graphs with a Transformer and a choice of token mixer.

    The input is a dict of padded arrays from `keras_permix.data.from_smiles` or `pad_graphs`, or a
    list of SMILES. Arrays that the model does not need are ignored. The output is float32 numbers
    `(batch, targets)`, read from a virtual node that is connected to all others.

    Args:
        targets: Numbers to predict for each graph.
        node_features: Features of a node; 9 for molecules.
        edge_features: Features of an edge; 3 for molecules.
        hidden_dim: Channels per token.
        num_layers: Number of blocks.
        num_heads: Number of attention heads. It must divide `hidden_dim`.
        mlp_dim: Hidden width of the blocks' channel mixers.
        mixer: "attention", or "slice_sort", which has no queries and keys. A dict has that `"name"`
            and, for "slice_sort", `"mode"` ("paper" or "release") and `"order"`; see
            `GraphormerBlock`. A list has one mixer per block. `None`: the default of the class.
        edges: "multi_hop" (all edges on the shortest path between two nodes) or "single" (the edge
            between them); see `GraphormerBias`.
        max_hops: Number of edges of a path that the model reads, from its start.
        dropout: Rate of the dropouts after the mixers and after the channel mixers.
        attention_dropout: Rate of the dropout on the maps.
        input_dropout: Rate of the dropout on the embedded nodes.
        mean, std: Mean and standard deviation of the training targets: one number, or one per
            target. The model predicts `mean + std * output`, in the units of the targets.
        target_units: Unit of the targets, such as "eV": a str, or one per target.
        domain: The molecules of the training data: a dict of `"elements"`, their atomic numbers,
            and `"max_atoms"`, the largest number of atoms in a SMILES. The model warns of SMILES
            outside it. `None`: no warnings.
        keep_unused_params: Keep 128 matrices of hops, as the released model does. The parameter
            counts of the papers include them.
        dtype: Dtype or dtype policy of every layer, such as "mixed_bfloat16".

    Raises:
        ValueError: for an unknown argument or mixer, or a value out of range.

    Example:
        >>> from keras_permix.data import from_smiles
        >>> from keras_permix.zoo import SliceGraphormer
        >>> model = SliceGraphormer(hidden_dim=32, num_layers=2, num_heads=4, mlp_dim=32)
        >>> model.predict(["CCO", "c1ccccc1"], verbose=0).shape
        (2, 1)
        >>> tuple(model(from_smiles(["CCO"])).shape)
        (1, 1)

    Reference: Ying et al., "Graphormer", 2021, arXiv:2106.05234, and the released code. The default
    arguments are those for PCQM4M.
    """

    task = "graph_regression"
    predicts = "values"
    default_mixer = "attention"

    def __init__(
        self,
        targets: int = 1,
        node_features: int = len(ATOM_FEATURES),
        edge_features: int = len(BOND_FEATURES),
        hidden_dim: int = 768,
        num_layers: int = 12,
        num_heads: int = 32,
        mlp_dim: int = 768,
        mixer: MixerSpecs | None = None,
        edges: str = "multi_hop",
        max_hops: int = 5,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        input_dropout: float = 0.1,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        target_units: str | Sequence[str] = "",
        domain: dict[str, Any] | None = None,
        keep_unused_params: bool = False,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        config = collect_arguments(
            locals(), partial(check_named, "mixer", choices=MIXERS), edges=EDGES
        )
        units = [target_units] * targets if isinstance(target_units, str) else target_units
        if len(units) != targets:
            rule = f"`target_units` must name all {targets} targets"
            raise ValueError(f"{rule}. Received: {target_units=}")
        if domain is not None:
            check_names("`domain`", domain, ("elements", "max_atoms"))
        config |= {
            **check_scale({"mean": mean, "std": std}, targets),
            "target_units": target_units if isinstance(target_units, str) else list(target_units),
            "domain": plain(domain),
        }
        graphs, num_heads = graph_inputs(config), config["num_heads"]
        hop_tables = max(HOP_TABLES, max_hops) if keep_unused_params else None
        bias = GraphormerBias(
            num_heads, edges, max_hops, hop_tables, dtype=dtype, name="graphormer_bias"
        )(graphs)
        x = GraphEmbedding(hidden_dim, dtype=dtype, name="graph_embedding")(graphs)
        x = make_dropout(input_dropout, dtype=dtype, name="input_dropout")(x)
        shared = dict(
            dropout=dropout, attention_dropout=attention_dropout, num_layers=num_layers, dtype=dtype
        )
        feature_maps = []
        for index in range(num_layers):
            spec, name = mixer_at(config["mixer"], index), f"block_{index}"
            block = GraphormerBlock(
                num_heads, mlp_dim, spec, layer_index=index, **shared, name=name
            )
            x = block(x, bias)
            feature_maps.append(x)
        x = keras.layers.LayerNormalization(epsilon=1e-5, dtype=dtype, name="head_norm")(x)
        normal = keras.initializers.RandomNormal(stddev=initial_stddev(num_layers))
        head = Dense(config["targets"], kernel_initializer=normal, dtype=dtype, name="head")
        scale = keras.layers.Rescaling(
            config["std"], config["mean"], dtype="float32", name="values"
        )
        values = scale(head(pool_tokens(x, "cls")))
        super().__init__(graphs, values, feature_maps, config, dtype=dtype, **kwargs)

    @classmethod
    def keep_arguments(
        cls, config: dict[str, Any], changes: dict[str, Any], new_head: bool
    ) -> dict[str, Any]:
        """Reset mean, standard deviation and units for other targets."""
        same = not new_head and changes.get("targets", config["targets"]) == config["targets"]
        return {} if same else {"mean": 0.0, "std": 1.0, "target_units": ""}

    def call(
        self, inputs: Any, training: bool | None = None, mask: Any = None, **kwargs: Any
    ) -> Any:
        return super().call(self._select_inputs(inputs), training=training, mask=mask, **kwargs)

    def convert_inputs(self, x: Any) -> Any:
        return self._select_inputs(super().convert_inputs(x))

    def _select_inputs(self, inputs):
        """Select the arrays that the model takes; Keras would match them by order."""
        if not isinstance(inputs, dict):
            return inputs
        return {name: inputs[name] for name in self.input if name in inputs}

    def encode(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
        """Convert SMILES to one batch of arrays; see `keras_permix.data.from_smiles`.

        All molecules are padded to the largest, so convert many in several batches. The model warns
        of molecules outside its `domain`.
        """
        config = self.get_config()
        smiles = check_texts(texts, paired=False, name="smiles")
        arrays = self._select_inputs(from_smiles(smiles, hops=config["max_hops"]))
        if config["domain"]:
            warn_of_other_molecules(type(self).__name__, smiles, arrays["x"], config["domain"])
        return arrays

    def check_inputs(self, x: Any) -> None:
        if isinstance(x, dict):
            self._assert_input_compatibility(x)  # Keras omits this in compiled steps
            check_graphs(x, self.input)

    def make_inputs(self, seed: int, batch: int) -> dict[str, np.ndarray]:
        return self._padded_inputs(seed, batch, NODES)

    def _example(self, batch, seed=0):
        domain = self.get_config()["domain"] or {"max_atoms": 0}
        return self._padded_inputs(seed, batch, max(NODES, domain["max_atoms"]))

    def _padded_inputs(self, seed, batch, nodes):
        config, rng = self.get_config(), np.random.default_rng(seed)
        graphs = [_random_graph(rng, config) for _ in range(batch)]
        return self._select_inputs(batch_graphs(graphs, nodes, config["max_hops"]))

    def describe_input(self) -> dict[str, int]:
        config = self.get_config()
        return {name: config[name] for name in ("node_features", "edge_features")}

    def describe_output(self) -> dict:
        return {"outputs": "values", "targets": self.output_shape[-1]}


@zoo_model
class SliceGraphormer(Graphormer):
    """Predict numbers for graphs with a `Graphormer` that sorts every channel.

    The output depends on the order of nodes. Molecules get the canonical order of
    `keras_permix.data.from_smiles`. Choose one order for other graphs.

    Reference: Yuan & Xu, "Sliceformer", 2023, Table 6 and the released code.
    """

    default_mixer = "slice_sort"


def _random_graph(rng, config):
    """Make a tree with one more edge and random features."""
    nodes = rng.integers(3, NODES + 1)
    ends = [(node, rng.integers(node)) for node in range(1, nodes)] + [(0, nodes - 1)]
    features = rng.integers(0, 4, (nodes, config["edge_features"]))
    return rng.integers(0, 9, (nodes, config["node_features"])), np.hstack([ends, features])
