"""Rules that a traced function checks when it runs, since only then it knows its sizes."""

import tensorflow as tf


def require(x, holds, message, size):
    """`x`, or an error that gives the message and the size.

    XLA leaves assertions out. It compiles for known sizes, though, and refuses a reshape that does
    not fit: here one to a token too few.
    """
    with tf.control_dependencies([tf.debugging.Assert(holds, [message, size])]):
        batch, tokens, *others = tf.unstack(tf.shape(x))
        tokens -= tf.cast(tf.logical_not(holds), tokens.dtype)
        checked = tf.reshape(x, (batch, tokens, *others))
        checked.set_shape(x.shape)
        return checked
