"""Define the token mixers that models, benchmarks and surgery select by name."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras

from keras_permix._typing import Layer
from keras_permix.layers.attention.linear_attention import LinearAttention, PerformerAttention
from keras_permix.layers.attention.linformer_attention import LinformerAttention
from keras_permix.layers.attention.local_attention import LocalAttention, root_block
from keras_permix.layers.attention.simple_attention import SimpleAttention
from keras_permix.layers.attention.softmax_attention import SoftmaxAttention
from keras_permix.layers.butterfly.butterfly_block import ButterflyAttention
from keras_permix.layers.mega.damped_ema import DampedEMA
from keras_permix.layers.mixing.baselines import FourierMixer
from keras_permix.layers.mixing.causal_csp import CausalCSP
from keras_permix.layers.mixing.csp import CSP, SinkhornCSP
from keras_permix.layers.mixing.slice_sort import SliceSort
from keras_permix.layers.parts.wrappers import parameters_of, serialize_unbuilt
from keras_permix.utils.checks import check_named, plain


class Mixer(NamedTuple):
    """Describe a mixer: a layer that keeps the shape of tokens, and its default arguments."""

    layer: type[Any]
    defaults: dict[str, Any]


MIXERS = {
    "attention": Mixer(SoftmaxAttention, {}),
    "butterfly_attention": Mixer(ButterflyAttention, {}),
    "causal_csp": Mixer(CausalCSP, {}),
    "circular_shift": Mixer(CSP, {"group_size": 1}),
    "csp": Mixer(CSP, {}),
    "damped_ema": Mixer(DampedEMA, {"bidirectional": True}),
    "fourier": Mixer(FourierMixer, {}),
    "linear_attention": Mixer(LinearAttention, {}),
    "linformer": Mixer(LinformerAttention, {}),
    "local_attention": Mixer(LocalAttention, {}),
    "max_exchange": Mixer(SliceSort, {"order": "max_exchange"}),
    "performer": Mixer(PerformerAttention, {}),
    "simple_attention": Mixer(SimpleAttention, {}),
    "sinkhorn_csp": Mixer(SinkhornCSP, {}),
    "slice_sort": Mixer(SliceSort, {}),
}
CUSTOM = "custom"  # the name of a layer outside `MIXERS`


def check_mixer(spec: str | dict[str, Any] | Layer) -> dict[str, Any]:
    """Return a mixer, given as a name, a dict with a `"name"`, or a layer, as a dict.

    Of a layer in `MIXERS`, only the arguments that differ from their defaults are kept.
    """
    if isinstance(spec, keras.layers.Layer):
        return _spec_of_layer(spec)
    if isinstance(spec, dict) and spec.get("name") == CUSTOM:
        return plain(spec)
    return check_named("mixer", spec, MIXERS)


def _spec_of_layer(layer):
    if not layer.trainable:
        rule = "`mixer` must be a trainable layer; freeze layers of the model instead"
        raise ValueError(f"{rule}. Received: mixer={layer!r}")
    names = [name for name, mixer in MIXERS.items() if mixer.layer is type(layer)]
    if not names:
        return {"name": CUSTOM, "config": plain(serialize_unbuilt(layer))}  # not in `MIXERS`
    name = next((name for name in names if not MIXERS[name].defaults), names[0])
    config = layer.get_config()
    others = {*parameters_of(keras.layers.Layer), "layer_index", "num_layers"}  # set by the model
    given = {
        key: config[key]
        for key, parameter in parameters_of(type(layer)).items()
        if key in config.keys() - others
        and (config[key] != parameter.default or key in MIXERS[name].defaults)
    }
    return {**given, "name": name}


def check_mixer_or_none(spec: Any) -> dict[str, Any] | None:
    """Return a mixer as a dict, or `None` for the default of the model."""
    return None if spec is None else check_mixer(spec)


def check_mixers(specs: Any, num_layers: int, check: Callable[[Any], Any] = check_mixer) -> Any:
    """Return the mixer of all blocks, or a list of one per block, checked by `check`.

    `specs` may also be a function from the index of a block to its mixer.
    """
    if isinstance(specs, type):
        raise TypeError(f"`mixer` must be a layer, not its class. Received: {specs.__name__}")
    if callable(specs) and not isinstance(specs, keras.layers.Layer):
        specs = [specs(index) for index in range(num_layers)]
    if not isinstance(specs, list | tuple):
        return check(specs)
    if len(specs) != num_layers:
        rule = f"`mixer` must be one mixer, or a list of {num_layers}, one per block."
        raise ValueError(f"{rule} Received: mixer={specs!r}")
    specs = [check(spec) for spec in specs]
    return specs[0] if all(spec == specs[0] for spec in specs) else specs


def mixer_at(specs: Any, index: int) -> Any:
    """Return the mixer of block `index` from the result of `check_mixers`."""
    return specs[index] if isinstance(specs, list) else specs


def is_causal(spec: dict[str, Any]) -> bool:
    """Return whether no output token of a mixer depends on a later token."""
    forward = spec.get("bidirectional") is False
    return spec["name"] == "causal_csp" or bool(spec.get("causal")) or forward


def sized(spec: dict[str, Any], longest: int) -> dict[str, Any]:
    """Add the sizes that a mixer derives from the longest sequence of its model."""
    if spec["name"] == "linformer":
        return {"max_sequence_length": longest, **spec}
    if spec["name"] == "butterfly_attention" and spec.get("block_size") is None:
        return {**spec, "block_size": root_block(longest)}
    return spec


def make_mixer(
    spec: str | dict[str, Any],
    layer_index: int = 0,
    num_layers: int = 1,
    inner_dim: int | None = None,
    num_heads: int | None = None,
    use_bias: bool | None = None,
    ragged: bool = False,
    **arguments: Any,
) -> Layer:
    """Make a mixer, a layer that keeps the shape of tokens `(batch, tokens, channels)`.

    `spec` is an argument of `check_mixer`. A layer is copied without its weights and its place in
    a model. Arguments in `spec` override all others. `inner_dim` is the number of channels of all
    heads, for mixers that project, and `num_heads` is for mixers with heads. `use_bias` applies to
    all projections, and `ragged` to mixers with groups. All mixers take the other `arguments`, such
    as `dropout` and `dtype`.
    """
    spec = check_mixer(spec)
    if spec["name"] == CUSTOM:
        config = spec["config"]
        given = {name: arguments[name] for name in ("name", "dtype") if arguments.get(name)}
        return keras.layers.deserialize({**config, "config": {**config["config"], **given}})
    mixer = MIXERS[spec.pop("name")]
    known = parameters_of(mixer.layer)
    place = {"layer_index": layer_index, "num_layers": num_layers}
    of_some = {**place, "num_heads": num_heads, "ragged": ragged or None}
    of_some |= {name: use_bias for name in known if name.endswith("_bias")}
    arguments |= {
        name: value for name, value in of_some.items() if name in known and value is not None
    }
    if inner_dim is not None:
        arguments |= _inner(inner_dim, known, {**arguments, **spec})
    return mixer.layer(**{**arguments, **mixer.defaults, **spec})


def arguments_of(name: str) -> set[str]:
    """Return the argument names of a mixer of `MIXERS`."""
    return set(parameters_of(MIXERS[name].layer))


def _inner(inner_dim, known, given):
    """Return `inner_dim` as the argument that the mixer takes, if any."""
    if "inner_dim" in known:
        return {"inner_dim": inner_dim}
    if "head_dim" not in known or "head_dim" in given:
        return {}
    heads = given.get("num_heads", known["num_heads"].default)
    if inner_dim % heads:
        raise ValueError(f"`num_heads` must divide {inner_dim=}. Received: num_heads={heads}")
    return {"head_dim": inner_dim // heads}
