"""Measure and draw how mixers mix tokens."""

from keras_permix.analysis.influence_maps import influence_map, plot_influence_map
from keras_permix.analysis.look_inside import Inside, look_inside, rollout
from keras_permix.analysis.macs import MACs, SwapReport, count_macs, swap_report
from keras_permix.analysis.mixing_maps import MixingMap, mixing_maps
from keras_permix.analysis.permutation_maps import permutation_maps, plot_permutation_maps
from keras_permix.analysis.residuals import (
    plot_rank_residual,
    plot_residual_bound,
    plot_singular_spectrum,
    rank_residual,
    residual_bound,
    singular_spectrum,
    token_norm,
)

__all__ = [
    "Inside",
    "MACs",
    "MixingMap",
    "SwapReport",
    "count_macs",
    "influence_map",
    "look_inside",
    "mixing_maps",
    "permutation_maps",
    "plot_influence_map",
    "plot_permutation_maps",
    "plot_rank_residual",
    "plot_residual_bound",
    "plot_singular_spectrum",
    "rank_residual",
    "residual_bound",
    "rollout",
    "singular_spectrum",
    "swap_report",
    "token_norm",
]
