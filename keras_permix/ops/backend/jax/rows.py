"""What runs on JAX."""

from functools import partial

from keras_permix.ops.backend.jax import accelerators
from keras_permix.ops.backend.jax.exchange import max_exchange
from keras_permix.ops.backend.jax.hardware import hardware as hardware
from keras_permix.ops.backend.jax.hardware import limit_of_gpu, limit_of_tpu
from keras_permix.ops.backend.jax.permute import permute
from keras_permix.ops.backend.jax.products import damped_ema, dense, limit_of_dense, sinkhorn
from keras_permix.ops.backend.plan import PERMUTING
from keras_permix.ops.dispatch.rows import Row
from keras_permix.ops.reference import ema

SORTABLE = ("float16", "bfloat16", "float32", "int8", "int16", "int32", "uint8", "uint16")
NOT_EXPORTED = dict(dynamic=True, exported=False)
LARGEST = 4096  # what kernels hold: a group on a GPU, all tokens on a TPU


def exporting():
    return False


def shape(x):
    """The sizes of `x`, None for one that `jax.export` leaves open."""
    return tuple(size if isinstance(size, int) else None for size in x.shape)


def permuting(op):
    """Rows of an op that a plan describes: Pallas' kernels, XLA for TPUs, and XLA.

    What only moves may be of any type.
    """
    dtypes = () if op == "channel_shift" else SORTABLE
    group = None if op == "channel_shift" else LARGEST
    gpu, tpu = accelerators.Pallas("gpu"), accelerators.Pallas("tpu")
    kernels, any_groups = dict(elsewhere="native"), dict(ragged=True, exported=False)
    ways = (
        ("gpu", "gpu_pallas", gpu, dict(limit=limit_of_gpu, max_group=group, **kernels)),
        ("tpu", "tpu_pallas", tpu, dict(limit=limit_of_tpu, max_tokens=LARGEST, **kernels)),
        ("tpu", "tpu_xla", accelerators.xla_for_tpu, {}),
    )
    for device, name, way, facts in ways:
        function = partial(accelerators.permute, way=way)
        yield Row(op, name, function, (device,), dtypes=SORTABLE, **any_groups, **facts)
    yield Row(op, "native", permute, dtypes=dtypes, masks=True, dynamic=True, **any_groups)


ROWS = (
    *(row for op in PERMUTING for row in permuting(op)),
    Row("damped_ema", "chunked", damped_ema, masks=True, exported=False),
    Row("damped_ema", "fft", ema.fft, masks=True, exported=False),
    Row("dense", "flat", dense, devices=("cpu",), limit=limit_of_dense, **NOT_EXPORTED),
    Row("max_exchange", "native", max_exchange, masks=True, **NOT_EXPORTED),
    Row("sinkhorn", "loop", sinkhorn, **NOT_EXPORTED),
)
