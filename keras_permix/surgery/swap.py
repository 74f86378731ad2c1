"""Replace the token mixers of an existing model."""

import inspect
import tempfile
import warnings
from collections.abc import Sequence

import keras

from keras_permix.layers.blocks.mixer_block import MixerBlock
from keras_permix.layers.butterfly.butterfly_block import ButterflyBlock
from keras_permix.layers.mega.mega_block import MegaBlock
from keras_permix.layers.mixers import check_mixer, make_mixer
from keras_permix.layers.mixing.token_mixer import MixingLayer
from keras_permix.layers.parts.wrappers import assign_copy
from keras_permix.surgery.mixers import (
    check_swappable,
    copy_projections,
    fitting_arguments,
    indices,
    input_shape,
)
from keras_permix.surgery.zoo_models import swap_in_zoo
from keras_permix.zoo.model import ZooModel

MIXES = (keras.layers.MultiHeadAttention, MixingLayer)


def swap_mixer(
    model: keras.Model, mixer: str | dict, layers: int | str | Sequence[int | str] | None = None
) -> keras.Model:
    """Replace the token mixers of a model, and keep the weights that fit.

    Replaces Keras' `MultiHeadAttention` and the mixers of this package in functional and
    sequential models, zoo and KerasHub models, custom layers and subclassed models. The rest is
    copied, and `model` is not changed. Value and output projections are kept. Query and key
    projections are kept if the new mixer has them. Frozen weights stay frozen, and shared layers
    stay shared.

    A custom layer or model is copied by its `get_config`. Its attention, and layers that it shares
    with others, must be attributes or in lists of layers. `clone_model` and `load_model` create the
    attention of such a class again, so `swap_mixer` warns. Store its weights with
    `save_weights("….weights.h5")`, and swap the same mixers before `load_weights`.

    A zoo model keeps its class, with another `mixer` in its config. MEGA keeps its gates,
    `Graphormer` accepts graph mixers, and MLP-Mixers have no mixer to swap. A zoo model inside
    another model becomes a plain model, and a `MegaBlock` inside another model is kept.
    `keras_permix.analysis.swap_report` compares the parameters and multiply-adds of both models.

    Args:
        model: A built model.
        mixer: A name of `keras_permix.layers.mixers.MIXERS` such as "csp", or a dict with that
            `"name"` and arguments of its layer. For MEGA and Graphormer, a value of their argument
            `mixer`.
        layers: Mixers to swap: an index from 0, or negative from the end; the name of a layer (of a
            block in a zoo model); or a list of these. Defaults to all.

    Returns:
        The new model, not compiled.

    Raises:
        ValueError: for a model without such mixers, or one that is quantized, has LoRA or is not
            built. Also for a class that cannot be copied, unknown layers, or a number of tokens
            that the mixer does not support.
        TypeError: for attention to another tensor, or a causal mask that the mixer does not
            support. A subclassed model raises it when it is called.

    Example:
        >>> import keras
        >>> from keras_permix import swap_mixer
        >>> tokens = keras.Input((16, 8))
        >>> attended = keras.layers.MultiHeadAttention(num_heads=2, key_dim=4)(tokens, tokens)
        >>> model = keras.Model(tokens, keras.layers.Dense(3)(attended))
        >>> swapped = swap_mixer(model, "csp")
        >>> [type(layer).__name__ for layer in swapped.layers]
        ['InputLayer', 'CSP', 'Dense']
        >>> model.count_params(), swapped.count_params()
        (315, 171)
    """
    parts = model._flatten_layers()
    if any(part.quantization_mode or getattr(part, "lora_enabled", False) for part in parts):
        raise ValueError(f"`model` must not be quantized or have LoRA. Received: {model.name}")
    if not model.built:
        raise ValueError(f"`model` must be built: call it once. Received: {model.name}")
    if isinstance(model, ZooModel):
        return swap_in_zoo(model, mixer, layers)
    spec = check_mixer(mixer)
    found = find_mixers(model)
    chosen = indices(layers, [layer.name for layer in found])
    swapped = {id(found[index]): index for index in chosen}
    for index in chosen:
        check_swappable(found[index], spec)
    copies: dict[int, keras.layers.Layer] = {}  # by the id of the old layer, which may be shared

    def make(layer):
        """Return the layer of the new model that corresponds to `layer`."""
        if id(layer) not in copies:
            copies[id(layer)] = new_layer(layer)
        return copies[id(layer)]

    def new_layer(layer):
        if id(layer) not in swapped:
            if isinstance(layer, keras.layers.Wrapper) and _is_graph(layer.layer):
                config = {name: x for name, x in layer.get_config().items() if name != "layer"}
                return type(layer)(make(layer.layer), **config)
            return _copy(layer, make, copies) if _is_graph(layer) else _remake(layer)
        arguments = {
            "dtype": layer.dtype_policy,
            "name": layer.name,
            "dropout": layer.get_config().get("dropout", 0.0),
            "ragged": None in input_shape(layer)[1:-1],  # for any number of tokens
            **fitting_arguments(layer, spec),
        }
        return make_mixer(spec, swapped[id(layer)], len(found), **arguments)

    copy = _copy(model, make, copies)
    within = sorted(_transfer(model, copy, swapped, make, copies, set()))
    if _is_graph(copy):  # check that the new mixers support the shapes
        graph = getattr(copy, "_functional", copy)
        graph._run_through_graph(copy.inputs, operation_fn=lambda layer: layer.compute_output_spec)
    if within:
        warnings.warn(
            f"Classes that create attention ({', '.join(within)}) create it again in `clone_model` "
            "and `load_model` of the new model. Save its weights with `save_weights`, and swap "
            "the same mixers before `load_weights`.",
            stacklevel=2,
        )
    return copy


