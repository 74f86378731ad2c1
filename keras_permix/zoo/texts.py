"""Texts as people give them to a model of sequences."""

import numpy as np

from keras_permix.data.text.tokenizer import SubwordEncoder
from keras_permix.data.text.tokens import BYTE_TOKENS, encode_texts, is_whole
from keras_permix.zoo.arrays import to_arrays


def check_texts(texts, paired, name="texts"):
    """Return `texts`, called `name`, as a list of str, or where `paired` of tuples of two str."""
    texts = to_arrays(texts)
    if isinstance(texts, np.ndarray):
        # A table of one column holds one text per row.
        texts = (texts[:, 0] if texts.shape[1:] == (1,) else texts).tolist()
    found = list(texts) if isinstance(texts, list | tuple) else []
    if paired:
        found = [tuple(pair) if isinstance(pair, list | tuple) else pair for pair in found]
    if not found or not all(_is_text(text, paired) for text in found):
        kind = "tuples of two str, the texts of a pair" if paired else "str"
        raise ValueError(
            f"`{name}` must be a list of {kind}, also where it is one. "
            f"Received: {name}={str(texts)[:99]!r}"
        )
    for number, text in enumerate(found):
        if not all(part.strip() and is_whole(part) for part in (text if paired else [text])):
            raise ValueError(
                f"`{name}` must hold texts that are not empty, and of whole characters. "
                f"Received: {name}[{number}]={text!r}"
            )
    return found


def _is_text(text, paired):
    if not paired:
        return isinstance(text, str)
    two = isinstance(text, tuple) and len(text) == 2
    return two and all(isinstance(part, str) for part in text)


def are_texts(x):
    """Whether inputs are texts: a str, or an array or list, however nested, that holds one."""
    if isinstance(x, np.ndarray):
        return x.dtype.kind == "U" or x.dtype.kind == "O" and are_texts(x.tolist())
    if isinstance(x, list | tuple):
        return any(are_texts(part) for part in x)
    return isinstance(x, str)


def is_cut(text, encoder, max_sequence_length):
    """Whether what `make_encoder` gave cuts a text, or one of a pair."""
    if isinstance(encoder, SubwordEncoder):
        return encoder.cuts(text)
    parts = text if isinstance(text, tuple) else (text,)
    return any(len(part.encode()) > max_sequence_length for part in parts)


def make_encoder(model):
    """From a list of texts and `max_sequence_length` to arrays, as a model's configuration has "
    "it."""
    config = model.get_config()
    tokenizer, joined = config.get("tokenizer"), config.get("use_segments", False)
    if config.get("image_size"):
        raise ValueError(f"A model with an `image_size` reads no texts. Received: {model.name}")
    if tokenizer is None:
        if config["vocabulary_size"] != BYTE_TOKENS or joined:
            raise ValueError(
                f"Texts need a `tokenizer`, or else a `vocabulary_size` of {BYTE_TOKENS}, which is "
                "that of bytes, and pairs that are not joined: from Python this model takes arrays "
                "of token ids. "
                f"Received: {model.name} with vocabulary_size={config['vocabulary_size']}, "
                f"use_segments={joined}, tokenizer=None"
            )
        return encode_texts
    encoder = SubwordEncoder(tokenizer, config["max_sequence_length"], joined)
    if encoder.vocabulary_size > config["vocabulary_size"]:
        raise ValueError(
            "The `vocabulary_size` must be that of the `tokenizer` or larger. "
            f"Received: vocabulary_size={config['vocabulary_size']}, and a tokenizer of "
            f"{encoder.vocabulary_size}"
        )
    return encoder
