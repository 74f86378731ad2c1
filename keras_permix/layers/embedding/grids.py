"""Weights for the patches of an image, for a finer or a coarser grid of them.

On a finer grid every patch stands for the old one that lies nearest to it. Weights that make
something for each patch are copied; those that sum over the patches are copied and divided by the
number of the copies. So what a grown layer makes of tokens that are themselves copied is what it
made of them. On a coarser grid it is the other way round: every patch stands for the old ones that
it lies nearest to, and has the mean of their weights, or their sum.
"""

import numpy as np
from keras import ops


def nearest(old, new):
    """Of `new` places along a side, the nearest of `old` ones: an integer array."""
    return (2 * np.arange(new) + 1) * old // (2 * new)


def nearest_on_grid(old, new):
    """The same for a square of that side, whose places are numbered in rows: `(new * new,)`."""
    places = nearest(old, new)
    return (places[:, None] * old + places).ravel()


def copy(weights, places, axis, summed=False):
    """Copy entries of an axis to where `places` says; those that are `summed` share their value."""
    copied = ops.take(weights, places, axis=axis)
    return _share(copied, np.bincount(places)[places], axis) if summed else copied


def merge(weights, places, axis, summed=False):
    """Undo `copy`: of entries that `places` took from one, their mean, or their sum if `summed`."""
    rows = ops.moveaxis(ops.convert_to_tensor(weights), axis, 0)
    merged = ops.moveaxis(ops.segment_sum(rows, places, num_segments=places.max() + 1), 0, axis)
    return merged if summed else _share(merged, np.bincount(places), axis)


def _share(weights, counts, axis):
    """Divide every entry of an axis by a number of its own."""
    shape = [-1 if index == axis else 1 for index in range(len(weights.shape))]
    return weights / ops.convert_to_tensor(counts.reshape(shape), weights.dtype)


def resize(weights, old, new, axis, summed=False, near=nearest_on_grid):
    """Resize an axis from the places of `old` to those of `new`, as `near` has them."""
    if new < old:
        return merge(weights, near(new, old), axis, summed)
    return copy(weights, near(old, new), axis, summed)


def resize_head(kernel, old, new):
    """Resize the kernel `(old * old * features, units)` of a dense layer on all tokens."""
    features = kernel.shape[0] // old**2
    kernel = ops.reshape(kernel, (old**2, features, kernel.shape[1]))
    resized = resize(kernel, old, new, axis=0, summed=True)
    return ops.reshape(resized, (new**2 * features, kernel.shape[2]))


def resize_dense(weights, shape, old, new):
    """Resize a kernel `(…, inputs, outputs)` or a bias of a layer along the tokens to `shape`.

    An axis of as many entries as there are patches is that of their grid; others that change, such
    as that of the hidden units, have no order but that of their numbers.
    """
    for axis, (had, needed) in enumerate(zip(tuple(weights.shape), shape, strict=True)):
        summed = axis == len(shape) - 2
        if had == old**2 and needed == new**2:
            weights = resize(weights, old, new, axis, summed)
        elif had != needed:
            weights = resize(weights, had, needed, axis, summed, nearest)
    return weights
