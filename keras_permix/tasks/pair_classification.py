"""Classify pairs of texts."""

from typing import Any

from keras_permix._typing import StrPath
from keras_permix.data import Dataset, load_retrieval
from keras_permix.tasks.task import FILES, check_options
from keras_permix.tasks.text_classification import TOKENIZERS, TextClassification
from keras_permix.utils.checks import check_choice


class PairClassification(TextClassification):
    """Classify pairs of texts, such as whether one cites the other.

    "tokens" and "mask" have shape `(batch, 2, tokens)`, or contain both texts in one sequence,
    depending on the model. A data file has the columns "text" and "text2", and the command line
    takes two texts per prediction.

    Args:
        model: A `ZooModel` that outputs logits.

    Example:

    >>> from keras_permix.tasks import PairClassification
    >>> from keras_permix.zoo import MEGA
    >>> task = PairClassification(MEGA(pairs=True, max_sequence_length=16, hidden_dim=8,
    ...     num_layers=1))
    >>> task.read(["one text", "another"])["tokens"].shape
    (1, 2, 16)
    """

    name = "pair_classification"
    fields = ("text", "text2")
    arguments_per_input = 2

    @classmethod
    def check_data(cls, spec: dict[str, Any]) -> None:
        if cls._is_retrieval(spec):
            check_options(spec, load_retrieval, "tokenizer")
            check_choice("tokenizer", spec.get("tokenizer"), TOKENIZERS)
            return
        super().check_data(spec)

    @classmethod
    def _is_retrieval(cls, spec):
        return spec["name"] == "retrieval" and not set(FILES) & set(spec)

    def load(self, spec: dict[str, Any], data_dir: StrPath | None = None, seed: int = 0) -> Dataset:
        """Load "retrieval" by `load_retrieval`, or another set by `load_texts`."""
        if not self._is_retrieval(spec):
            return super().load(spec, data_dir, seed)
        spec = {key: value for key, value in spec.items() if key != "name"}
        return self._load_texts(load_retrieval, data_dir, **spec)
