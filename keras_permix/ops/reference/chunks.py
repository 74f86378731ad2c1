"""An axis cut into pieces of one size, and put together again."""

from keras import ops


def cut(x, size, axis=1):
    """Cut an axis into pieces, the last one filled up with zeros: (…, pieces, size, …)."""
    shape = ops.shape(x)
    length, missing = shape[axis], -shape[axis] % size
    x = ops.pad(x, [(0, missing if i == axis else 0) for i in range(len(shape))])
    return ops.reshape(x, (*shape[:axis], (length + missing) // size, size, *shape[axis + 1 :]))


def join(pieces, axis=1):
    """Put the pieces of an axis together: (…, pieces * size, …)."""
    shape = ops.shape(pieces)
    length = shape[axis] * shape[axis + 1]
    return ops.reshape(pieces, (*shape[:axis], length, *shape[axis + 2 :]))
