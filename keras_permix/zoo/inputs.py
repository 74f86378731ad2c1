"""A look at inputs where they come in, before anything compiled has them."""

import functools
import inspect
import warnings
from typing import Any

import keras
import numpy as np

from keras_permix._typing import Tensor
from keras_permix.data.pipeline import Pipeline
from keras_permix.layers.embedding.image_range import check_image_range
from keras_permix.layers.embedding.images import ImagePreprocessor, check_images
from keras_permix.zoo.texts import are_texts


def _checked(name):
    """The method of a Keras model, which looks at its arrays first."""
    signature = inspect.signature(getattr(keras.Model, name))

    @functools.wraps(getattr(keras.Model, name))
    def method(self, x=None, *args, **kwargs):
        if name.startswith("predict"):
            x = self.encoded(x)
        given = signature.bind(self, x, *args, **kwargs).arguments
        for inputs in (x, given.get("validation_data")):
            # One batch is no more than a step, for which a tensor would leave its device.
            if not name.endswith("_on_batch") or _are_arrays(inputs):
                self.check_inputs(inputs)
        return getattr(super(CheckedInputs, self), name)(x, *args, **kwargs)

    return method


def _are_arrays(inputs):
    return all(isinstance(array, np.ndarray) for array in keras.tree.flatten(inputs))


class CheckedInputs:
    """What a Keras model is mixed with to look at the arrays that people give it.

    Arrays are looked at once per call, not per batch, and so are the tensors that `fit`, `evaluate`
    and `predict` get. Of other tensors a call looks at the shape alone; generators, and data sets
    of other libraries, are not looked at.
    """

    # `self: Any` is a Keras model, of which no type tells.
    _warned = False

    fit = _checked("fit")
    evaluate = _checked("evaluate")
    predict = _checked("predict")
    train_on_batch = _checked("train_on_batch")
    test_on_batch = _checked("test_on_batch")
    predict_on_batch = _checked("predict_on_batch")

    def __call__(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Tensor:
        inputs = self.encoded(inputs)
        if _are_arrays(inputs):  # A tensor may be that of a compiled step.
            self.check_inputs(inputs)
        elif isinstance(self.preprocessor, ImagePreprocessor):
            for images in keras.tree.flatten(inputs):
                check_images(images, len(self.preprocessor.mean), squeezed=True)
        return super().__call__(inputs, *args, **kwargs)  # type: ignore[misc]  # of the model

    def encoded(self, x: Any) -> Any:
        """Inputs, and in place of texts what `encode` makes of them."""
        return self.encode(x) if are_texts(x) else x

    def encode(self, texts: Any) -> Any:
        """The arrays that the model takes for texts; a model that takes none raises ValueError."""
        raise ValueError(f"{type(self).__name__} takes no texts. Received: {str(texts)[:200]!r}")

    def check_inputs(self, x: Any) -> None:
        """Check that inputs are what the model takes; warn once of images that seem to be scaled.

        Args:
            x: An array, a tensor, a dict of these, a `Pipeline`, or a tuple or list that begins
                with one; anything else is not looked at.

        Raises:
            ValueError: for inputs of another shape or range, such as images that are not of 0–255.
        """
        if isinstance(x, tuple | list) and x:
            x = x[0]
        self.check_arrays(x.inputs if isinstance(x, Pipeline) else x)

    def check_arrays(self: Any, x: Any) -> None:
        """Check an array or tensor, or a dict of these; what else comes is not looked at."""
        known = isinstance(x, np.ndarray) or keras.ops.is_tensor(x)
        if not known or not isinstance(self.preprocessor, ImagePreprocessor):
            return
        check_images(x, len(self.preprocessor.mean), squeezed=True)
        warning = check_image_range(x)
        if warning and not self._warned:
            self._warned = True
            warnings.warn(warning, stacklevel=4)
