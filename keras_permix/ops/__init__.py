"""Define ops that permute and mix tokens of shape (batch, tokens, channels)."""

from keras_permix.ops.butterfly import (
    butterfly_permute,
    butterfly_stages,
    butterfly_unpermute,
)
from keras_permix.ops.channel_shift import channel_shift
from keras_permix.ops.csp import csp
from keras_permix.ops.damped_ema import damped_ema
from keras_permix.ops.dense import dense
from keras_permix.ops.dispatch.dispatch import explain, exporting
from keras_permix.ops.group_sort import group_sort
from keras_permix.ops.interleave_order import interleave_order
from keras_permix.ops.max_exchange import max_exchange
from keras_permix.ops.patches import patchify, unpatchify
from keras_permix.ops.shift_steps import ShiftSchedule, shift_steps
from keras_permix.ops.simple_attention import simple_attention
from keras_permix.ops.sinkhorn import sinkhorn
from keras_permix.ops.sinkhorn_csp import sinkhorn_csp
from keras_permix.ops.slice_sort import slice_sort

__all__ = [
    "ShiftSchedule",
    "butterfly_permute",
    "butterfly_stages",
    "butterfly_unpermute",
    "channel_shift",
    "csp",
    "damped_ema",
    "dense",
    "explain",
    "exporting",
    "group_sort",
    "interleave_order",
    "max_exchange",
    "patchify",
    "shift_steps",
    "simple_attention",
    "sinkhorn",
    "sinkhorn_csp",
    "slice_sort",
    "unpatchify",
]
