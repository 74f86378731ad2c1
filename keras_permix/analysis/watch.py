"""Record the arguments and outputs of layers while a model runs."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

CALLS = ("call", "quantized_call")  # Keras calls one of these.


@contextlib.contextmanager
def watched(layer: Any, note: Callable[[Any, dict[str, Any], Any], None]) -> Iterator[None]:
    """Call `note(layer, arguments, outputs)` after each call of a layer.

    `arguments` is a dict in the order of the signature. The layer is restored afterwards.
    """
    held = vars(layer)
    before = {name: held[name] for name in CALLS if name in held}
    for name in CALLS:
        held[name] = _reporting(layer, getattr(layer, name), note)
    try:
        yield
    finally:
        for name in CALLS:
            del held[name]
        held.update(before)


def _reporting(layer, call, note):
    signature = inspect.signature(call)

    @functools.wraps(call)
    def wrapper(*args, **kwargs):
        outputs = call(*args, **kwargs)
        note(layer, dict(signature.bind(*args, **kwargs).arguments), outputs)
        return outputs

    return wrapper
