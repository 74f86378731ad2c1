"""A look at inputs where they come in, before anything compiled has them."""

import functools
import warnings

import keras
import numpy as np

from keras_permix.data.pipeline import Pipeline
from keras_permix.layers.embedding.image_range import check_image_range
from keras_permix.layers.embedding.images import ImagePreprocessor


def _checked(name):
    """The method of a Keras model, which looks at its arrays first."""

    @functools.wraps(getattr(keras.Model, name))
    def method(self, x=None, *args, **kwargs):
        self.check_inputs(x)
        self.check_inputs(kwargs.get("validation_data"))
        return getattr(super(CheckedInputs, self), name)(x, *args, **kwargs)

    return method


class CheckedInputs:
    """What a Keras model is mixed with to look at the arrays that people give it.

    Arrays and tensors are looked at once per call, not per batch; generators, and data sets of
    other libraries, are not.
    """

    _warned = False

    fit = _checked("fit")
    evaluate = _checked("evaluate")
    predict = _checked("predict")
    train_on_batch = _checked("train_on_batch")
    test_on_batch = _checked("test_on_batch")
    predict_on_batch = _checked("predict_on_batch")

    def __call__(self, inputs, *args, **kwargs):
        if isinstance(inputs, np.ndarray):  # A tensor may be that of a compiled step.
            self.check_inputs(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def check_inputs(self, x):
        """Check that images are of the range that the model takes; warn of scaled ones once.

        Args:
            x: An array, a tensor, a `Pipeline`, or a tuple or list that begins with one; anything
                else is not looked at.

        Raises:
            ValueError: for images that cannot be of 0–255.
        """
        if isinstance(x, tuple | list) and x:
            x = x[0]
        if isinstance(x, Pipeline):
            x = x.inputs
        known = isinstance(x, np.ndarray) or keras.ops.is_tensor(x)
        if not known or not isinstance(self.preprocessor, ImagePreprocessor):
            return
        warning = check_image_range(x)
        if warning and not self._warned:
            self._warned = True
            warnings.warn(warning, stacklevel=3)
