"""Look inside mixers."""

from keras_permix.analysis.butterfly_maps import butterfly_maps, plot_butterfly_maps
from keras_permix.analysis.influence_map import influence_map, plot_influence_map
from keras_permix.analysis.look_inside import Inside, look_inside, plot_inside, rollout
from keras_permix.analysis.macs import MACs, count_macs
from keras_permix.analysis.mixing_maps import MixingMap, mixing_maps
from keras_permix.analysis.permutation_maps import permutation_maps, plot_permutation_maps
from keras_permix.analysis.rank_residual import plot_rank_residual, rank_residual, token_norm
from keras_permix.analysis.residual_bound import plot_residual_bound, residual_bound
from keras_permix.analysis.simple_attention_maps import (
    plot_simple_attention_maps,
    simple_attention_maps,
)
from keras_permix.analysis.singular_spectrum import plot_singular_spectrum, singular_spectrum
from keras_permix.analysis.swap_report import SwapReport, swap_report

__all__ = [
    "Inside",
    "MACs",
    "MixingMap",
    "SwapReport",
    "butterfly_maps",
    "count_macs",
    "influence_map",
    "look_inside",
    "mixing_maps",
    "permutation_maps",
    "plot_butterfly_maps",
    "plot_influence_map",
    "plot_inside",
    "plot_permutation_maps",
    "plot_rank_residual",
    "plot_residual_bound",
    "plot_simple_attention_maps",
    "plot_singular_spectrum",
    "rank_residual",
    "residual_bound",
    "rollout",
    "simple_attention_maps",
    "singular_spectrum",
    "swap_report",
    "token_norm",
]
