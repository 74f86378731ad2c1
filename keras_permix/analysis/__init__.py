"""Look inside permuting mixers."""

from keras_permix.analysis.permutation_maps import permutation_maps, plot_permutation_maps

__all__ = ["permutation_maps", "plot_permutation_maps"]
