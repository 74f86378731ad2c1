"""Toy models, data files and recipes of tasks without images.

The toys are not part of the package. `registered` adds them to the zoo temporarily.
"""

import contextlib
import json

import keras
import numpy as np
from keras import ops

from keras_permix.data import pad_graphs, preprocess_graph
from keras_permix.zoo import ZooModel
from keras_permix.zoo.registry import MODELS, zoo_model
from keras_permix.zoo.sequence_classifier import SequenceClassifier
from tests.training.runs import as_toml


class ToyText(SequenceClassifier):
    """Classify a text by the mean of its embedded bytes, without padding."""

    def __init__(
        self, max_sequence_length, num_classes, hidden_dim=8, vocabulary_size=257, pairs=False,
        image_size=None,
        tokenizer=None, dtype=None, **kwargs,
    ):  # fmt: skip
        config = dict(
            max_sequence_length=max_sequence_length, num_classes=num_classes, hidden_dim=hidden_dim,
            pairs=pairs,
            vocabulary_size=vocabulary_size, image_size=image_size, tokenizer=tokenizer,
        )  # fmt: skip
        tokens = keras.Input((None,), dtype="int32", name="tokens")
        mask = keras.Input((None,), dtype="bool", name="mask")
        x = keras.layers.Embedding(vocabulary_size, hidden_dim, dtype=dtype, name="embedding")(
            tokens
        )
        x = keras.layers.Dense(hidden_dim, "tanh", dtype=dtype, name="block_0")(x)
        real = ops.expand_dims(ops.cast(mask, x.dtype), -1)
        pooled = ops.sum(x * real, axis=1) / (ops.sum(real, axis=1) + 1e-3)
        logits = keras.layers.Dense(num_classes, dtype=dtype, name="head")(pooled)
        logits = keras.layers.Activation("linear", dtype="float32")(logits)
        inputs = {"tokens": tokens, "mask": mask}
        super().__init__(inputs, logits, [x], config, dtype=dtype, **kwargs)


class ToyGraph(ZooModel):
    """Predict numbers from the mean of embedded nodes and degrees, without padding."""

    task = "graph_regression"

    def __init__(self, targets, node_features=1, hidden_dim=8, dtype=None, **kwargs):
        config = dict(targets=targets, node_features=node_features, hidden_dim=hidden_dim)
        nodes = keras.Input((None, node_features), dtype="int32", name="x")
        degree = keras.Input((None,), dtype="int32", name="in_degree")
        rows = 512 * node_features + 1
        x = keras.layers.Embedding(rows, hidden_dim, dtype=dtype, name="embedding")(nodes)
        x = ops.sum(x, axis=2)
        x = x + keras.layers.Embedding(512, hidden_dim, dtype=dtype, name="degree")(degree)
        x = keras.layers.Dense(hidden_dim, "tanh", dtype=dtype, name="block_0")(x)
        real = ops.expand_dims(ops.cast(degree > 0, x.dtype), -1)
        pooled = ops.sum(x * real, axis=1) / (ops.sum(real, axis=1) + 1e-3)
        values = keras.layers.Dense(targets, dtype=dtype, name="head")(pooled)
        values = keras.layers.Activation("linear", dtype="float32")(values)
        inputs = {"x": nodes, "in_degree": degree}
        super().__init__(inputs, values, [x], config, dtype=dtype, **kwargs)

    def make_inputs(self, seed, batch):
        rng = np.random.default_rng(seed)
        features = self.input["x"].shape[-1]
        graphs = []
        for _ in range(batch):
            nodes = rng.integers(2, 9)
            edges = [[node, rng.integers(node), 0] for node in range(1, nodes)]
            graphs.append(preprocess_graph(rng.integers(0, 9, (nodes, features)), edges))
        padded = pad_graphs(graphs, nodes=8)
        return {name: padded[name] for name in self.input}

    def describe_output(self):
        return {"outputs": "values", "targets": self.output_shape[-1]}


@contextlib.contextmanager
def registered():
    """Register the toys as models of the zoo, and remove them at the end."""
    toys = (ToyText, ToyGraph)
    for toy in toys:
        zoo_model(toy)
    try:
        yield
    finally:
        for toy in toys:
            del MODELS[toy.__name__]


def text_row(rng, label):
    """Generate a text with many a or many b, depending on the label."""
    letters = rng.choice(list("ab  "), rng.integers(4, 15), p=[0.8, 0.1, 0.05, 0.05])
    text = "".join(letters)
    return text if label == "many a" else text.translate({97: 98, 98: 97})


def text_rows(rng, count):
    labels = [("many a", "many b")[number % 2] for number in range(count)]
    return [{"text": text_row(rng, label), "label": label} for label in labels]


def pair_rows(rng, count):
    return [{**row, "text2": text_row(rng, row["label"])} for row in text_rows(rng, count)]


def graph_rows(rng, count):
    """Generate rings and stars. The targets are the mean degree and a shared node feature."""
    rows = []
    for number in range(count):
        nodes, feature = int(rng.integers(3, 7)), int(rng.integers(0, 4))
        ring = [[node, (node + 1) % nodes, 1] for node in range(nodes)]
        star = [[0, node, 1] for node in range(1, nodes)]
        edges = ring if number % 2 else star
        degree = 2 * len(edges) / nodes
        row = {"nodes": [[feature]] * nodes, "edges": edges, "degree": degree}
        rows.append({**row, "feature": feature})
    return rows


# kind -> (`model` of the recipe, function that generates rows, more options of `data`)
PAIRS = dict(
    class_name="LRATransformer", max_sequence_length=16, num_classes=2, hidden_dim=8, num_layers=1,
    mlp_dim=16,
    mixer="slice_sort", pooling="mean", head_dims=(), pairs=True,
)  # fmt: skip
KINDS = {
    "text": (dict(class_name="ToyText", max_sequence_length=16, num_classes=2), text_rows, {}),
    "pairs": (PAIRS, pair_rows, {}),
    "graphs": (
        dict(class_name="ToyGraph", targets=2), graph_rows, {"labels": ("degree", "feature")}
    ),
}  # fmt: skip


def write_project(folder, kind):
    """Write data files and a recipe, as a user would. Returns the path of the recipe."""
    model, make_rows, options = KINDS[kind]
    rng = np.random.default_rng(0)
    for part, count in (("train", 48), ("test", 20)):
        lines = [json.dumps(row) for row in make_rows(rng, count)]
        (folder / f"{part}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    data = dict(name=f"toy_{kind}", train="train.jsonl", test="test.jsonl", **options)
    recipe = folder / "tiny" / "recipe.toml"
    recipe.parent.mkdir()
    values = dict(
        model=model,
        data=data,
        batch_size=8,
        epochs=4,
        optimizer=dict(name="adam", learning_rate=2e-2),
        options=dict(wide=dict(model=dict(hidden_dim=16))),
    )
    recipe.write_text(as_toml(values), encoding="utf-8")
    return recipe
