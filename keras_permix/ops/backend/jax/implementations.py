"""List the implementations for JAX."""

from functools import partial

from jax import lax

from keras_permix.ops.backend.jax import tpu_permute
from keras_permix.ops.backend.jax.exchange import max_exchange
from keras_permix.ops.backend.jax.permute import permute
from keras_permix.ops.backend.jax.runtime import (
    LARGEST,
    dense,
    limit_of_dense,
    limit_of_gpu,
    limit_of_tpu,
)
from keras_permix.ops.backend.plan import PERMUTING, Implementation
from keras_permix.ops.reference import ema, linear

SORTABLE = ("float16", "bfloat16", "float32", "int8", "int16", "int32", "uint8", "uint16")
NOT_EXPORTED = dict(dynamic=True, exported=False)


def permute_by_triton(x, mask, plan):
    from keras_permix.ops.backend.jax import triton  # requires Triton

    return triton.permute(x, mask, plan)


def permuting(op):
    """Yield the implementations of a permuting op: Triton on GPUs, Pallas on TPUs, and XLA."""
    sorts, any_groups = op != "channel_shift", dict(ragged=True, exported=False)
    most = dict(max_group=LARGEST) if sorts else {}
    kernels = dict(elsewhere="native", masks=True, **most, **any_groups)
    yield Implementation(
        op, "triton", permute_by_triton, ("gpu",), limit_of_gpu, requires="jax_triton",
        dtypes=("float16", "bfloat16", "float32"), **kernels,
    )  # fmt: skip
    pallas = partial(tpu_permute.permute, way=tpu_permute.Pallas())
    xla = partial(tpu_permute.permute, way=tpu_permute.in_xla)
    tpu = dict(devices=("tpu",), dtypes=SORTABLE)
    yield Implementation(op, "tpu_pallas", pallas, limit=limit_of_tpu, **tpu, **kernels)
    yield Implementation(op, "tpu_xla", xla, **tpu, **any_groups)
    dtypes = SORTABLE if sorts else ()
    yield Implementation(
        op, "native", permute, dtypes=dtypes, masks=True, dynamic=True, **any_groups
    )


IMPLEMENTATIONS = (
    *(each for op in PERMUTING for each in permuting(op)),
    Implementation("damped_ema", "chunked", ema.chunked, masks=True, exported=False),
    Implementation("damped_ema", "fft", ema.fft, masks=True, exported=False),
    Implementation("dense", "flat", dense, devices=("cpu",), limit=limit_of_dense, **NOT_EXPORTED),
    Implementation("max_exchange", "native", max_exchange, masks=True, **NOT_EXPORTED),
    Implementation(
        "sinkhorn", "loop", partial(linear.sinkhorn, loop=lax.fori_loop), **NOT_EXPORTED
    ),
)
