"""What mixes the values in MEGA, by name: an attention function, or a permutation in its place."""

from keras_permix.layers.mega.mega_attention import FUNCTIONS
from keras_permix.layers.mixers import MIXERS, check_mixer, make_mixer
from keras_permix.layers.mixing.token_mixer import TokenMixer
from keras_permix.utils.checks import check_named, check_names

# Those that do not need the projections that the block has in their place.
PERMUTING = tuple(name for name in MIXERS if issubclass(MIXERS[name].layer, TokenMixer))


def check_mega_mixer(mixer):
    """Return the name of an attention function, or the dict of a permutation."""
    spec = check_named("mixer", mixer, (*FUNCTIONS, *PERMUTING))
    if spec["name"] in PERMUTING:
        return check_mixer(spec)
    check_names(spec["name"], spec, ["name"])
    return spec["name"]


def make_mega_mixer(spec, layer_index, num_layers, ragged, **arguments):
    """Make what `MegaBlock` takes as its mixer.

    Args:
        spec: What `check_mega_mixer` gives.
        layer_index: 0-based index of the block among those of its model.
        num_layers: Number of these.
        ragged: Whether the last group of CSP may be shorter, where `spec` does not say.
        **arguments: Arguments that all mixers take, such as `dtype`.

    Returns:
        The name of a function, or a layer without projections.
    """
    if spec in FUNCTIONS:
        return spec
    arguments |= {"use_value_projection": False, "use_output_projection": False}
    return make_mixer(spec, layer_index, num_layers, ragged=ragged, **arguments)
