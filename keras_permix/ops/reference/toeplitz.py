"""Make matrices that are constant along their diagonals."""

from keras import ops


def toeplitz(diagonals):
    """Make matrices from their diagonals: `out[…, i, j] = diagonals[…, size - 1 + j - i]`.

    Uses only copies and slices, so that the gradient is a sum without scatter-add.

    Args:
        diagonals: Tensor of shape (…, 2 * size - 1), from the lower left to the upper right.

    Returns:
        A tensor of shape (…, size, size).
    """
    *outer, length = ops.shape(diagonals)
    size = (length + 1) // 2
    filled = ops.pad(diagonals, [(0, 0)] * len(outer) + [(0, 1)])
    rows = ops.broadcast_to(filled[..., None, :], (*outer, size, length + 1))
    # Read with one column less, every row starts one position before the row above it.
    skewed = ops.reshape(rows, (*outer, size * (length + 1)))[..., : size * length]
    return ops.reshape(skewed, (*outer, size, length))[..., size - 1 :]
