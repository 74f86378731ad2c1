"""Another token mixer in a model that is there already."""

import keras
from keras import ops

from keras_permix.layers.attention.self_attention import SelfAttention
from keras_permix.layers.mixers import MIXERS, check_mixer, check_mixers, make_mixer, mixer_at
from keras_permix.layers.mixing.token_mixer import TokenMixer
from keras_permix.layers.parts.one_tensor import OneTensor
from keras_permix.layers.parts.projections import projections, set_projections
from keras_permix.zoo.model import ZooModel

MIXES = (keras.layers.MultiHeadAttention, OneTensor)
# Arguments that make an attention more than a mixer of tokens, and what they are usually.
BEYOND = {"output_shape": None, "use_gate": False, "sliding_window": None}


def swap_mixer(model: keras.Model, mixer: str | dict, layers: list | None = None) -> keras.Model:
    """Make a model with another token mixer, and the weights of this one wherever they fit.

    It finds Keras' `MultiHeadAttention` and the mixers of this package, wherever in the model they
    lie: in a functional or sequential model, in the layers of its layers, in a subclassed model
    that Keras can make anew from its config, and in a model of the zoo. What is not swapped is
    copied. Projections to values and back are carried over, and those to queries and keys where
    the new mixer has such. The model given is left as it was.

    A ViT or an `LRATransformer` of the zoo becomes one of the same class with another `mixer` in
    its config. (Others have their mixer as a part that cannot be changed, or as an argument: make a
    new one. `SimpleTRON.with_attention` moves its weights.) Another
    model that is swapped within a layer of its own class, which makes its attention by itself, is
    not made anew from a `.keras` file: swap a fresh one and use `load_weights`.

    Args:
        model: A model that is built.
        mixer: A name of `keras_permix.layers.mixers.MIXERS` such as "csp", or a dict with that
            `"name"` and arguments of its layer.
        layers: Which of the mixers of the model to swap: their indices, 0-based, negative from the
            end, or the names of these layers, in a model of the zoo of its blocks. `None`: all.

    Returns:
        The new model, not compiled.

    Raises:
        ValueError: for a model without such mixers, one that is quantized, not built or cannot be
            made anew, layers that it has not, or tokens that the mixer does not take.
        TypeError: for attention to another tensor, with a causal mask, or whatever else the mixer
            has no place for. (Inside a subclassed model, its first call says so.)

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
    spec = check_mixer(mixer)
    if any(layer.quantization_mode for layer in model._flatten_layers()):
        raise ValueError(
            "`model` must not be quantized: swap first, and quantize the new model. "
            f"Received: {model.name}"
        )
    if not model.built:
        raise ValueError(
            "`model` must be built: call it once on inputs. "
            f"Received: model={model.name}, which is not"
        )
    if isinstance(model, ZooModel):
        return _swap_in_zoo(model, spec, layers)
    found = find_mixers(model)
    chosen = _indices(layers, [layer.name for layer in found])
    swapped = {id(found[index]): index for index in chosen}
    for index in chosen:
        _check_swappable(found[index], spec)
    made = []

    def make(layer):
        """What stands in the new model where `layer` stood."""
        if id(layer) not in swapped:
            return type(layer).from_config(layer.get_config())
        arguments = {**_arguments(layer, spec), "dtype": layer.dtype_policy, "name": layer.name}
        arguments["dropout"] = layer.get_config().get("dropout", 0.0)
        made.append(make_mixer(spec, swapped[id(layer)], len(found), **arguments))
        return made[-1]

    copy = _copy(model, make)
    _fill(model, copy, swapped, make, made, set())
    if _is_graph(copy):
        sequential = isinstance(copy, keras.Sequential)
        copy.compute_output_spec(copy.inputs[0] if sequential else copy.input)  # or says what not
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


def _indices(layers, names):
    """The chosen mixers of a model, by their places among all, whose names these are."""
    if not names:
        raise ValueError(
            "`model` must hold Keras' `MultiHeadAttention` or a mixer of keras_permix. "
            "Received: a model with neither"
        )
    if layers is None:
        return list(range(len(names)))
    chosen = []
    for layer in [layers] if isinstance(layers, int | str) else layers:
        number = isinstance(layer, int) and -len(names) <= layer < len(names)
        if not number and names.count(layer) != 1:
            raise ValueError(
                f"`layers` must be indices of the {len(names)} mixers of the model, or names that "
                f"one of them has: {names}. Received: layers={layers}"
            )
        chosen.append(layer % len(names) if number else names.index(layer))
    return chosen


def _check_swappable(layer, spec):
    """Refuse an attention that is more than one over all tokens of one tensor."""
    causal = isinstance(layer, OneTensor) and layer.does("use_causal_mask")
    if causal and not spec.get("causal") and spec.get("bidirectional", True):
        raise TypeError(
            "A causal mixer is swapped for one that is causal as well, such as "
            f'{{"name": "simple_attention", "causal": True}}. Received: {layer.name}, mixer={spec}'
        )
    if not isinstance(layer, keras.layers.MultiHeadAttention):
        return
    config = layer.get_config()
    all_axes = tuple(range(1, len(_input_shape(layer)) - 1))
    for name, usual in {**BEYOND, "attention_axes": all_axes}.items():
        given = config.get(name) or usual
        if given != usual and tuple(given) != usual:
            raise ValueError(
                f"A `MultiHeadAttention` with `{name}` cannot be swapped. "
                f"Received: {name}={given} of {layer.name}"
            )


def _arguments(layer, spec):
    """Arguments with which a new mixer is as wide as `layer`, and has the same biases."""
    kind = MIXERS[spec["name"]].layer
    parts = projections(layer)
    if "value" not in parts:
        return {}
    kernel, bias = parts["value"]
    width, inner = kernel.shape
    if issubclass(kind, TokenMixer):
        sizes = {} if inner == width else {"inner_dim": inner}
        return {**sizes, "use_value_bias": bias is not None}
    heads = spec.get("num_heads", getattr(layer, "num_heads", None))
    if not issubclass(kind, SelfAttention) or not heads:
        return {}
    if inner % heads:
        raise ValueError(
            f"`num_heads` must divide the {inner} channels of the values of {layer.name}. "
            f"Received: mixer={spec}"
        )
    return {"num_heads": heads, "head_dim": inner // heads, "use_qkv_bias": bias is not None}


def _is_graph(model):
    """Whether a model is functional or sequential."""
    return isinstance(model, keras.Sequential) or hasattr(model, "_run_through_graph")


def _copy(model, make):
    """A model like `model`, of the layers that `make` gives."""
    if _is_graph(model):
        return keras.models.clone_model(model, clone_function=make, recursive=True)
    try:
        copy = type(model).from_config(model.get_config())
        copy.build_from_config(model.get_build_config())
    except (TypeError, ValueError, NotImplementedError) as error:
        raise ValueError(
            "A subclassed `model` must be one that Keras can make anew: by `get_config`, and "
            f"`build` from its input shape. Received: {type(model).__name__} ({error})"
        ) from error
    return copy


def _fill(old, new, swapped, make, made, seen):
    """Give the copy the weights, and the mixers that its layers made by themselves anew."""
    if id(old) in seen:
        return
    seen.add(id(old))
    new.trainable = old.trainable
    for ours, theirs in zip(_variables(new), _variables(old), strict=True):
        ours.assign(theirs)
    for before, after in zip(_parts(old), _parts(new), strict=True):
        if id(before) not in swapped:
            _fill(before, after, swapped, make, made, seen)
            continue
        if id(before) in seen:
            continue
        if not any(after is mixer for mixer in made):
            mixer = make(before)
            mixer.build(_input_shape(before))
            _replace(new, after, mixer)
            after = mixer
        seen.add(id(before))
        after.trainable = before.trainable
        set_projections(after, projections(before))


def _variables(layer):
    return [*layer._trainable_variables, *layer._non_trainable_variables]


def _input_shape(layer):
    shapes = layer._build_shapes_dict
    return shapes.get("query_shape") or shapes["input_shape"]


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
            places = enumerate(value) if isinstance(value, list) else value.items()
            for place in [place for place, item in places if item is layer]:
                value[place] = other
                done = True
    if not done:
        raise ValueError(
            "An attention within a layer must be an attribute of it, or lie in a list or a dict. "
            f"Received: {layer.name} in {type(owner).__name__}"
        )


def _swap_in_zoo(model, spec, layers):
    """The same for a model of the zoo, which its config makes anew."""
    config = model.get_config()
    if "mixer" not in config:
        raise ValueError(
            f"{type(model).__name__} has no argument `mixer` to swap. Received: {model.name}"
        )
    depth = config["depth"]
    blocks = [model.get_layer(f"block_{index}") for index in range(depth)]
    if not all(isinstance(getattr(block, "mixer", None), MIXES) for block in blocks):
        raise ValueError(
            f"The blocks of {type(model).__name__} are shaped by their mixer: make a new model "
            f"with another `mixer`. Received: {model.name}"
        )
    old = [block.mixer for block in blocks]
    specs = [mixer_at(config["mixer"], index) for index in range(depth)]
    chosen = _indices(layers, [block.name for block in blocks])
    for index in chosen:
        _check_swappable(old[index], spec)
        specs[index] = {**_arguments(old[index], spec), **spec}
    new = type(model).from_config({**config, "mixer": check_mixers(specs, depth)})
    mixers = [new.get_layer(f"block_{index}").mixer for index in range(depth)]
    weights = {weight.path: weight for weight in model.weights}
    inside = {weight.path for index in chosen for weight in mixers[index].weights}
    for weight in new.weights:
        if weight.path not in inside:
            weight.assign(ops.convert_to_tensor(weights[weight.path]))
    for index in chosen:
        set_projections(mixers[index], projections(old[index]))
    frozen = {layer.path for layer in model._flatten_layers() if not layer.trainable}
    for layer in new._flatten_layers(include_self=False):
        layer.trainable = layer.path not in frozen
    return new
