"""Token mixers by name: what models, benchmarks and exchanges of mixers choose from."""

import inspect
from typing import Any, NamedTuple

import keras

from keras_permix._typing import Layer
from keras_permix.layers.attention.simple_attention import SimpleAttention
from keras_permix.layers.attention.softmax_attention import SoftmaxAttention
from keras_permix.layers.mixing.csp import CSP
from keras_permix.layers.mixing.sinkhorn_csp import SinkhornCSP
from keras_permix.layers.mixing.slice_sort import SliceSort
from keras_permix.layers.parts.checks import check_named, check_names


class Mixer(NamedTuple):
    """A layer that keeps the shape of tokens, and what it is made with unless it is told so.

    Where `has_place`, the layer takes its index among the layers of a model, `layer` of `layers`.
    """

    layer: type[Any]
    defaults: dict[str, Any]
    has_place: bool


MIXERS = {
    "attention": Mixer(SoftmaxAttention, {}, has_place=False),
    "circular_shift": Mixer(CSP, {"group_size": 1}, has_place=True),
    "csp": Mixer(CSP, {}, has_place=True),
    "max_exchange": Mixer(SliceSort, {"order": "max_exchange"}, has_place=True),
    "simple_attention": Mixer(SimpleAttention, {}, has_place=False),
    "sinkhorn_csp": Mixer(SinkhornCSP, {}, has_place=True),
    "slice_sort": Mixer(SliceSort, {}, has_place=True),
}


def check_mixer(spec: str | dict[str, Any]) -> dict[str, Any]:
    """Return `spec`, a name of `MIXERS` or a dict of it and arguments, as such a dict."""
    spec = check_named("mixer", spec, MIXERS)
    layer = MIXERS[spec["name"]].layer
    own: list[Any] = [cls for cls in layer.__mro__ if issubclass(cls, keras.layers.Layer)]
    known = {name for cls in own for name in inspect.signature(cls.__init__).parameters}
    check_names(layer.__name__, spec, known - {"self", "args", "kwargs"})
    return spec


def make_mixer(
    spec: str | dict[str, Any], layer: int = 0, layers: int = 1, **arguments: Any
) -> Layer:
    """Make a mixer.

    Args:
        spec: A name of `MIXERS`, or a dict with that `"name"` and arguments of the layer, which go
            before all others.
        layer: 0-based index of the mixer among those of its model.
        layers: Number of these.
        **arguments: Arguments that all mixers take, such as `dropout` and `dtype`.

    Returns:
        A layer that keeps the shape of tokens `(batch, tokens, channels)`.

    Raises:
        ValueError: for a name that no mixer has, or an argument out of range.

    Example:

    >>> from keras_permix.layers.mixers import make_mixer
    >>> make_mixer({"name": "csp", "group_size": 4}, layer=1, layers=6, dropout=0.1).group_size
    4
    """
    spec = check_mixer(spec)
    mixer = MIXERS[spec.pop("name")]
    place = {"layer": layer, "layers": layers} if mixer.has_place else {}
    return mixer.layer(**{**arguments, **mixer.defaults, **spec, **place})
