"""Look inside permuting mixers."""

from keras_permix.analysis.influence_map import influence_map, plot_influence_map
from keras_permix.analysis.permutation_maps import permutation_maps, plot_permutation_maps

__all__ = [
    "influence_map",
    "permutation_maps",
    "plot_influence_map",
    "plot_permutation_maps",
]
