"""Define ops that permute and mix tokens of shape (batch, tokens, channels)."""

from keras_permix.ops.butterfly import butterfly_permute as butterfly_permute
from keras_permix.ops.butterfly import butterfly_stages as butterfly_stages
from keras_permix.ops.butterfly import butterfly_unpermute as butterfly_unpermute
from keras_permix.ops.channel_shift import channel_shift as channel_shift
from keras_permix.ops.csp import csp as csp
from keras_permix.ops.damped_ema import damped_ema as damped_ema
from keras_permix.ops.dense import dense as dense
from keras_permix.ops.dispatch.dispatch import explain as explain
from keras_permix.ops.dispatch.dispatch import exporting as exporting
from keras_permix.ops.group_sort import group_sort as group_sort
from keras_permix.ops.interleave_order import interleave_order as interleave_order
from keras_permix.ops.max_exchange import max_exchange as max_exchange
from keras_permix.ops.patches import patchify as patchify
from keras_permix.ops.patches import unpatchify as unpatchify
from keras_permix.ops.shift_steps import ShiftSchedule as ShiftSchedule
from keras_permix.ops.shift_steps import shift_steps as shift_steps
from keras_permix.ops.simple_attention import simple_attention as simple_attention
from keras_permix.ops.sinkhorn import sinkhorn as sinkhorn
from keras_permix.ops.sinkhorn_csp import sinkhorn_csp as sinkhorn_csp
from keras_permix.ops.slice_sort import slice_sort as slice_sort
