"""Products with a matrix of weights on a CPU, of all tokens as one matrix.

Of a product of tensors with more than two axes XLA for CPUs copies the cotangent, transposed, and
works out within that copy the whole sum that it is: along the residual stream of a Transformer one
with a term for every block that comes after.
"""

from keras_permix.ops.reference.dense import dense as dense_by_keras


def dense(x, kernel, bias, mask):
    """`x @ kernel + bias`, or without the bias where it is None."""
    product = dense_by_keras(x.reshape(-1, x.shape[-1]), kernel, bias, mask)
    return product.reshape(*x.shape[:-1], product.shape[-1])


def limit(call):
    """What keeps a call from XLA for a single CPU."""
    devices = call.hardware.devices
    return None if devices == 1 else f"it needs tokens of one device, and here are {devices}"
