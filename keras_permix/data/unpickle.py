"""Pickles of arrays and plain containers, read without running anything that they name.

A pickle may name any function and have it called. Here it gets stand-ins that note what an array is
made of, for the names that NumPy's arrays need, and nothing for any other name.
"""

import io
import pickle
import re

import numpy as np


def unpickle_arrays(blob):
    """Read a pickled dict of arrays, numbers, bytes, texts and containers of such.

    Args:
        blob: The bytes of the pickle; of Python 2 or 3.

    Returns:
        A dict, in which arrays are NumPy arrays of numbers.

    Raises:
        ValueError: if it names any other object, or is damaged, or no dict.

    Example:

    >>> import pickle
    >>> from keras_permix.data.unpickle import unpickle_arrays
    >>> unpickle_arrays(pickle.dumps({"labels": [3, 1]}))
    {'labels': [3, 1]}
    """
    try:
        values = _plain(_Reader(io.BytesIO(blob), encoding="bytes").load())
        if not isinstance(values, dict):
            raise pickle.UnpicklingError(f"a {type(values).__name__}")
        return values
    except Exception as error:  # Damaged pickles raise what comes to hand.
        raise ValueError(
            "A pickle of data must be a dict of arrays and plain values, and whole; nothing else "
            f"is read. Received: {error}"
        ) from error


def _plain(value, made=None):
    """A value with arrays in place of their stand-ins; what is there twice is made once."""
    made = {} if made is None else made
    if id(value) not in made:
        made[id(value)] = _made_plain(value, made)
    return made[id(value)]


def _made_plain(value, made):
    if isinstance(value, _Array):
        return value.array()
    if isinstance(value, dict):
        return {key: _plain(part, made) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(part, made) for part in value)
    if not isinstance(value, bytes | str | int | float | None):
        raise pickle.UnpicklingError(f"a {type(value).__name__}")
    return value


class _Array:
    """What an array is made of: the stand-in for the function that begins one."""

    def __init__(self, *arguments):
        self.state = None

    def __setstate__(self, state):
        self.state = state

    def array(self):
        _, shape, dtype, by_columns, content = self.state
        values = np.frombuffer(content, dtype.numpy())
        return values.reshape(shape, order="F" if by_columns else "C")


class _Dtype:
    """What a dtype is called, and the order of its bytes."""

    def __init__(self, code, *flags):
        self.code, self.order = _text(code), "|"

    def __setstate__(self, state):
        self.order = _text(state[1])

    def numpy(self):
        if not re.fullmatch("b1|[iu][1248]|f[248]", self.code) or self.order not in "|<>=":
            raise pickle.UnpicklingError(f"an array of dtype {self.code!r}")
        return np.dtype(self.order + self.code)


class _Encode:
    """The bytes of an array, which Python 3 writes as a text for Python 2."""

    __slots__ = ()

    def __call__(self, text, encoding):
        if encoding != "latin1":
            raise pickle.UnpicklingError(f"bytes encoded as {encoding!r}")
        return text.encode("latin1")

    def __setstate__(self, state):
        raise pickle.UnpicklingError("one that changes a function")


class _Reader(pickle.Unpickler):
    KNOWN = {
        "numpy.core.multiarray._reconstruct": _Array,
        "numpy.dtype": _Dtype,
        "numpy.ndarray": "ndarray",  # an argument of the first, of no use here
        "_codecs.encode": _Encode(),
    }

    def find_class(self, module, name):
        full = f"{module}.{name}".replace("numpy._core.", "numpy.core.")
        if full not in self.KNOWN:
            raise pickle.UnpicklingError(f"one that asks for {module}.{name}")
        return self.KNOWN[full]


def _text(value):
    return value.decode("ascii") if isinstance(value, bytes) else value
