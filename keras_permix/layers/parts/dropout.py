"""Dropout that is not there where its rate is zero."""

import keras


def make_dropout(rate, **kwargs):
    """Make a `Dropout` layer, or `Identity` for a rate of zero.

    `Dropout` reads its argument `training` as a Python boolean even at rate zero, which Keras'
    rematerialization of every layer cannot give it on JAX.
    """
    if rate:
        return keras.layers.Dropout(rate, **kwargs)
    return keras.layers.Identity(**kwargs)
