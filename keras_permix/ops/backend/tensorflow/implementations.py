"""List the implementations for TensorFlow."""

from keras_permix.ops.backend.plan import SORTING, Implementation
from keras_permix.ops.backend.tensorflow.exchange import max_exchange
from keras_permix.ops.backend.tensorflow.permute import permute
from keras_permix.ops.reference import ema

SORTABLE = (
    *("float16", "bfloat16", "float32", "float64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16"),
)
ANY_TOKENS = dict(masks=True, dynamic=True, ragged=True, exported=False)


IMPLEMENTATIONS = (
    Implementation("channel_shift", "native", permute, **ANY_TOKENS),
    *(Implementation(op, "native", permute, dtypes=SORTABLE, **ANY_TOKENS) for op in SORTING),
    Implementation("damped_ema", "chunked", ema.chunked, masks=True, dynamic=True),
    Implementation("damped_ema", "fft", ema.fft, masks=True, dynamic=True, exported=False),
    Implementation("max_exchange", "native", max_exchange, **ANY_TOKENS),
)
