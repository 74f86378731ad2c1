"""For scikit-learn: what Keras' own wrapper builds of a preset."""

import math
from typing import Any

import keras

from keras_permix._typing import Model, StrPath
from keras_permix.zoo.model import ZooModel


def classifier(X: Any, y: Any, preset: StrPath, optimizer: Any = "adam", **changes: Any) -> Model:
    """Build a classifier of images from a preset, for `keras.wrappers.SKLearnClassifier`.

    That calls it with what it is fitted to, once per fit. The preset's weights are where training
    begins; its head is a new one, which gives probabilities, as scikit-learn wants.

    Args:
        X: Array `(samples, height * width * 3)`, the images in rows, of 0 to 255.
        y: Array `(samples, classes)`, 1 for the class of a sample and 0 elsewhere.
        preset: A name, a folder or a handle, as `from_preset` takes it.
        optimizer: As `compile` takes it. An optimizer object serves one fit only.
        **changes: What else `from_preset` takes, such as `image_size`.

    Returns:
        A compiled Keras model of rows.

    Raises:
        ValueError: for a preset of another task, or rows that are not its images.

    Example:

    >>> import numpy as np
    >>> from keras_permix.sklearn import classifier
    >>> images, labels = np.zeros((6, 8, 8, 3)), np.array([0, 1, 2, 0, 1, 2])
    >>> model = classifier(images.reshape(6, -1), np.eye(3)[labels], "cspvit/test")
    >>> model.input_shape, model.output_shape
    ((None, 192), (None, 3))
    """
    model: Any = ZooModel.from_preset(preset, num_classes=y.shape[1], **changes)
    given = model.make_inputs(0, 1)
    shape = () if isinstance(given, dict) else given.shape[1:]
    if len(shape) != 3 or math.prod(shape) != X.shape[1]:
        raise ValueError(
            "`preset` must be of images, which are the rows of `X`. "
            f"Received: preset={preset}, of images {shape or None}, X.shape={X.shape}"
        )
    rows = keras.Input((math.prod(shape),))
    logits = model(keras.layers.Reshape(shape)(rows))
    built = keras.Model(rows, keras.layers.Softmax()(logits))
    built.compile(optimizer, "categorical_crossentropy", metrics=["accuracy"])
    return built
