"""Build presets for Keras' scikit-learn wrapper."""

import math
from typing import Any

import keras
import numpy as np

from keras_permix._typing import Model, StrPath
from keras_permix.zoo.model import ZooModel

__all__ = ["classifier"]


def classifier(X: Any, y: Any, preset: StrPath, optimizer: Any = "adam", **changes: Any) -> Model:
    """Build a classifier of images from a preset, for `keras.wrappers.SKLearnClassifier`.

    The wrapper calls it once per fit, with the data. Training starts from the preset's weights; the
    head is replaced if the number of classes differs. It returns probabilities, as scikit-learn
    expects.

    Args:
        X: Array `(samples, height * width * channels)`, the images in rows, of 0 to 255.
        y: Array `(samples, classes)`, one-hot, as the wrapper makes it from labels.
        preset: Name, folder or handle of a preset.
        optimizer: Name or Keras optimizer; an object can be used for one fit only. Defaults to
            `"adam"`.
        **changes: Other arguments of `from_preset`, such as `image_size`.

    Returns:
        A compiled Keras model whose inputs are rows.

    Raises:
        ValueError: if the preset does not classify images, or the rows do not have the size of its
            images.

    Example:
        >>> import numpy as np
        >>> from keras_permix.sklearn import classifier
        >>> images, labels = np.zeros((6, 8, 8, 3)), np.array([0, 1, 2, 0, 1, 2])
        >>> model = classifier(images.reshape(6, -1), np.eye(3)[labels], "cspvit/test")
        >>> model.input_shape, model.output_shape
        ((None, 192), (None, 3))
    """
    model: Any = ZooModel.from_preset(preset, num_classes=np.shape(y)[1], **changes)
    if model.task != "image_classification":
        raise ValueError(f"The model must classify images. Received: {preset=}, {changes}")
    shape = np.shape(model.make_inputs(0, 1))[1:]
    if math.prod(shape) != np.shape(X)[1]:
        raise ValueError(f"Rows of `X` must be images of {shape}. Received: X.shape={np.shape(X)}")
    model.check_inputs(np.reshape(X, (-1, *shape)))
    rows = keras.Input((math.prod(shape),))
    logits = model(keras.layers.Reshape(shape)(rows))
    built = keras.Model(rows, keras.layers.Softmax()(logits))
    built.compile(optimizer, "categorical_crossentropy", metrics=["accuracy"])
    return built
