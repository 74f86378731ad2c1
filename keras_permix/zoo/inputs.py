"""A look at inputs where they come in, before anything compiled has them."""

import contextlib
import copy
import functools
import inspect
import itertools
import os
import types
import warnings
from typing import Any

import keras
import numpy as np

from keras_permix._typing import Tensor
from keras_permix.data.pipeline import Pipeline
from keras_permix.layers.embedding.images import with_channel
from keras_permix.ops.backend import running
from keras_permix.utils.checks import check_integer
from keras_permix.zoo.arrays import to_arrays
from keras_permix.zoo.targets import check_targets, check_weights, needs_targets
from keras_permix.zoo.texts import are_texts


def _checked(name):
    """The method of a Keras model, which looks at its arrays first, and reads texts."""
    signature = inspect.signature(getattr(keras.Model, name))

    @functools.wraps(getattr(keras.Model, name))
    def method(self, x=None, *args, **kwargs):
        call = signature.bind(self, x, *args, **kwargs)
        held_out = call.arguments.get("validation_data")
        beside, *rest = held_out if isinstance(held_out, tuple | list) else (held_out,)
        if x is None or isinstance(x, dict) and not x:
            raise ValueError(f"`x` must be what the model takes. Received: {name} of x={x}")
        watches = contextlib.ExitStack()
        (x, first), (beside, other) = self._opened(x, watches), self._opened(beside, watches)
        # One batch is no more than a step, for which a tensor would leave its device.
        whole = not name.endswith("_on_batch")
        for seen in (first, other):
            if whole or are_arrays(seen):
                self.check_inputs(seen)
        _check_count(x)
        for size in ("batch_size", "validation_batch_size"):
            if call.arguments.get(size) is not None:
                check_integer(size, call.arguments[size])
        y, weights = map(self.to_arrays, map(call.arguments.get, ("y", "sample_weight")))
        if "y" in signature.parameters:
            if y is None and are_arrays(x) and needs_targets(self):
                raise ValueError(f"`y` must be the targets of `x`. Received: {name} of x alone")
            for data, seen in ((x, first), (beside, other)):
                if data is not seen:
                    self.check_batch_targets(seen)
        rest = [self.to_arrays(part) for part in rest]
        if whole or not keras.ops.is_tensor(y):
            check_targets(y, self)
        check_weights(weights)
        for part, check in zip(
            rest, (lambda y: check_targets(y, self), check_weights), strict=False
        ):
            check(part)
        call.arguments["x"] = x
        for argument, value in (("y", y), ("sample_weight", weights)):
            if value is not None:
                call.arguments[argument] = value
        if held_out is not None:
            call.arguments["validation_data"] = (beside, *rest) if rest else beside
        with watches, running.weights_kept(self) if whole else contextlib.nullcontext():
            return getattr(super(CheckedInputs, self), name)(*call.args[1:], **call.kwargs)

    return method


def _check_count(x):
    """Refuse arrays of no sample, of which Keras makes nothing but an error of its own."""
    arrays = [x for x in keras.tree.flatten(x) if isinstance(x, np.ndarray)]
    if arrays and not all(len(array) for array in arrays if array.ndim):
        raise ValueError(
            "`x` must hold one sample or more. Received: "
            f"x of {', '.join(f'shape {array.shape}' for array in arrays)}"
        )


def _peeked(generator):
    """The first item of a generator, and a generator of all items."""

    def again():
        yield from first
        for item in generator:  # noqa: UP028, `yield from` would close it
            yield item

    first = list(itertools.islice(generator, 1))
    return first[0] if first else None, again()


def _first_of(loader):
    """A sample of what a `DataLoader` reads by its indices, as a batch; `None` of anything else.

    A batch is not begun, which may start processes. Whatever goes wrong, Keras will meet as well.
    """
    data = getattr(loader, "dataset", None)
    if not hasattr(type(data), "__len__"):
        return None
    try:
        return keras.tree.map_structure(to_arrays, loader.collate_fn([data[0]]))
    except Exception:
        return None


