"""Convert and check the inputs and targets of models."""

import functools
import inspect
import warnings
from contextlib import nullcontext
from typing import Any

import keras
import numpy as np
from keras.tree import flatten

from keras_permix._typing import Tensor
from keras_permix.layers.embedding.images import with_channel
from keras_permix.ops.backend import running
from keras_permix.zoo.arrays import (
    are_arrays,
    are_single_images,
    are_texts,
    convert_batches,
    to_arrays,
)
from keras_permix.zoo.targets import check_targets


def _extended(name: str) -> Any:
    """Return the Keras method `name`, with its arguments converted and checked by `_run`."""

    @functools.wraps(getattr(keras.Model, name))
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._run(getattr(super(CheckedInputs, self), name), args, kwargs)

    return method


class CheckedInputs:
    """Convert and check inputs and targets before a Keras model takes them.

    Mix this into a Keras model. Lists, table columns, texts and tensors of another framework become
    NumPy arrays, which are checked once per call. Batches of generators and `PyDataset`s are
    converted but not checked. Those of a `tf.data.Dataset` are only cast to the model's dtypes, and
    those of a PyTorch `DataLoader` must be arrays or tensors.
    """

    # `self: Any` is a Keras model.
    _warned_of_range = False
    _warned_loss_id = 0

    def __call__(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Tensor:
        return super().__call__(self.checked_inputs(inputs), *args, **kwargs)  # type: ignore[misc]

    fit = _extended("fit")
    evaluate = _extended("evaluate")
    predict = _extended("predict")
    train_on_batch = _extended("train_on_batch")
    test_on_batch = _extended("test_on_batch")
    predict_on_batch = _extended("predict_on_batch")

    def _run(
        self: Any, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any], loss: bool = True
    ) -> Any:
        """Call a method of Keras with converted and checked inputs and targets.

        Targets are checked against the loss of this model if the method uses its `loss`. For single
        steps, tensors are not copied to the host to check them.
        """
        signature, step = inspect.signature(method), method.__name__.endswith("_on_batch")
        bound = signature.bind(*args, **kwargs)
        given = bound.arguments
        validation: dict[str, Any] = {}
        held_out: Any = given.get("validation_data")
        if held_out is not None:
            held_out = held_out if isinstance(held_out, tuple | list) else (held_out,)
            validation = dict(zip(("x", "y", "sample_weight"), held_out, strict=False))
        for data in (given, validation) if validation else (given,):
            x = self.convert_inputs(data.get("x"))
            if not step:
                x = convert_batches(x, self._convert_batch, self)
                parts = flatten(x)
                empty = [part is None or 0 in getattr(part, "shape", ())[:1] for part in parts]
                if not parts or any(empty):
                    raise ValueError(f"`x` must not be empty. Received: x={x!r:.200}")
            data["x"] = x
            if not step or are_arrays(x):
                self.check_inputs(x)
            for name in {"y", "sample_weight"} & data.keys():
                data[name] = self.to_arrays(data[name])
            y = data.get("y")
            if loss and "y" in signature.parameters and not (step and keras.ops.is_tensor(y)):
                check_targets(x, y, data.get("sample_weight"), self)
        if validation:
            given["validation_data"] = (*validation.values(), *held_out[3:])
        with nullcontext() if step else running.weights_kept(self):
            return method(*bound.args, **bound.kwargs)

    def to_arrays(self: Any, value: Any) -> Any:
        """Convert containers of numbers to arrays with the dtypes of the model's steps."""
        channels = 3 if self.preprocessor is None else len(self.preprocessor.mean)
        return to_arrays(value, functools.partial(running.step_dtype, model=self), channels)

    def convert_inputs(self: Any, x: Any) -> Any:
        """Convert inputs to arrays, without checking them.

        Texts are encoded by `encode`, and gray images get a channel axis. A list of images becomes
        one batch of the model's size, so that a step is compiled only once.
        """
        listed = isinstance(x, list | tuple)
        x = self.to_arrays(x)
        if are_texts(x):
            return self.to_arrays(self.encode(x))
        if self.preprocessor is None:
            return x
        channels = self.input_shape[-1]
        if isinstance(x, list) and channels == 1:  # gray images of several sizes
            x = [image[..., None] if np.ndim(image) == 2 else image for image in x]
        if not are_single_images(x):
            x = with_channel(x, channels)
            size = (self.preprocessor.image_size,) * 2
            images = listed and isinstance(x, np.ndarray) and x.ndim == 4
            if not images or x.shape[1:3] == size:
                return x
        for image in x:
            self.check_inputs(image[None])
        return self.preprocessor.resized(x)

    def checked_inputs(self: Any, x: Any) -> Any:
        """Convert inputs to arrays and check them; tensors, which may be symbolic, are kept."""
        x = self.convert_inputs(x)
        if are_arrays(x):
            self.check_inputs(x)
        return x

    def encode(self, texts: Any) -> Any:
        """Convert texts to arrays; models without text inputs raise ValueError."""
        rule = "`x` must be images, as returned by `keras_permix.data.read_image`"
        raise ValueError(f"{rule}. Received: x={texts!r:.200}")

    def check_inputs(self: Any, x: Any) -> None:
        """Check the shape and range of arrays or tensors, and warn once if they look scaled.

        Raises:
            ValueError: for inputs of another shape or range, such as images outside 0–255.
        """
        if self.preprocessor is not None and (isinstance(x, np.ndarray) or keras.ops.is_tensor(x)):
            warning = self.preprocessor.check(x)
            if warning and not self._warned_of_range:
                self._warned_of_range = True
                warnings.warn(warning, stacklevel=4)

    def _convert_batch(self, batch):
        """Convert `x`, or a tuple or list that begins with it, to a tuple of arrays."""
        texts = isinstance(batch, list) and all(isinstance(x, str) for x in flatten(batch))
        x, *rest = batch if isinstance(batch, list | tuple) and not texts else (batch,)
        return (self.convert_inputs(x), *map(self.to_arrays, rest))
