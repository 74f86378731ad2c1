"""Define the base class of models that classify texts, pairs of texts or pixels."""

import warnings
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_permix._typing import StrPath
from keras_permix.data.text.tokenizer import TOKENIZER_FILE, SubwordEncoder, tokenizer_text
from keras_permix.data.text.tokens import BYTE_TOKENS, encode_texts
from keras_permix.layers.embedding.images import ImagePreprocessor
from keras_permix.layers.embedding.tokens import SplitPairs
from keras_permix.zoo.arrays import check_texts
from keras_permix.zoo.classifier import Classifier, describe_images, make_images
from keras_permix.zoo.parts import check_images, keep_steps, preprocess

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
    _encoder = None
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
    def keep_arguments(cls, config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
        """Keep the shift steps of the image size that the weights were trained on."""
        steps = keep_steps(config, changes) if config.get("image_size") else {}
        return {**super().keep_arguments(config, changes), **steps}

    def _takes(self, kind):
        return self.input_kind(self._zoo_config) == kind

    def make_inputs(self, seed: int, batch: int) -> Any:
        if self._takes("image"):
            return make_images(self, seed, batch)
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
            return describe_images(self)
        config = self.get_config()
        return {name: config[name] for name in ("vocabulary_size", "max_sequence_length")}

    def text_encoder(self) -> Any:
        """Return a function that converts texts and `max_sequence_length` to arrays.

        Raises:
            ValueError: for a model that reads no texts.
        """
        if self._encoder is None:
            self._encoder = make_encoder(self)
        return self._encoder

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
        self._warned_of_cut = any(
            is_cut(texts[index], self._encoder, length) for index in np.flatnonzero(full)
        )
        if self._warned_of_cut:
            warnings.warn(
                f"Texts were cut to {length} tokens, the `max_sequence_length` of this "
                f"{type(self).__name__}, which ignores the rest. Further cuts do not warn.",
                stacklevel=3,
            )

    def check_inputs(self, x: Any) -> None:
        if self._takes("image"):
            super().check_inputs(x)
        elif isinstance(x, np.ndarray) or keras.ops.is_tensor(x):
            raise ValueError(
                f"`x` must be texts, or a dict of {_and(self.input)}, as returned by `encode` for "
                "texts and `keras_permix.data.pad_tokens` for token ids. "
                f"Received: an array of shape {tuple(x.shape)}"
            )
        elif not isinstance(x, dict):
            return
        elif missing := [name for name in self.input if name not in x]:
            raise ValueError(
                f"`x` must be a dict of {_and(self.input)}, as returned by `encode`. "
                f"Received: {_and(x)} without {_and(missing)}"
            )
        elif isinstance(tokens := x["tokens"], np.ndarray) or keras.ops.is_tensor(tokens):
            tokens = keras.ops.convert_to_numpy(tokens)
            check_tokens(tokens, x["mask"], self.get_config())


def is_cut(text, encoder, max_sequence_length):
    """Return whether an encoder cuts a text, or a text of a pair."""
    if isinstance(encoder, SubwordEncoder):
        return encoder.cuts(text)
    parts = text if isinstance(text, tuple) else (text,)
    return any(len(part.encode()) > max_sequence_length for part in parts)


def make_encoder(model):
    """Return a function that converts texts and `max_sequence_length` to arrays for a model."""
    config = model.get_config()
    tokenizer, joined = config.get("tokenizer"), config.get("use_segments", False)
    if config.get("image_size"):
        raise ValueError(f"`image_size` must be None for texts. Received: model={model.name}")
    if tokenizer is None:
        if config["vocabulary_size"] != BYTE_TOKENS or joined:
            raise ValueError(
                f"Texts require a `tokenizer`, or a `vocabulary_size` of {BYTE_TOKENS} (bytes) and "
                "`use_segments=False`. From Python, this model accepts arrays of token ids. "
                f"Received: {model.name} with vocabulary_size={config['vocabulary_size']}, "
                f"use_segments={joined}, tokenizer=None"
            )
        return encode_texts
    encoder = SubwordEncoder(tokenizer, config["max_sequence_length"], joined)
    if encoder.vocabulary_size > config["vocabulary_size"]:
        raise ValueError(
            "`vocabulary_size` must be at least that of the `tokenizer`. "
            f"Received: vocabulary_size={config['vocabulary_size']}, and a tokenizer of "
            f"{encoder.vocabulary_size}"
        )
    return encoder


def check_tokens(tokens, mask, config):
    """Check that arrays are token ids and their mask."""
    shape = ("batch", *(2,) * config["pairs"], "tokens")
    right = tokens.ndim == len(shape) and tokens.shape[1:-1] == shape[1:-1]
    if not right or not np.issubdtype(tokens.dtype, np.integer) or _shape(mask) != tokens.shape:
        raise ValueError(
            f"`tokens` must be integers of the shape ({', '.join(map(str, shape))}), and `mask` of "
            f"the same shape. Received: tokens.shape={tokens.shape}, {tokens.dtype}, "
            f"mask.shape={_shape(mask)}"
        )
    if not tokens.shape[-1]:
        raise ValueError(
            "`tokens` must contain at least one token per text. "
            f"Received: tokens.shape={tokens.shape}"
        )
    if tokens.shape[-1] > config["max_sequence_length"]:
        raise ValueError(
            "The number of `tokens` must not exceed the model's `max_sequence_length`. "
            f"Received: tokens.shape={tokens.shape}, "
            f"max_sequence_length={config['max_sequence_length']}"
        )
    if tokens.size and not 0 <= tokens.min() <= tokens.max() < config["vocabulary_size"]:
        raise ValueError(
            "`tokens` must be at least 0 and below the model's `vocabulary_size`. "
            f"Received: {tokens.min()} to {tokens.max()}, "
            f"vocabulary_size={config['vocabulary_size']}"
        )


def _and(names):
    return " and ".join(f'"{name}"' for name in names)


def _shape(array):
    return tuple(array.shape) if keras.ops.is_tensor(array) else np.shape(array)


def check_sequence_config(config):
    """Check the common arguments of sequence models, and return them in plain values.

    Args:
        config: Dict with "num_classes", "vocabulary_size", "max_sequence_length", "pairs",
            "image_size", "steps_image_size" and "tokenizer"; and "mean" and "std", unless pixels
            are token ids.

    Returns:
        The configuration. "tokenizer" is a text; for images, "max_sequence_length" is the number
        of pixels.
    """
    config = {**config, "tokenizer": tokenizer_text(config["tokenizer"])}
    if config["image_size"]:
        if config["pairs"] or config["tokenizer"]:
            raise ValueError(
                "`pairs` and `tokenizer` are for texts: `image_size` must be None. "
                f"Received: pairs={config['pairs']}, image_size={config['image_size']}, "
                f"tokenizer={str(config['tokenizer'])[:60]}"
            )
        config = {**config, "max_sequence_length": config["image_size"] ** 2}
    elif config["steps_image_size"]:
        raise ValueError(
            "`steps_image_size` must be None for texts, which have no `image_size`. "
            f"Received: steps_image_size={config['steps_image_size']}"
        )
    if "mean" in config:
        return config | check_images({**config, "channels": 1})
    if config["image_size"] and config["vocabulary_size"] < PIXEL_VALUES:
        raise ValueError(
            f"`vocabulary_size` must be at least {PIXEL_VALUES} for pixels as tokens. "
            f"Received: vocabulary_size={config['vocabulary_size']}"
        )
    return config


def sequence_inputs(config, dtype):
    """Make the inputs of a model of sequences.

    Returns:
        `(inputs, tokens, mask)`: the inputs of the model, and one sequence per text,
        `(batch, tokens)`, or `(2 * batch, tokens)` for pairs, with the texts of a pair in adjacent
        rows. `tokens` are ids. For images they are pixels, normalized if the configuration has a
        "mean", else ids from 0 to 255, and `mask` is `None`.
    """
    if size := config["image_size"]:
        images = keras.Input((None, None, 1), name="images")
        as_ids = "mean" not in config
        pixels = _ids(images, size) if as_ids else preprocess(images, config, dtype)
        return images, ops.reshape(pixels, (-1, config["max_sequence_length"])), None
    shape = (2, None) if config["pairs"] else (None,)
    tokens = keras.Input(shape, dtype="int32", name="tokens")
    mask = keras.Input(shape, dtype="bool", name="mask")
    inputs = {"tokens": tokens, "mask": mask}
    if config["pairs"]:
        tokens = SplitPairs(dtype=dtype, name="split_tokens")(tokens)
        mask = SplitPairs(dtype=dtype, name="split_mask")(mask)
    return inputs, tokens, mask


def _ids(images, size):
    """Return the values of pixels as token ids, computed in float32 without rounding errors."""
    preprocessor = ImagePreprocessor(size, [0.0], [1 / 255], dtype="float32", name="preprocessor")
    values = ops.round(preprocessor(images))
    return ops.cast(ops.clip(values, 0, PIXEL_VALUES - 1), "int32")


def join_pairs(pooled):
    """Split the vectors of pairs `(2 * batch, channels)` into two tensors `(batch, channels)`."""
    both = ops.reshape(pooled, (-1, 2, pooled.shape[-1]))
    return ops.unstack(both, axis=1)
