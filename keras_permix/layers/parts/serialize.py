"""Configs of layers within layers."""

import keras


def serialize_unbuilt(layer):
    """The config of a layer that the layer around it builds."""
    config = keras.layers.serialize(layer)
    config.pop("build_config", None)
    return config
