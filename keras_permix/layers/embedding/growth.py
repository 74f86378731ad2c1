"""Weights for the patches of an image, grown to a finer grid by its nearest neighbors.

Every new patch stands for the old one that lies nearest to it. Weights that make something for
each patch are copied; those that sum over the patches are copied and divided by the number of the
copies. So what a grown layer makes of tokens that are themselves copied is what it made of them.
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
    if not summed:
        return copied
    shares = 1 / np.bincount(places)[places]
    shape = [-1 if index == axis else 1 for index in range(len(weights.shape))]
    return copied * ops.convert_to_tensor(shares.reshape(shape), copied.dtype)


def grow_head(kernel, old, new):
    """Grow the kernel `(old * old * features, units)` of a dense layer on all tokens."""
    features = kernel.shape[0] // old**2
    kernel = ops.reshape(kernel, (old**2, features, kernel.shape[1]))
    grown = copy(kernel, nearest_on_grid(old, new), axis=0, summed=True)
    return ops.reshape(grown, (new**2 * features, kernel.shape[2]))


def grow_dense(weights, shape, old, new):
    """Grow a kernel `(…, inputs, outputs)` or a bias of a layer along the tokens to `shape`.

    An axis of as many entries as there are patches is that of their grid; others that grow, such
    as that of the hidden units, have no order but that of their numbers.
    """
    for axis, (had, needed) in enumerate(zip(tuple(weights.shape), shape, strict=True)):
        if had != needed:
            on_grid = had == old**2 and needed == new**2
            places = nearest_on_grid(old, new) if on_grid else nearest(had, needed)
            weights = copy(weights, places, axis, summed=axis == len(shape) - 2)
    return weights
