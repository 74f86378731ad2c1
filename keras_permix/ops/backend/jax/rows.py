"""List the implementations for JAX."""

from functools import partial

from keras_permix.ops.backend.jax import tpu_permute
from keras_permix.ops.backend.jax.exchange import max_exchange
from keras_permix.ops.backend.jax.linear import sinkhorn
from keras_permix.ops.backend.jax.permute import permute
from keras_permix.ops.backend.jax.runtime import (
    LARGEST,
    dense,
    limit_of_dense,
    limit_of_gpu,
    limit_of_tpu,
)
from keras_permix.ops.backend.plan import PERMUTING, Row
from keras_permix.ops.reference import ema

SORTABLE = ("float16", "bfloat16", "float32", "int8", "int16", "int32", "uint8", "uint16")
NOT_EXPORTED = dict(dynamic=True, exported=False)


def permute_by_triton(x, mask, plan):
    from keras_permix.ops.backend.jax import triton  # requires Triton

    return triton.permute(x, mask, plan)


def permuting(op):
    """Yield the implementations of a permuting op: Triton on GPUs, Pallas on TPUs, and XLA.

    Shifts support any dtype.
    """
    sorts, any_groups = op != "channel_shift", dict(ragged=True, exported=False)
    most = dict(max_group=LARGEST) if sorts else {}
    kernels = dict(elsewhere="native", masks=True, **most, **any_groups)
    yield Row(
        op, "triton", permute_by_triton, ("gpu",), limit_of_gpu, requires="jax_triton",
        dtypes=("float16", "bfloat16", "float32"), **kernels,
    )  # fmt: skip
    pallas = partial(tpu_permute.permute, way=tpu_permute.Pallas())
    xla = partial(tpu_permute.permute, way=tpu_permute.in_xla)
    tpu = dict(devices=("tpu",), dtypes=SORTABLE)
    yield Row(op, "tpu_pallas", pallas, limit=limit_of_tpu, **tpu, **kernels)
    yield Row(op, "tpu_xla", xla, **tpu, **any_groups)
    dtypes = SORTABLE if sorts else ()
    yield Row(op, "native", permute, dtypes=dtypes, masks=True, dynamic=True, **any_groups)


ROWS = (
    *(row for op in PERMUTING for row in permuting(op)),
    Row("damped_ema", "chunked", ema.chunked, masks=True, exported=False),
    Row("damped_ema", "fft", ema.fft, masks=True, exported=False),
    Row("dense", "flat", dense, devices=("cpu",), limit=limit_of_dense, **NOT_EXPORTED),
    Row("max_exchange", "native", max_exchange, masks=True, **NOT_EXPORTED),
    Row("sinkhorn", "loop", sinkhorn, **NOT_EXPORTED),
)
