"""Unpickle arrays and lists without calling what a pickle names.

A pickle may call any function. `_Reader` knows the four names that NumPy's arrays need. None of
them reaches NumPy, where a wrong size or dtype could do harm.
"""

import io
import pickle
import pickletools
import re

import numpy as np


def unpickle_arrays(blob):
    """Return a pickled dict of arrays, lists, numbers and text.

    Args:
        blob: The bytes of the pickle, of Python 2 or 3.

    Raises:
        ValueError: if it is damaged, no dict, or names any other object.

    Example:

    >>> import pickle
    >>> from keras_permix.data.unpickle import unpickle_arrays
    >>> unpickle_arrays(pickle.dumps({"labels": [3, 1]}))
    {'labels': [3, 1]}
    """
    try:
        for opcode, number, _ in pickletools.genops(blob):
            if opcode.name.endswith("PUT") and int(number) > len(blob):  # as large as its memory
                raise pickle.UnpicklingError("a memo of more entries than bytes")
        values = _Reader(io.BytesIO(blob), encoding="bytes").load()
        return {key: _plain(value) for key, value in values.items()}
    except Exception as error:  # Damaged pickles raise all kinds of exceptions.
        raise ValueError(
            "A pickle of data must be a dict of arrays and plain values, and whole; nothing else "
            f"is read. Received: {error}"
        ) from error


def _plain(value):
    if isinstance(value, _Array):
        return value.array
    if not isinstance(value, bytes | str | int | float | list | None):
        raise pickle.UnpicklingError(f"a {type(value).__name__}")
    return value


class _Array:
    def __init__(self, *arguments):
        self.array = np.zeros(0)

    def __setstate__(self, state):
        _, shape, dtype, by_columns, content = state
        values = np.frombuffer(content, dtype.numpy())
        self.array = values.reshape(shape, order="F" if by_columns else "C")


class _Dtype:
    def __init__(self, code, *flags):
        self.code, self.order = _text(code), "|"

    def __setstate__(self, state):
        self.order = _text(state[1])

    def numpy(self):
        if not re.fullmatch("b1|[iu][1248]|f[248]", self.code) or self.order not in "|<>=":
            raise pickle.UnpicklingError(f"an array of dtype {self.code!r}")
        return np.dtype(self.order + self.code)


class _Reader(pickle.Unpickler):
    KNOWN = {
        "numpy.core.multiarray._reconstruct": _Array,
        "numpy.dtype": _Dtype,
        "numpy.ndarray": None,  # an argument of the first
        "_codecs.encode": str.encode,  # of the bytes that Python 3 writes for Python 2
    }

    def find_class(self, module, name):
        full = f"{module}.{name}".replace("numpy._core.", "numpy.core.")
        if full not in self.KNOWN:
            raise pickle.UnpicklingError(f"one that asks for {module}.{name}")
        return self.KNOWN[full]


def _text(value):
    return value.decode("ascii") if isinstance(value, bytes) else value
