"""Numbers that belong to a graph, such as a molecule's properties."""

import json
from pathlib import Path

import keras
import numpy as np

from keras_permix.data import Dataset, Pipeline, load_graphs, pad_graphs
from keras_permix.data.graphs.sets import read_graph
from keras_permix.tasks.task import Task


class GraphRegression(Task):
    """Graphs, as `keras_permix.data.pad_graphs` pads them, to `(batch, targets)`.

    The loss is the mean absolute error, in the units of the data.
    """

    name = "graph_regression"

    def load(self, spec, data_dir=None, seed=0):
        spec = dict(spec)
        dataset = load_graphs(spec.pop("name"), data_dir, **spec)
        if len(dataset.labels) != self.model.output_shape[-1]:
            raise ValueError(
                "`labels` of the recipe's `data` must name one target per output of the model. "
                f"Received: labels={dataset.labels}, {self.model.output_shape[-1]} outputs"
            )
        return dataset

    def generate(self, count, seed=0):
        """Random graphs; every target is their mean degree."""
        inputs = self.model.make_inputs(seed, count + max(1, count // 4))
        degree = inputs["in_degree"]
        mean = ((degree - 1) * (degree > 0)).sum(1) / np.maximum((degree > 0).sum(1), 1)
        outputs = self.model.output_shape[-1]
        targets = np.repeat(mean[:, None], outputs, axis=1).astype("float32")
        parts = [
            ({name: array[some] for name, array in inputs.items()}, targets[some])
            for some in (slice(count), slice(count, None))
        ]
        return Dataset("generated", *parts, tuple(f"y{number}" for number in range(outputs)))

    def batches(self, part, batch_size, *, training=False, seed=0, epoch=0, augmentation=None):
        self.refuse_augmentation(augmentation)
        return Pipeline(
            *part,
            batch_size=batch_size,
            shuffle=training,
            drop_remainder=training,
            seed=seed,
            epoch=epoch,
        )

    def loss(self, label_smoothing=0.0):
        if label_smoothing:
            raise ValueError(
                f"`label_smoothing` must be 0 for {self.name}. Received: {label_smoothing}"
            )
        return keras.losses.MeanAbsoluteError()

    def metrics(self):
        return [keras.metrics.MeanAbsoluteError(name="mae")]

    def read(self, arguments):
        """A JSON file of one graph, in the form that `keras_permix.data.load_graphs` reads."""
        path = Path(arguments[0])
        try:
            row = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(
                f"`INPUT` must be a JSON file of one graph. Received: {path} ({error})"
            ) from error
        edge_features = self.model.input["attn_edge_type"].shape[-1]
        graph = read_graph(row, edge_features=edge_features)
        features = self.model.input["x"].shape[-1]
        if graph["x"].shape[1] != features:
            raise ValueError(
                f"The model takes nodes of {features} features. "
                f"Received: {graph['x'].shape[1]} in {path}"
            )
        return pad_graphs([graph])

    def answer(self, output, labels, top):
        labels = labels or [f"y{number}" for number in range(len(output))]
        return [f"{value:.6g}  {label}" for value, label in zip(output, labels, strict=True)]
