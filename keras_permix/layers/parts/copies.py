"""Values that go from one variable to another."""

from keras import ops


def assign_copy(variable, value):
    """Give a variable a copy of a value, in its dtype.

    On JAX two variables would hold one array otherwise, which the first step of either deletes.

    Args:
        variable: A Keras variable.
        value: A tensor or another variable, of the same shape.
    """
    variable.assign(ops.copy(ops.cast(value, variable.dtype)))
