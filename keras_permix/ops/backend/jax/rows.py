"""What runs on JAX."""

from functools import partial

import jax

from keras_permix.ops.backend.jax import accelerators
from keras_permix.ops.backend.jax.ema import damped_ema
from keras_permix.ops.backend.jax.exchange import max_exchange
from keras_permix.ops.backend.jax.permute import permute
from keras_permix.ops.backend.jax.sinkhorn import sinkhorn
from keras_permix.ops.backend.plan import PERMUTING
from keras_permix.ops.dispatch.rows import Row
from keras_permix.ops.reference import ema

SORTABLE = ("float16", "bfloat16", "float32", "int8", "int16", "int32", "uint8", "uint16")
LARGEST = 4096  # what kernels hold: a group on a GPU, all tokens on a TPU


def device(x):
    """The platform, and the number of devices that XLA may have to divide the call between.

    Of a function that is being traced it is not known where it will run; by default it is here.
    """
    if isinstance(x, jax.core.Tracer):
        default = jax.config.jax_default_device  # None, a device, or the name of a platform
        platform = getattr(default, "platform", default) or jax.default_backend()
        return platform, jax.device_count(platform)
    devices = x.devices()
    return next(iter(devices)).platform, len(devices)


def exporting():
    return False


def permuting(op):
    """Rows of an op that a plan describes: Pallas' kernels, XLA for TPUs, and XLA.

    XLA cannot divide a kernel between devices. What only moves may be of any type.
    """
    dtypes = () if op == "channel_shift" else SORTABLE
    group = None if op == "channel_shift" else LARGEST
    gpu, tpu = accelerators.Pallas("gpu"), accelerators.Pallas("tpu")
    ways = (
        ("gpu_pallas", gpu, dict(devices=("gpu",), one_device=True, max_group=group)),
        ("tpu_pallas", tpu, dict(devices=("tpu",), one_device=True, max_tokens=LARGEST)),
        ("tpu_xla", accelerators.xla_for_tpu, dict(devices=("tpu",))),
    )
    for name, way, facts in ways:
        function = partial(accelerators.permute, way=way)
        yield Row(op, name, function, dtypes=SORTABLE, ragged=True, **facts)
    yield Row(op, "native", permute, dtypes=dtypes, masks=True, ragged=True)


ROWS = (
    *(row for op in PERMUTING for row in permuting(op)),
    Row("damped_ema", "chunked", damped_ema, masks=True, dynamic=True),
    Row("damped_ema", "fft", ema.fft, masks=True, dynamic=True),
    Row("max_exchange", "native", max_exchange, masks=True),
    Row("sinkhorn", "loop", sinkhorn, dynamic=True),
)
