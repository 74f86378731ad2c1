"""Which of several classes a text is of."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.data import Dataset, load_texts
from keras_permix.tasks.classification import Classification


class TextClassification(Classification):
    """Texts to logits.

    A model takes a dict of "tokens", int32 `(batch, max_length)`, and "mask", bool of the same
    shape, True at real tokens; its configuration says `max_length` and `num_classes`, and its
    method `encode` makes one of the other, by the model's tokenizer or from UTF-8 bytes.
    """

    name = "text_classification"
    fields: tuple[str, ...] = ("text",)  # of a row in a data file

    def load(self, spec: dict[str, Any], data_dir: StrPath | None = None, seed: int = 0) -> Dataset:
        spec = {"fields": self.fields, "encode": self.model.text_encoder(), **spec}
        name = spec.pop("name")
        return load_texts(name, self.config["max_length"], data_dir, **spec)

    def generate(self, count: int, seed: int = 0) -> Dataset:
        """Random tokens; the class is how large they are on average, in equal parts."""
        total = count + max(1, count // 4)
        inputs = self.model.make_inputs(seed, total)
        axes = tuple(range(1, inputs["tokens"].ndim))
        sizes = np.mean(inputs["tokens"], axis=axes, where=inputs["mask"])
        targets = (np.argsort(np.argsort(sizes)) * self.num_classes // total).astype("int32")
        train, test = (
            ({name: array[some] for name, array in inputs.items()}, targets[some])
            for some in (slice(count), slice(count, None))
        )
        labels = tuple(f"class {number}" for number in range(self.num_classes))
        return Dataset("generated", train, test, labels)

    def read(self, arguments: Sequence[str]) -> Any:
        """The text itself, or `@FILE` for what a file says."""
        texts = tuple(_text(argument) for argument in arguments)
        return self.model.encode([texts if len(self.fields) > 1 else texts[0]])


def _text(argument):
    if not argument.startswith("@"):
        return argument
    try:
        return Path(argument[1:]).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ValueError(
            "`INPUT` must be a text, or `@FILE` with a text file in UTF-8. "
            f"Received: {argument} ({error})"
        ) from error