def _collated(collate, converted, samples):
    return running.loader_tensors(converted(collate(samples)))


class _Batches(keras.utils.PyDataset):
    """The batches of another data set, each converted by a function."""

    def __init__(self, data, converted):
        super().__init__(data.workers, data.use_multiprocessing, data.max_queue_size)
        self._data, self._converted = data, converted

    @property
    def num_batches(self):
        return self._data.num_batches

    def __getitem__(self, index):
        return self._converted(self._data[index])

    def on_epoch_begin(self):
        self._data.on_epoch_begin()

    def on_epoch_end(self):
        self._data.on_epoch_end()


def _refuse_encoded(x, takes_images):
    """Refuse encoded images and texts: bytes, and paths of files."""
    for leaf in keras.tree.flatten(x):
        if isinstance(leaf, bytes | bytearray | os.PathLike):
            way = (
                "`keras_permix.data.read_image` makes one of an image file, and `image[None]` a "
                "batch of one"
                if takes_images
                else "texts are str, which `bytes.decode` makes"
            )
            kind = f"{type(leaf).__module__}.{type(leaf).__name__}".removeprefix("builtins.")
            raise ValueError(f"`x` must be arrays: {way}. Received: x of {kind}")


def _has_strings(data):
    """Whether a `tf.data.Dataset` gives strings as inputs, which is known before it gives any."""
    spec = getattr(data, "element_spec", None)
    spec = spec[0] if isinstance(spec, tuple) and spec else spec
    return any(getattr(part, "dtype", None) == "string" for part in keras.tree.flatten(spec))


def _all_texts(batch):
    return all(isinstance(leaf, str) for leaf in keras.tree.flatten(batch))


def _are_single_images(inputs):
    return (
        isinstance(inputs, list | tuple)
        and len(inputs) > 0
        and all(isinstance(x, np.ndarray) or keras.ops.is_tensor(x) for x in inputs)
        and all(len(image.shape) == 3 for image in inputs)
    )


def are_arrays(inputs: Any) -> bool:
    """Whether inputs, however they nest, are NumPy arrays."""
    return all(isinstance(array, np.ndarray) for array in keras.tree.flatten(inputs))


