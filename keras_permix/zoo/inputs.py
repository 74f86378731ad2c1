"""Convert and check the inputs and targets that people give to a model."""

import functools
import warnings
from typing import Any

import keras
import numpy as np
from keras.tree import flatten

from keras_permix._typing import Tensor
from keras_permix.layers.embedding.images import with_channel
from keras_permix.ops.backend import running
from keras_permix.utils.checks import check_positive_or_none
from keras_permix.zoo.arrays import are_arrays, are_single_images, check_samples, to_arrays
from keras_permix.zoo.batches import convert_batches
from keras_permix.zoo.targets import check_targets
from keras_permix.zoo.texts import are_texts


class CheckedInputs:
    """Convert and check inputs and targets before a Keras model takes them.

    Mix this into a Keras model. Lists, table columns, texts and tensors of another framework become
    NumPy arrays, which are checked once per call. Generators and data sets are converted batch by
    batch and not checked.
    """

    # `self: Any` is a Keras model.
    _warned_of_range = False
    _warned_loss_id = 0

    def __call__(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Tensor:
        return super().__call__(self.checked_inputs(inputs), *args, **kwargs)  # type: ignore[misc]

    def fit(
        self: Any, x: Any = None, y: Any = None, batch_size: int | None = None, *args: Any,
        validation_data: Any = None, sample_weight: Any = None, **kwargs: Any,
    ) -> keras.callbacks.History:  # fmt: skip
        check_positive_or_none("batch_size", batch_size)
        x = self._check_data(x)
        y, weights = self._check_targets(x, y, sample_weight)
        if isinstance(validation_data, tuple | list):
            inputs, *targets = validation_data
            inputs = self._check_data(inputs)
            validation_data = (inputs, *self._check_targets(inputs, *targets)[: len(targets)])
        elif validation_data is not None:
            validation_data = self._check_data(validation_data)
        given = {"validation_data": validation_data, "sample_weight": weights}
        kwargs |= {name: value for name, value in given.items() if value is not None}
        with running.weights_kept(self):
            return super().fit(x, y, batch_size, *args, **kwargs)  # type: ignore[misc]

    def evaluate(
        self: Any, x: Any = None, y: Any = None, batch_size: int | None = None,
        verbose: Any = "auto", sample_weight: Any = None, *args: Any, **kwargs: Any,
    ) -> Any:  # fmt: skip
        check_positive_or_none("batch_size", batch_size)
        x = self._check_data(x)
        y, weights = self._check_targets(x, y, sample_weight)
        with running.weights_kept(self):
            return super().evaluate(x, y, batch_size, verbose, weights, *args, **kwargs)  # type: ignore[misc]

    def predict(self: Any, x: Any, batch_size: int | None = None, *args: Any, **kwargs: Any) -> Any:
        check_positive_or_none("batch_size", batch_size)
        x = self._check_data(x)
        with running.weights_kept(self):
            return super().predict(x, batch_size, *args, **kwargs)  # type: ignore[misc]

    def train_on_batch(
        self: Any, x: Any, y: Any = None, sample_weight: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        x = self.checked_inputs(x)
        targets = self._check_targets(x, y, sample_weight, step=True)
        return super().train_on_batch(x, *targets, *args, **kwargs)  # type: ignore[misc]

    def test_on_batch(
        self: Any, x: Any, y: Any = None, sample_weight: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        x = self.checked_inputs(x)
        targets = self._check_targets(x, y, sample_weight, step=True)
        return super().test_on_batch(x, *targets, *args, **kwargs)  # type: ignore[misc]

    def predict_on_batch(self: Any, x: Any) -> Any:
        return super().predict_on_batch(self.checked_inputs(x))  # type: ignore[misc]

    def to_arrays(self: Any, value: Any) -> Any:
        """Convert containers of numbers to arrays of the dtypes that this model's steps take."""
        channels = 3 if self.preprocessor is None else len(self.preprocessor.mean)
        return to_arrays(value, functools.partial(running.step_dtype, model=self), channels)

    def convert_inputs(self: Any, x: Any) -> Any:
        """Convert inputs to arrays, without checking them.

        Texts become what `encode` returns, and gray images get a channel axis. A list of images of
        different sizes becomes one batch of the model's size.
        """
        x = self.to_arrays(x)
        if are_texts(x):
            return self.to_arrays(self.encode(x))
        if self.preprocessor is None:
            return x
        if not are_single_images(x):
            return with_channel(x, self.input_shape[-1])
        for image in x:
            self.check_inputs(image[None])
        return self.preprocessor.resized(x)

    def checked_inputs(self: Any, x: Any) -> Any:
        """Convert inputs to arrays and check them; tensors, which may be symbolic, stay as is."""
        x = self.convert_inputs(x)
        if are_arrays(x):
            self.check_inputs(x)
        return x

    def encode(self, texts: Any) -> Any:
        """Convert texts to arrays; a model that takes no texts raises ValueError."""
        raise ValueError(
            f"{type(self).__name__} takes arrays of images and no texts. Read a file with "
            f"`keras_permix.data.read_image`. Received: {str(texts)[:200]!r}"
        )

    def check_inputs(self: Any, x: Any) -> None:
        """Check the shape and range of arrays or tensors, and warn once if they look scaled.

        Raises:
            ValueError: for inputs of another shape or range, such as images outside 0–255.
        """
        if self.preprocessor is not None and (isinstance(x, np.ndarray) or keras.ops.is_tensor(x)):
            self.preprocessor.check(x)
            warning = self.preprocessor.warning_of(x)
            if warning and not self._warned_of_range:
                self._warned_of_range = True
                warnings.warn(warning, stacklevel=4)

    def _check_data(self, x):
        """Convert and check what `fit`, `evaluate` or `predict` gets as `x`."""
        x = convert_batches(self.convert_inputs(x), self._convert_batch, self)
        check_samples(x, self)
        self.check_inputs(x)
        return x

    def _check_targets(self, x, y=None, sample_weight=None, step=False):
        """Convert and check targets; a single step copies no tensor from its device."""
        y, sample_weight = self.to_arrays(y), self.to_arrays(sample_weight)
        if not (step and keras.ops.is_tensor(y)):
            check_targets(x, y, sample_weight, self)
        return y, sample_weight

    def _convert_batch(self, batch):
        """Convert `x`, or a tuple or list that begins with it, to a tuple of arrays."""
        texts = isinstance(batch, list) and all(isinstance(x, str) for x in flatten(batch))
        x, *rest = batch if isinstance(batch, list | tuple) and not texts else (batch,)
        return (self.convert_inputs(x), *map(self.to_arrays, rest))
