"""Sort groups along the tokens, in PyTorch.

Both functions take (x, lengths, plan, with_residuals). They sort the first `lengths` tokens of
every sample, or all tokens, in groups; the last group may be shorter. They return the sorted tensor
and, if `with_residuals`, the source token of each value, in the smallest integer dtype.
"""

import torch

from keras_permix.ops.backend.torch.numpy_sort import counting_to, sort_in_numpy
from keras_permix.ops.backend.torch.runtime import compiling, exporting, is_static


def by_torch(x, lengths, plan, with_residuals):
    tokens = x.shape[1]
    size = tokens if plan.group_size is None else plan.group_size
    if isinstance(lengths, tuple):
        lengths = torch.tensor(lengths)[:, None, None]
    runs = _fill_up(x, lengths, size).unflatten(1, (-1, size))
    if with_residuals or plan.aligned or (lengths is not None and not exporting()):
        out, order = torch.sort(runs, dim=2, stable=True)
    else:
        out, order = torch.sort(runs, dim=2)  # Unlike the stable sort, it exports to ONNX.
    if plan.aligned:
        rank = torch.argsort(order[..., :1], dim=2).expand_as(order)
        out, order = out.gather(2, rank), order.gather(2, rank)
    if plan.descending is not None:
        out, order = _flip(out, order, lengths, torch.tensor(plan.descending, device=x.device))
    if not with_residuals:
        return out.flatten(1, 2)[:, :tokens], None
    source = order + torch.arange(runs.shape[1], device=x.device)[:, None, None] * size
    return out.flatten(1, 2)[:, :tokens], source.flatten(1, 2)[:, :tokens].to(counting_to(tokens))


def _fill_up(x, lengths, size):
    """Return complete groups, in which padding is NaN, which PyTorch sorts last.

    Exports use infinity, because ONNX does not define the order of NaN, and OpenVINO sorts it
    first.
    """
    missing = -x.shape[1] % size
    last = float("inf" if exporting() else "nan")
    highest = last if x.is_floating_point() else torch.iinfo(x.dtype).max
    if lengths is not None:
        real = torch.arange(x.shape[1], device=x.device)[:, None] < lengths
        x = torch.where(real, x, torch.full_like(x[:1, :1, :1], highest))
    if is_static(missing) and not missing:
        return x
    # Not `pad`, which converts the value to a double, and would change the largest int64.
    return torch.cat((x, x.new_full((x.shape[0], missing, x.shape[2]), highest)), 1)


def _flip(out, order, lengths, descending):
    """Reverse the real tokens of descending channels, which have a single group."""
    if lengths is None:
        return (torch.where(descending, t.flip(2), t) for t in (out, order))
    token = torch.arange(out.shape[2], device=out.device)[:, None]
    mirror = torch.where((token < lengths) & descending, lengths - 1 - token, token)[:, None]
    return out.gather(2, mirror), order.gather(2, mirror)


def by_numpy(x, lengths, plan, with_residuals):
    """Sort by `sort_in_numpy`, which is one opaque op for `torch.compile`."""
    if not compiling():
        return sort_in_numpy(x, lengths, plan, with_residuals)
    # Imported here, because registering an op takes longer than all other imports.
    from keras_permix.ops.backend.torch.sort_op import sort_by_numpy

    out, source = sort_by_numpy(x, lengths, *plan[1:], with_residuals)
    return out, source if with_residuals else None
