"""Another token mixer in a model that is there already."""

import contextlib
import warnings
from collections.abc import Sequence

import keras

from keras_permix.layers.mixers import check_mixer, make_mixer
from keras_permix.layers.parts.projections import assign_copy
from keras_permix.layers.parts.wrappers import MixingLayer
from keras_permix.surgery.choice import (
    check_swappable,
    fitting_arguments,
    indices,
    input_shape,
)
from keras_permix.surgery.projections import freeze_projections, projections, set_projections
from keras_permix.surgery.remake import matched, rebuild, remake
from keras_permix.surgery.zoo_models import swap_in_zoo
from keras_permix.zoo.model import ZooModel

MIXES = (keras.layers.MultiHeadAttention, MixingLayer)


def swap_mixer(
    model: keras.Model, mixer: str | dict, layers: int | str | Sequence[int | str] | None = None
) -> keras.Model:
    """Make a model with another token mixer, and the weights of this one wherever they fit.

    It finds Keras' `MultiHeadAttention` and the mixers of this package, wherever in the model they
    lie: in a functional or sequential model, in the layers of its layers, in a subclassed model,
    and in a model of the zoo. What is not swapped is copied; your own classes are made anew by
    their `get_config`, whether their constructors take `**kwargs` or not. Projections to values
    and back are carried over, and those to queries and keys where the new mixer has such. The
    model given is left as it was.

    A model of the zoo becomes one of the same class with another `mixer` in its config: a ViT, a
    `ButterflyViT` (whose mixers see a block of tokens), an `LRATransformer`, a `SimpleTRON`; a
    MEGA, with the mixers that it knows, its gates carried over; and a `Graphormer`, with those of
    graphs. (An MLP-Mixer has none.) What is frozen stays so, single weights as well.
    `keras_permix.analysis.macs` compares both models in weights and multiply-adds; of your
    own models it needs `inputs`, one sample.

    A functional or sequential model in which the swapped attention is a layer of its own is saved
    and loaded as any other. Within a layer of your own class, which makes its attention by itself,
    `load_model` would make that attention again, of which a warning tells: keep
    `save_weights("….weights.h5")`, and to load them make the model by your own code, swap the same
    mixers, and use `load_weights`.

    Args:
        model: A model that is built.
        mixer: A name of `keras_permix.layers.mixers.MIXERS` such as "csp", or a dict with that
            `"name"` and arguments of its layer. For MEGA and Graphormer what their `mixer` may be.
        layers: Which of the mixers of the model to swap: an index, 0-based, negative from the end,
            or the name of the layer, in a model of the zoo of its block; or a list of these.
            `None`: all.

    Returns:
        The new model, not compiled.

    Raises:
        ValueError: for a model without such mixers, one that is quantized, has LoRA, is not built
            or of classes that cannot be made anew, layers that it has not, or tokens that the mixer
            does not take.
        TypeError: for what is no model, for attention to another tensor, with a causal mask, or
            whatever else the mixer does not know. (Of a subclassed model that Keras cannot try
            without values, its first call says so.)

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
    if not isinstance(model, keras.Model):
        raise TypeError(f"`model` must be a Keras model. Received: model={model!r}")
    parts = model._flatten_layers()
    if any(part.quantization_mode or getattr(part, "lora_enabled", False) for part in parts):
        raise ValueError(
            "`model` must not be quantized, nor have LoRA: swap first, and quantize the new model, "
            f"or give it LoRA. Received: {model.name}"
        )
    if not model.built:
        raise ValueError(
            "`model` must be built: call it once on inputs. "
            f"Received: model={model.name}, which is not"
        )
    if isinstance(model, ZooModel):
        return swap_in_zoo(model, mixer, layers)
    spec = check_mixer(mixer)
    found = find_mixers(model)
    chosen = indices(layers, [layer.name for layer in found])
    swapped = {id(found[index]): index for index in chosen}
    for index in chosen:
        check_swappable(found[index], spec)
    made = []

    def make(layer):
        """What stands in the new model where `layer` stood."""
        if id(layer) not in swapped:
            return remake(layer)
        arguments = {
            **fitting_arguments(layer, spec),
            "dtype": layer.dtype_policy,
            "name": layer.name,
        }
        arguments["dropout"] = layer.get_config().get("dropout", 0.0)
        arguments["ragged"] = None in input_shape(layer)[1:-1]  # a length that no group must divide
        made.append(make_mixer(spec, swapped[id(layer)], len(found), **arguments))
        return made[-1]

    copy = _copy(model, make)
    within = sorted(_fill(model, copy, swapped, make, made, set()))
    _try(copy, model)
    if within:
        warnings.warn(
            f"What makes its attention by itself ({', '.join(within)}) would make attention again "
            "in `clone_model` and `load_model` of the new model. Keep its weights with "
            "`save_weights`, and to load them swap again before `load_weights`.",
            stacklevel=2,
        )
    return copy


def find_mixers(model: keras.layers.Layer) -> list:
    """The mixers of tokens in a model, in the order in which its layers hold them."""
    found, seen = [], set()

    def look(layer):
        for part in _parts(layer):
            if id(part) in seen:
                continue
            seen.add(id(part))
            if isinstance(part, MIXES):
                found.append(part)
            else:
                look(part)

    look(model)
    return found


def _parts(layer):
    return list(layer._flatten_layers(include_self=False, recursive=False))


def _is_graph(model):
    """Whether a model is functional or sequential."""
    return isinstance(model, keras.Sequential) or hasattr(model, "_run_through_graph")


def _try(copy, model):
    """Call the copy without values, which says what a mixer does not take.

    A subclassed one is called as it was built. Where its model fails so as well, nothing is known.
    """
    if _is_graph(copy):
        sequential = isinstance(copy, keras.Sequential)
        copy.compute_output_spec(copy.inputs[0] if sequential else copy.input)
        return
    shapes = (model.get_build_config() or {}).get("input_shape")
    if shapes is None:
        return
    tokens, works = keras.tree.map_shape_structure(keras.KerasTensor, shapes), False
    try:
        copy.compute_output_spec(tokens)
    except Exception as error:  # of classes that are not ours
        with contextlib.suppress(Exception):
            model.compute_output_spec(tokens)
            works = True
        if works:
            raise (error.__context__ or error) from None  # without what Keras says around it


def _copy(model, make):
    """A model like `model`, of the layers that `make` gives."""
    if _is_graph(model):
        try:
            return keras.models.clone_model(model, clone_function=make, recursive=True)
        except (TypeError, ValueError):
            if type(model).__module__.startswith("keras."):
                raise  # The constructor of another class may make layers that their configs do not.
    copy = remake(model)
    rebuild(copy, model)
    return copy


def _fill(old, new, swapped, make, made, seen):
    """Give the copy the weights, and mixers to the layers that had made theirs by themselves.

    Returns the names of the classes of these layers.
    """
    within: set[str] = set()
    if id(old) in seen:
        return within
    seen.add(id(old))
    new.trainable = old.trainable
    for theirs, ours in matched(_variables(old), _variables(new), old):
        assign_copy(ours, theirs)
        ours.trainable = theirs.trainable
    for before, after in matched(_parts(old), _parts(new), old):
        if id(before) not in swapped:
            within |= _fill(before, after, swapped, make, made, seen)
            continue
        if id(before) in seen:
            continue
        if not any(after is mixer for mixer in made):
            mixer = make(before)
            mixer.build(input_shape(before))
            _replace(new, after, mixer)
            within.add(type(new).__name__)
            after = mixer
        seen.add(id(before))
        after.trainable = before.trainable
        set_projections(after, projections(before))
        freeze_projections(after, before)
    return within


def _variables(layer):
    return [*layer._trainable_variables, *layer._non_trainable_variables]


def _replace(owner, layer, other):
    """Put another layer where `owner` holds `layer`: in an attribute, or a list or dict of it."""
    owner._tracker.replace_tracked_value("layers", layer, other)
    done = False
    for name in [*vars(owner), *vars(owner).get("_modules", ())]:  # where PyTorch keeps layers
        value = getattr(owner, name, None)
        if value is layer:
            delattr(owner, name)
            setattr(owner, name, other)
            done = True
        elif isinstance(value, list | dict) and name not in ("_layers", "_modules"):
            items = enumerate(value) if isinstance(value, list) else value.items()
            for key in [key for key, item in items if item is layer]:
                value[key] = other
                done = True
    if not done:
        raise ValueError(
            "An attention within a layer must be an attribute of it, or lie in a list or a dict. "
            f"Received: {layer.name} in {type(owner).__name__}"
        )