def find_mixers(model: keras.layers.Layer) -> list:
    """Return the token mixers of a model, in the order of its layers."""
    found, seen = [], set()

    def look(layer):
        for part in _parts(layer):
            if id(part) in seen:
                continue
            seen.add(id(part))
            if isinstance(part, MIXES) and not isinstance(part, ButterflyBlock):
                found.append(part)
            elif not isinstance(part, MegaBlock):
                look(part)

    look(model)
    return found


def _parts(layer):
    return list(layer._flatten_layers(include_self=False, recursive=False))


def _is_graph(model):
    """Return whether a model is functional or sequential."""
    return isinstance(model, keras.Sequential) or hasattr(model, "_run_through_graph")


def _copy(model, make, copies):
    """Return a copy of a model, with the layers that `make` returns and stores in `copies`."""
    if _is_graph(model):
        before = dict(copies)
        try:
            copy = keras.models.clone_model(model, clone_function=make)
            copy.optimizer, copy.compiled = None, False
            return copy
        except (TypeError, ValueError):
            if type(model).__module__.startswith("keras."):
                raise  # Constructors of other classes may make layers that configs do not describe.
            copies.clear()
            copies.update(before)
    copy = _remake(model)
    if not copy.built:
        try:
            copy.build_from_config(model.get_build_config() or {})
        except Exception as error:  # of a custom class
            raise _refusal(model, error) from error
    return copy


def _remake(layer):
    """Return a copy of a layer, model or operation by its config, with new weights."""
    cls = type(layer)
    parameters = inspect.signature(cls.__init__).parameters.values()
    untaken = {"name", "trainable", "dtype"} - {one.name for one in parameters}  # in all configs
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        untaken = set()
    try:
        config = layer.get_config()
        copy = cls.from_config({name: config[name] for name in config if name not in untaken})
    except Exception as error:  # of a custom class
        if cls.__module__.startswith("keras."):
            raise
        raise _refusal(layer, error) from error
    if isinstance(layer, keras.Layer):
        if copy.dtype_policy != layer.dtype_policy:
            raise _refusal(layer, f"a copy of dtype {copy.dtype_policy.name}")
        copy.name = layer.name
    return copy


def _transfer(old, new, swapped, make, copies, seen):
    """Copy the weights, and replace layers that custom layers made: mixers and shared layers.

    Returns the names of classes whose config does not describe a new mixer.
    """
    within: set[str] = set()
    if id(old) in seen:
        return within
    seen.add(id(old))
    new._trainable = old.trainable  # `trainable` would change layers inside, which may be shared
    for theirs, ours in _pairs(_variables(old), _variables(new), old):
        assign_copy(ours, theirs)
        ours.trainable = theirs.trainable
    if hasattr(old, "save_assets"):  # a vocabulary
        with tempfile.TemporaryDirectory() as folder:
            old.save_assets(folder)
            new.load_assets(folder)
    for before, after in _pairs(_parts(old), _parts(new), old):
        mixes = id(before) in swapped
        if mixes and id(before) not in copies:
            make(before).build(input_shape(before))
        copy = copies.setdefault(id(before), after)
        if copy is not after and (mixes or before.variables):
            _replace(new, after, copy)
            if mixes and type(new) not in (MixerBlock, ButterflyBlock):
                within.add(type(new).__name__)
        if not mixes:
            within |= _transfer(before, copy, swapped, make, copies, seen)
        elif id(before) not in seen:
            seen.add(id(before))
            copy.trainable = before.trainable
            copy_projections(copy, before)
    return within


def _variables(layer):
    return [*layer._trainable_variables, *layer._non_trainable_variables]


def _pairs(old, new, layer):
    if len(old) != len(new):
        raise _refusal(layer, f"a copy with {len(new)} weights or layers, not {len(old)}")
    return zip(old, new, strict=True)


def _replace(owner, layer, other):
    """Replace `layer` in the attributes and lists of `owner`."""
    names = [*vars(owner), *vars(owner).get("_modules", ())]  # PyTorch stores layers in `_modules`
    attributes = [name for name in names if getattr(owner, name, None) is layer]
    lists = [value for value in vars(owner).values() if isinstance(value, list) and layer in value]
    if _is_graph(owner):
        raise _refusal(owner, f"{layer.name} is in a graph that the class makes")
    if not attributes and len(lists) < 2:  # the first is the list of all layers
        raise _refusal(owner, f"{layer.name} is in neither an attribute nor a list")
    # Built layers, such as KerasHub's, accept new sub-layers only as a replacement.
    owner._tracker.replace_tracked_value("layers", layer, other)
    for name in attributes:
        delattr(owner, name)
        setattr(owner, name, other)
    for value in lists:
        value[:] = [other if item is layer else item for item in value]


def _refusal(layer, reason):
    return ValueError(
        "A custom class must support `get_config`, and hold attention and shared layers in "
        "attributes or lists of layers. Otherwise, replace attention in the code of the class:\n"
        "    self.attention = keras_permix.layers.CSP()  # instead of MultiHeadAttention\n"
        "    x = self.attention(x)  # instead of its call\n"
        f"Received: {layer.name} of the class {type(layer).__name__} ({reason})"
    )
