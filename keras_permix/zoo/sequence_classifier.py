"""Define the base class of models that classify texts, pairs of texts or pixels."""

import warnings
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_permix._typing import StrPath
from keras_permix.data.text.tokenizer import TOKENIZER_FILE, SubwordEncoder, tokenizer_text
from keras_permix.data.text.tokens import BYTE_TOKENS, encode_texts
from keras_permix.layers.embedding.tokens import SplitPairs
from keras_permix.zoo.arrays import check_indices, check_texts
from keras_permix.zoo.classifier import Classifier, check_images, image_input

PIXEL_VALUES = 256


class SequenceClassifier(Classifier):
    """Classify token ids, or gray pixels in row order.

    Texts are a dict of "tokens", integers `(batch, tokens)` of at most `max_sequence_length`
    tokens, and "mask", True at real tokens, of the same shape. Pairs of texts are `(batch, 2,
    tokens)`. `encode` makes these arrays; `fit`, `evaluate`, `predict` and `classify` call it for
    texts. Images are `(batch, height, width, 1)`, 0–255, resized to `image_size`.

    The constructor takes `vocabulary_size`, `max_sequence_length`, `pairs`, `image_size` and
    `tokenizer`, which may be set later. With the optional argument `use_segments`, pairs are joined
    to one sequence, and the dict has "segment_ids" of 0 and 1.
    """

    asset_files = {"tokenizer": TOKENIZER_FILE}
    _encoder: Any = None
    _warned_of_cut = False

    @property
    def tokenizer(self) -> str | None:
        """Return the text of the model's `tokenizer.json`, or `None` if texts are bytes."""
        return self._zoo_config["tokenizer"]

    @tokenizer.setter
    def tokenizer(self, tokenizer: StrPath | None) -> None:
        self._zoo_config["tokenizer"] = tokenizer_text(tokenizer)
        self._encoder = None

    @classmethod
    def input_kind(cls, config: dict[str, Any]) -> str:
        if config.get("image_size"):
            return "image"
        return "pair" if config.get("pairs") or config.get("use_segments") else "text"

    @classmethod
    def _check_config(cls, config: dict[str, Any]) -> dict[str, Any]:
        """Check the sizes of texts or pixels, which are token ids unless there is a "mean"."""
        config = {**config, "tokenizer": tokenizer_text(config["tokenizer"])}
        if size := config.get("image_size"):
            if config["pairs"]:
                raise ValueError(f"`pairs` must be False for images. Received: image_size={size}")
            config["max_sequence_length"] = size**2
        elif config.get("steps_image_size"):
            rule = "`steps_image_size` requires `image_size`"
            raise ValueError(f"{rule}. Received: steps_image_size={config['steps_image_size']}")
        if "mean" in config:
            return config | check_images({**config, "channels": 1})
        if size and config["vocabulary_size"] < PIXEL_VALUES:
            rule = f"`vocabulary_size` must be at least {PIXEL_VALUES} for pixels"
            raise ValueError(f"{rule}. Received: vocabulary_size={config['vocabulary_size']}")
        return config

    def _takes(self, kind):
        return self.input_kind(self._zoo_config) == kind

    def make_inputs(self, seed: int, batch: int) -> Any:
        if self._takes("image"):
            return super().make_inputs(seed, batch)
        config, rng = self.get_config(), np.random.default_rng(seed)
        shape = (batch, *(2,) * config["pairs"], config["max_sequence_length"])
        mask = np.arange(shape[-1]) < rng.integers(1, shape[-1] + 1, (*shape[:-1], 1))
        tokens = rng.integers(1, config["vocabulary_size"], shape)
        inputs = {"tokens": (tokens * mask).astype("int32"), "mask": mask}
        if config.get("use_segments"):
            second = np.arange(shape[-1]) >= rng.integers(1, shape[-1] + 1, (batch, 1))
            inputs["segment_ids"] = (second & mask).astype("int32")
        return inputs

    def describe_input(self) -> dict[str, Any]:
        if self._takes("image"):
            return super().describe_input()
        config = self.get_config()
        return {name: config[name] for name in ("vocabulary_size", "max_sequence_length")}

    def text_encoder(self) -> Any:
        """Return a function that converts texts and `max_sequence_length` to arrays.

        Raises:
            ValueError: for a tokenizer that is missing or too large.
        """
        if self._encoder is not None:
            return self._encoder
        config = self._zoo_config
        tokenizer, vocabulary_size = self.tokenizer, config["vocabulary_size"]
        use_segments = config.get("use_segments", False)
        if tokenizer is None and (vocabulary_size != BYTE_TOKENS or use_segments):
            raise ValueError(
                f"Texts require a `tokenizer`, or bytes: `vocabulary_size={BYTE_TOKENS}` and "
                f"`use_segments=False`. Received: {vocabulary_size=}, {use_segments=}"
            )
        encoder: Any = encode_texts
        if tokenizer is not None:
            encoder = SubwordEncoder(tokenizer, config["max_sequence_length"], use_segments)
            if (least := encoder.vocabulary_size) > vocabulary_size:
                rule = f"`vocabulary_size` must be at least that of the tokenizer, {least}"
                raise ValueError(f"{rule}. Received: {vocabulary_size=}")
        self._encoder = encoder
        return encoder

    def encode(self, texts: Any) -> dict[str, np.ndarray]:
        """Convert texts to the arrays that the model takes.

        Texts are encoded by the tokenizer of the model or, with a `vocabulary_size` of 257, as
        UTF-8 bytes. Texts of more than `max_sequence_length` tokens are cut at the end. The model
        warns once about cut texts, also in `predict` and `classify`.

        Args:
            texts: A list of str, or for pairs a list of tuples of two str.

        Returns:
            A dict of NumPy arrays, padded to `max_sequence_length`.

        Raises:
            ValueError: for other types, or a model that reads no texts.
            ImportError: if the package `tokenizers` is needed and missing.

        Example:
            >>> from keras_permix.zoo import SimpleTRON
            >>> model = SimpleTRON.from_preset("test")
            >>> model.encode(["ab"])["tokens"][0, :3].tolist()
            [98, 99, 0]
        """
        if self._takes("image"):
            return super().encode(texts)
        encoder = self.text_encoder()
        texts = check_texts(texts, paired=self._takes("pair"))
        arrays = encoder(texts, self._zoo_config["max_sequence_length"])
        self._warn_of_cut(texts, arrays["mask"])
        return arrays

    def _warn_of_cut(self, texts, mask):
        """Warn once about cut texts, which are among those that fill their row."""
        if self._warned_of_cut:
            return
        length = self._zoo_config["max_sequence_length"]
        full = mask[..., -1].reshape(len(texts), -1).any(axis=1)
        self._warned_of_cut = any(self._cuts(texts[index]) for index in np.flatnonzero(full))
        if self._warned_of_cut:
            warnings.warn(
                f"Texts were cut to {length} tokens, the `max_sequence_length` of this "
                f"{type(self).__name__}, which ignores the rest. Further cuts do not warn.",
                stacklevel=3,
            )

    def _cuts(self, text):
        """Return whether the encoder cuts a text, or a text of a pair."""
        if isinstance(self._encoder, SubwordEncoder):
            return self._encoder.cuts(text)
        parts = text if isinstance(text, tuple) else (text,)
        length = self._zoo_config["max_sequence_length"]
        return any(len(part.encode()) > length for part in parts)

    def check_inputs(self, x: Any) -> None:
        if self._takes("image"):
            super().check_inputs(x)
        elif isinstance(x, dict):
            if x.keys() != self.input.keys():  # Keras would mix up the arrays
                raise ValueError(f"`x` must have the keys {list(self.input)}. Received: {list(x)}")
            self._assert_input_compatibility(x)  # Keras omits this in compiled steps
            shapes = {name: tuple(x[name].shape) for name in self.input}
            if len(set(shapes.values())) > 1:
                raise ValueError(f"`x` must contain arrays of one shape. Received: {shapes}")
            for name, rows in (("tokens", "vocabulary_size"), ("segment_ids", "num_segments")):
                if name in self.input:
                    ids = keras.ops.convert_to_numpy(x[name])
                    check_indices(name, ids, self._zoo_config[rows])


