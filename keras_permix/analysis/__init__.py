"""Measure and draw how mixers mix tokens."""

from keras_permix.analysis.influence_maps import influence_map as influence_map
from keras_permix.analysis.influence_maps import plot_influence_map as plot_influence_map
from keras_permix.analysis.look_inside import Inside as Inside
from keras_permix.analysis.look_inside import look_inside as look_inside
from keras_permix.analysis.look_inside import rollout as rollout
from keras_permix.analysis.macs import MACs as MACs
from keras_permix.analysis.macs import SwapReport as SwapReport
from keras_permix.analysis.macs import count_macs as count_macs
from keras_permix.analysis.macs import swap_report as swap_report
from keras_permix.analysis.mixing_maps import MixingMap as MixingMap
from keras_permix.analysis.mixing_maps import mixing_maps as mixing_maps
from keras_permix.analysis.permutation_maps import permutation_maps as permutation_maps
from keras_permix.analysis.permutation_maps import plot_permutation_maps as plot_permutation_maps
from keras_permix.analysis.residuals import plot_rank_residual as plot_rank_residual
from keras_permix.analysis.residuals import plot_residual_bound as plot_residual_bound
from keras_permix.analysis.residuals import plot_singular_spectrum as plot_singular_spectrum
from keras_permix.analysis.residuals import rank_residual as rank_residual
from keras_permix.analysis.residuals import residual_bound as residual_bound
from keras_permix.analysis.residuals import singular_spectrum as singular_spectrum
from keras_permix.analysis.residuals import token_norm as token_norm
