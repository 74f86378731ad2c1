"""Layers and models made anew by their configs."""

import contextlib
import inspect

import keras

OF_KERAS = ("name", "trainable", "dtype")  # what the config of every layer holds
FROM_CONFIG = (keras.Layer.from_config.__func__, keras.Model.from_config.__func__)


def remake(layer):
    """Another layer or model like `layer`, with fresh weights, by its `get_config`.

    A constructor need not take what Keras' own config adds to its arguments. An operation that is
    no layer, as `+` makes one of a functional model, is made anew as well.

    Raises:
        ValueError: for a class of people's own that cannot be made anew so.
    """
    cls, config = type(layer), {}
    if not isinstance(layer, keras.Layer):
        return cls.from_config(layer.get_config())
    untaken = [name for name in OF_KERAS if not _takes(cls, name)]
    # What a constructor that takes no dtype makes within has that of its making.
    policy = layer.dtype_policy if "dtype" in untaken else keras.config.dtype_policy()
    try:
        config = layer.get_config()
        with _under(policy):
            other = cls.from_config({name: config[name] for name in config if name not in untaken})
    except Exception as error:  # of the class's own code, which may raise anything
        if cls.__module__.startswith("keras."):
            raise
        lacking = ", ".join(name for name in _needed(cls) if name not in config)
        reason = f"`get_config` without {lacking}" if lacking else error
        raise _refusal(layer, reason) from error
    if "name" in untaken:
        other.name = layer.name
    return other


@contextlib.contextmanager
def _under(policy):
    """Make layers with this dtype policy where nothing else is said."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def rebuild(copy, model):
    """Build a copy of a model, if it is not built, from what `model` was built from."""
    if copy.built:
        return
    try:
        copy.build_from_config(model.get_build_config() or {})
    except Exception as error:
        raise _refusal(model, error) from error


def matched(old, new, layer):
    """Pairs of what a layer has and what the one made anew has, as many of these as of those."""
    if len(old) != len(new):
        raise _refusal(layer, f"{len(new)} weights or layers in place of {len(old)}")
    return zip(old, new, strict=True)


def _refusal(layer, reason):
    return ValueError(
        "What `model` is made of must be such that Keras can make it anew: by a `get_config` with "
        "all that its constructor needs, and built from its input shape. "
        f"Received: {layer.name} of the class {type(layer).__name__} ({reason})"
    )


def _takes(cls, name):
    """Whether a constructor takes an argument, or a class has its own way with a config."""
    parameters = inspect.signature(cls.__init__).parameters
    open_ended = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return open_ended or name in parameters or cls.from_config.__func__ not in FROM_CONFIG


def _needed(cls):
    """The arguments without which a constructor does not do."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    _, *parameters = inspect.signature(cls.__init__).parameters.values()
    return [one.name for one in parameters if one.kind in named and one.default is one.empty]
