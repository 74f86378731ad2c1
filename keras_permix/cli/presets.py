"""Presets that a command needs the weights of."""


def trained_preset(preset):
    """What is known of a preset that has weights.

    Args:
        preset: Its name, folder or handle.

    Raises:
        ValueError: for an unknown name, or a preset that nobody has trained.
    """
    from keras_permix.recipes.find import WEIGHTS_FILE
    from keras_permix.zoo import preset_info
    from keras_permix.zoo.presets.names import untrained

    info = preset_info(preset)
    if info.files is None or WEIGHTS_FILE not in info.files.names:
        raise ValueError(f"{untrained(info)}. Received: {preset!r}")
    return info
