"""Predict numbers from graphs, such as properties of molecules."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.data import Dataset, load_graphs
from keras_permix.data.dataset import split_source
from keras_permix.data.graphs.preprocess import batch_graphs
from keras_permix.data.graphs.sets import TARGETS as GRAPH_SETS
from keras_permix.data.graphs.sets import read_graphs
from keras_permix.data.graphs.smiles import ATOMIC_NUMBER, FlatGraphs
from keras_permix.data.pipeline import Augment
from keras_permix.tasks.regression import Regression
from keras_permix.tasks.task import FILES, options_of
from keras_permix.utils.checks import check_names


class GraphRegression(Regression):
    """Predict targets of shape `(batch, targets)` from graphs.

    The input of a `ZooModel` is a dict of "x" and other arrays of `keras_permix.data.pad_graphs`.
    The loss is the mean absolute error in the units of the data.

    Example:
        >>> from keras_permix.tasks import GraphRegression
        >>> from keras_permix.zoo import SliceGraphormer
        >>> task = GraphRegression(SliceGraphormer.from_preset("test"))
        >>> inputs, targets = task.batches(task.generate(8).train, batch_size=4)[0]
        >>> len(inputs["x"]), targets.shape
        (4, (4, 3))
    """

    name = "graph_regression"
    scale_names = ("mean", "std")

    @classmethod
    def check_data(cls, spec: dict[str, Any]) -> None:
        super().check_data(spec)
        check_names("`data`", spec, {"name", *options_of(load_graphs), *FILES})

    def load(self, spec: dict[str, Any], data_dir: StrPath | None = None, seed: int = 0) -> Dataset:
        return load_graphs(data_dir=data_dir, **spec)

    def generate(self, count: int, seed: int = 0) -> Dataset:
        """Generate random graphs, with the mean degree as every target."""
        inputs = self.model.make_inputs(seed, count + max(1, count // 4))
        degree = inputs["in_degree"]
        mean = ((degree - 1) * (degree > 0)).sum(1) / np.maximum((degree > 0).sum(1), 1)
        train, test = split_source((inputs, mean), count, len(mean) - count)
        return self.of_classes(Dataset("generated", train, test, ()))

    def preparation(self, augmentation: dict[str, Any] | None, seed: int) -> Augment:
        self.augment(augmentation, seed)  # raises if there is any
        return self._select_inputs

    def _select_inputs(self, inputs, targets, epoch, index):
        return {name: inputs[name] for name in self.model.input}, targets

    def scale(self, dataset: Dataset) -> dict[str, Any]:
        """Return mean and standard deviation of the training targets, rounded, and their units."""
        scale, columns = super().scale(dataset), GRAPH_SETS.get(dataset.name, {})
        units = [columns[label][2] if label in columns else "" for label in dataset.labels]
        if "target_units" in self.config:
            scale["target_units"] = units[0] if len(units) == 1 else units
        return scale

    def domain(self, dataset: Dataset) -> dict[str, Any]:
        """Return the elements and largest size of training molecules, including a preset's."""
        graphs = getattr(dataset.train[0], "graphs", None)
        if "domain" not in self.config or not isinstance(graphs, FlatGraphs):
            return {}
        indices, atoms = graphs.seen(ATOMIC_NUMBER, dataset.train[0].chosen)
        before = self.config["domain"] or {"elements": [], "max_atoms": 0}
        elements = {index + 1 for index in indices} | set(before["elements"])
        most = max(atoms, before["max_atoms"])
        return {"domain": {"elements": sorted(elements), "max_atoms": most}}

    def read(self, arguments: Sequence[str]) -> Any:
        """Read a molecule as SMILES, or a JSON file of one graph in the format of `load_graphs`."""
        word = arguments[0]
        if not word.endswith(".json") and not os.path.isfile(word):
            return self.model.encode([word])
        path = Path(word)
        try:
            row = json.loads(path.read_text(encoding="utf-8-sig"))
            if not isinstance(row, dict):
                raise ValueError("not a JSON object")
        except (OSError, ValueError) as error:
            rule = "`INPUT` must be a JSON file of one graph, or a SMILES"
            raise ValueError(f"{rule}. Received: {path} ({error})") from error
        taken = self.model.input
        edges = taken.get("edge_input", taken.get("attn_edge_type"))
        batch = batch_graphs(read_graphs([row], 0 if edges is None else edges.shape[-1]))
        return {name: batch[name] for name in taken}