class CheckedInputs:
    """What a Keras model is mixed with to look at the arrays that people give it.

    Lists, columns of tables and tensors of another framework become arrays, and texts what `encode`
    makes of them, also batch by batch in a generator, a `keras.utils.PyDataset` or a `DataLoader`.
    Arrays are looked at once per call, not per batch, and so are the tensors that `fit`, `evaluate`
    and `predict` get, the first batch of a generator, a `keras.utils.PyDataset` or a
    `tf.data.Dataset` that no other process shares, and the first sample that a `DataLoader` could
    give, each with its targets.
    Of other tensors a call looks at the shape alone, and at the values of the first images that
    come outside of a compiled step.
    """

    # `self: Any` is a Keras model, of which no type tells.
    _warned = False
    _warned_of_loss = 0  # the `id` of one

    fit = _checked("fit")
    evaluate = _checked("evaluate")
    predict = _checked("predict")
    train_on_batch = _checked("train_on_batch")
    test_on_batch = _checked("test_on_batch")
    predict_on_batch = _checked("predict_on_batch")

    def __call__(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Tensor:
        inputs = self.encoded(inputs)
        if are_arrays(inputs):  # A tensor may be that of a compiled step.
            self.check_inputs(inputs)
        elif self.preprocessor is not None:
            for tensor in keras.tree.flatten(inputs):
                self.preprocessor.check(tensor)
        return super().__call__(inputs, *args, **kwargs)  # type: ignore[misc]  # of the model

    def encoded(self: Any, x: Any) -> Any:
        """Inputs as arrays: texts as `encode` makes them, gray images with their channel.

        A list of images, each of its own size, becomes one batch of the model's size.
        """
        x = self.to_arrays(x)
        if are_texts(x):
            return self.to_arrays(self.encode(x))
        if self.preprocessor is None:
            return x
        if _are_single_images(x):
            for image in x:
                self.check_inputs(image[None])
            return self.preprocessor.resized(x)
        return with_channel(x, self.input_shape[-1])

    def to_arrays(self: Any, value: Any) -> Any:
        """Containers of numbers as arrays of the dtypes that this model's steps take."""
        channels = 3 if self.preprocessor is None else len(self.preprocessor.mean)
        return to_arrays(value, functools.partial(running.step_dtype, model=self), channels)

    def encode(self, texts: Any) -> Any:
        """The arrays that the model takes for texts; a model that takes none raises ValueError."""
        raise ValueError(
            f"{type(self).__name__} takes arrays of images, and no texts; "
            "`keras_permix.data.read_image` makes one of a file. "
            f"Received: {str(texts)[:200]!r}"
        )

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

    def check_batch_targets(self: Any, batch: Any) -> None:
        """Check the targets and weights of a batch of data, `(x, y)` or `(x, y, sample_weight)`."""
        if isinstance(batch, tuple | list) and len(batch) > 1:
            check_targets(batch[1], self)
            check_weights(batch[2] if len(batch) > 2 else None)

    def _converted(self, batch):
        """A batch of data, `x` or a tuple or list that begins with it, as a tuple of arrays."""
        alone = isinstance(batch, list) and _all_texts(batch)
        x, *rest = batch if isinstance(batch, list | tuple) and not alone else (batch,)
        return (self.encoded(x), *map(self.to_arrays, rest))

    def _opened(self: Any, x: Any, watches: contextlib.ExitStack) -> tuple[Any, Any]:
        """Inputs for a method of Keras, with texts encoded, and what can be seen of them.

        What is seen once the method runs, its errors are told by a context that `watches` gets.
        """
        x = self.encoded(x)
        _refuse_encoded(x, takes_images=self.preprocessor is not None)
        if isinstance(x, list | tuple):
            what = "images of one size" if self.preprocessor else "texts or arrays"
            raise ValueError(f"`x` must be one sample or more: {what}. Received: x={str(x)[:200]}")
        if isinstance(x, np.ndarray) and x.dtype.kind not in "biufV":
            raise ValueError(f"`x` must hold numbers. Received: x of {x.dtype}, shape {x.shape}")
        if isinstance(x, types.GeneratorType):
            first, x = _peeked(map(self._converted, x))
            return x, first
        if isinstance(x, keras.utils.PyDataset):
            batches = _Batches(x, self._converted)
            return batches, x if isinstance(x, Pipeline) else batches[0]
        if _has_strings(x):
            way = "`encode` makes of texts"
            if self.preprocessor is not None:
                way = "`keras_permix.data.read_image` reads of files"
            raise ValueError(
                f"{type(self).__name__} reads no strings of a `tf.data.Dataset`. Give it the "
                f"arrays that {way}. Received: x of {x.element_spec}"
            )
        if hasattr(x, "element_spec") and (datasets := running.tensorflow_datasets()).is_dataset(x):
            x = datasets.cast(x, functools.partial(running.step_dtype, model=self))
            if not datasets.is_read_here(getattr(self, "distribute_strategy", None)):
                return x, None
            watched = datasets.Watched(x, self._check_batch)
            watches.enter_context(watched.told())
            return watched.dataset, None
        if getattr(x, "batch_sampler", None) is not None:  # a `DataLoader`
            x = copy.copy(x)
            x.collate_fn = functools.partial(_collated, x.collate_fn, self._converted)
            first = _first_of(x)
            return x, x if first is None else first
        return x, x

    def _check_batch(self, batch):
        self.check_inputs(batch)
        self.check_batch_targets(batch)

    def check_arrays(self: Any, x: Any) -> None:
        """Check an array or tensor, or a dict of these; what else comes is not looked at."""
        known = isinstance(x, np.ndarray) or keras.ops.is_tensor(x)
        if not known or self.preprocessor is None:
            return
        self.preprocessor.check(x)
        warning = self.preprocessor.warning_of(x)
        if warning and not self._warned:
            self._warned = True
            warnings.warn(warning, stacklevel=4)