def sequence_inputs(config, dtype):
    """Make the inputs of a model of sequences.

    Returns:
        `(inputs, tokens, mask)`: the inputs of the model, and one sequence per text,
        `(batch, tokens)`, or `(2 * batch, tokens)` for pairs, with the texts of a pair in adjacent
        rows. `tokens` are ids. For images they are pixels, normalized if the configuration has a
        "mean", else ids from 0 to 255, and `mask` is `None`.
    """
    if size := config.get("image_size"):
        if "mean" in config:
            images, pixels = image_input({**config, "channels": 1}, dtype)
        else:  # in float32, without rounding errors
            as_ids = {"image_size": size, "channels": 1, "mean": [0.0], "std": [1 / 255]}
            images, pixels = image_input(as_ids, "float32")
            pixels = ops.cast(ops.clip(ops.round(pixels), 0, PIXEL_VALUES - 1), "int32")
        return images, ops.reshape(pixels, (-1, config["max_sequence_length"])), None
    shape = (2, None) if config["pairs"] else (None,)
    tokens = keras.Input(shape, dtype="int32", name="tokens")
    mask = keras.Input(shape, dtype="bool", name="mask")
    inputs = {"tokens": tokens, "mask": mask}
    if config["pairs"]:
        tokens = SplitPairs(dtype=dtype, name="split_tokens")(tokens)
        mask = SplitPairs(dtype=dtype, name="split_mask")(mask)
    return inputs, tokens, mask


def join_pairs(pooled):
    """Split the vectors of pairs `(2 * batch, channels)` into two tensors `(batch, channels)`."""
    both = ops.reshape(pooled, (-1, 2, pooled.shape[-1]))
    return ops.unstack(both, axis=1)
