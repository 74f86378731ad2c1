"""Register sorting by NumPy as an opaque op of `torch.compile`, when it is first compiled."""

from collections.abc import Sequence

import torch

from keras_permix.ops.backend.plan import Plan
from keras_permix.ops.backend.torch.numpy_sort import sort_in_numpy


@torch.library.custom_op("keras_permix::sort_by_numpy", mutates_args=())
def sort_by_numpy(
    x: torch.Tensor,
    lengths: torch.Tensor | None,
    group_size: int | None,
    aligned: bool,
    descending: Sequence[bool] | None,
    with_residuals: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = None if lengths is None else tuple(lengths.flatten().tolist())
    out, source = sort_in_numpy(
        x, lengths, Plan(None, group_size, aligned, descending), with_residuals
    )
    # The compiler needs a fixed dtype, even if the number of tokens is unknown.
    return out, source.to(torch.int32) if with_residuals else x.new_empty(0)


@sort_by_numpy.register_fake
def _(x, lengths, group_size, aligned, descending, with_residuals):
    source = x.new_empty(x.shape, dtype=torch.int32) if with_residuals else x.new_empty(0)
    return torch.empty_like(x, memory_format=torch.contiguous_format), source
