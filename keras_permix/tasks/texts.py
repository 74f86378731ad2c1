"""Define the base classes of tasks that read texts, and pairs of texts."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from keras_permix._typing import StrPath
from keras_permix.data import (
    LISTOPS_VOCABULARY,
    Dataset,
    generated_listops,
    listops_tokenizer,
    load_listops,
    load_retrieval,
    load_review_halves,
    load_texts,
)
from keras_permix.data.dataset import split_source
from keras_permix.data.text.tokenizer import train_tokenizer
from keras_permix.tasks.task import FILES, Task, options_of
from keras_permix.utils.checks import check_choice, check_names

LISTOPS: dict[str, Callable[..., Dataset]] = {"generated": generated_listops, "files": load_listops}
RETRIEVAL: dict[str, Callable[..., Dataset]] = {"files": load_retrieval, "imdb": load_review_halves}
TOKENIZERS = (None, "bpe")


class TextTask(Task):
    """Read texts.

    The input of a model is a dict of "tokens", int32 `(batch, max_sequence_length)`, and "mask",
    bool of the same shape, True at real tokens. The model's method `encode` converts texts to this
    dict, by the model's tokenizer or as UTF-8 bytes.
    """

    fields: tuple[str, ...] = ("text",)  # of a row in a data file

    @classmethod
    def check_data(cls, spec: dict[str, Any]) -> None:
        super().check_data(spec)
        if cls.predicts != "class" and not {"train", "test"} <= set(spec):
            raise ValueError(f"`data` must set `train` and `test` for {cls.name}. Received: {spec}")
        load, more = cls._loader(spec)
        check_names("`data`", spec, {"name", *options_of(load), *more})
        fields, count = spec.get("fields", cls.fields), len(cls.fields)
        if len(fields) != count:
            raise ValueError(f"`data.fields` must have length {count}. Received: {fields}")

    @classmethod
    def _loader(cls, spec):
        """Return the loader of a set, and additional keys of `data`."""
        own = any(isinstance(spec.get(key), str) for key in ("train", "test"))
        if spec["name"] == "listops" and len(cls.fields) == 1 and not own:
            source = check_choice("data.source", spec.get("source", "generated"), LISTOPS)
            return LISTOPS[source], ("source",)
        if spec["name"] == "retrieval" and len(cls.fields) == 2 and not set(FILES) & set(spec):
            source = check_choice("data.source", spec.get("source", "files"), RETRIEVAL)
            return RETRIEVAL[source], ("source", "tokenizer")
        return load_texts, (*FILES, "tokenizer")

    def load(self, spec: dict[str, Any], data_dir: StrPath | None = None, seed: int = 0) -> Dataset:
        """Load a data set.

        `spec` has the "name" of the set and arguments of `load_texts`. With `tokenizer="bpe"`, a
        model without a tokenizer receives one trained on the training texts, with `vocabulary_size`
        subwords. "listops" has the sources "generated" (default) and "files", with the arguments of
        `generated_listops` or `load_listops`, and sets a tokenizer for its tokens. "retrieval" has
        the sources "files" (default, `load_retrieval`) and "imdb" (`load_review_halves`).
        """
        load, _ = self._loader(spec)
        options, length = dict(spec), self.config["max_sequence_length"]
        name = options.pop("name")
        if load is not load_texts:
            options.pop("source", None)
        if load in LISTOPS.values():
            if (size := self.config["vocabulary_size"]) < len(LISTOPS_VOCABULARY):
                least = len(LISTOPS_VOCABULARY)
                raise ValueError(f"`vocabulary_size` must be at least {least}. Received: {size}")
            self.model.tokenizer = self.model.tokenizer or listops_tokenizer()
            if load is load_listops:
                options["data_dir"] = data_dir
            return load(length, **options)
        if load is load_texts:
            load = partial(load, name, fields=self.fields, predicts=self.predicts)
        tokenizer = check_choice("tokenizer", options.pop("tokenizer", None), TOKENIZERS)
        if tokenizer and self.model.tokenizer is None:
            texts = load(length, data_dir, **options).train[0].texts
            self.model.tokenizer = train_tokenizer(_each(texts), self.config["vocabulary_size"])
        return load(length, data_dir, encode=self.model.text_encoder(), **options)

    def generate(self, count: int, seed: int = 0) -> Dataset:
        """Generate random tokens; targets are classes by their mean, of equal size, or numbers."""
        total = count + max(1, count // 4)
        inputs = self.model.make_inputs(seed, total)
        axes = tuple(range(1, inputs["tokens"].ndim))
        sizes = np.mean(inputs["tokens"], axis=axes, where=inputs["mask"])
        outputs = self.model.output_shape[-1]
        targets = (np.argsort(np.argsort(sizes)) * outputs // total).astype("int32")
        train, test = split_source((inputs, targets), count, len(targets) - count)
        labels = tuple(f"class {number}" for number in range(outputs))
        return self.of_classes(Dataset("generated", train, test, labels))

    def read(self, arguments: Sequence[str]) -> Any:
        """Read a text, or the whole file of `@FILE` as one text."""
        texts = tuple(_text(argument) for argument in arguments)
        return self.model.encode([texts if len(self.fields) > 1 else texts[0]])


class PairTask(TextTask):
    """Read pairs of texts.

    "tokens" and "mask" have shape `(batch, 2, tokens)`, or contain both texts in one sequence,
    depending on the model. A data file has the columns "text" and "text2", and the command line
    takes two texts per prediction.
    """

    fields = ("text", "text2")
    arguments_per_input = 2


def _each(texts):
    """Iterate over all texts, including both texts of each pair."""
    return (one for text in texts for one in ([text] if isinstance(text, str) else text))


def _text(argument):
    rule = "`INPUT` must be a text, or `@FILE` with a text file in UTF-8."
    looks_like_one = os.sep in argument or Path(argument).suffix  # A word has neither.
    if looks_like_one and os.path.isfile(argument):
        raise ValueError(f"{rule} Received: {argument}, a file: write @{argument}")
    try:
        # "@name thanks" is a text.
        is_file = argument[:1] == "@" and (
            len(argument.split()) == 1 or os.path.isfile(argument[1:])
        )
        text = Path(argument[1:]).read_text(encoding="utf-8-sig") if is_file else argument
    except (OSError, ValueError) as error:
        raise ValueError(f"{rule} Received: {argument} ({error})") from error
    if not text.strip():
        raise ValueError(f"{rule} Received: {argument!r}, which is empty")
    return text
