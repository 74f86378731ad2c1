"""Define the base classes of models that predict a class, several labels or numbers."""

from collections.abc import Sequence
from typing import Any, Self

import keras
import numpy as np

from keras_permix._typing import DType, Labels, Tensor
from keras_permix.layers.embedding.images import RANGE
from keras_permix.utils.checks import check_choice, check_integer
from keras_permix.zoo.model import ZooModel
from keras_permix.zoo.parts import check_scale
from keras_permix.zoo.presets.load import is_quantized
from keras_permix.zoo.presets.transfer import transfer_trainable, transfer_weights

# kind of outputs -> name of the task, for images, texts or pairs
TASK_NAMES = {
    "class": "{}_classification",
    "labels": "multilabel_{}_classification",
    "values": "{}_regression",
}
UNSCALED = {"target_mean": 0.0, "target_std": 1.0}


class Classifier(ZooModel):
    """Build a `ZooModel` with one logit per class or label, or one number per target.

    A subclass takes `num_classes`, names its last layer with weights "head", and defines
    `input_kind`.

    Args:
        inputs, outputs, feature_maps, config, dtype, kwargs: As in `ZooModel`.
        predicts: "class" (one of several, a softmax over logits), "labels" (any number, a sigmoid
            per logit) or "values" (numbers).
        target_mean, target_std: With "values", mean and standard deviation of the training
            targets: one number, or one per target. The model predicts
            `target_mean + target_std * output`, in the units of the targets.

    Raises:
        ValueError: for an unknown `predicts`, a `target_std` that is not positive, or a
            `target_mean` without "values".
    """

    default_classes = 2
    head_arguments = ("predicts", "target_mean", "target_std")

    def __init__(
        self,
        inputs: Any,
        outputs: Any,
        feature_maps: list[Tensor],
        config: dict[str, Any],
        dtype: DType = None,
        *,
        predicts: str = "class",
        target_mean: float | Sequence[float] = 0.0,
        target_std: float | Sequence[float] = 1.0,
        **kwargs: Any,
    ) -> None:
        check_choice("predicts", predicts, TASK_NAMES)
        scale = {"target_mean": target_mean, "target_std": target_std}
        if predicts == "values":
            scale = check_scale(scale, outputs.shape[-1])
            outputs = keras.layers.Rescaling(
                scale["target_std"], scale["target_mean"], dtype="float32", name="values"
            )(outputs)
        elif scale != UNSCALED:
            raise ValueError(
                f'`target_mean` and `target_std` require `predicts="values"`. Received: {scale}, '
                f"predicts={predicts!r}"
            )
        if predicts != "class":
            config = {**config, "predicts": predicts, **(scale if predicts == "values" else {})}
        super().__init__(inputs, outputs, feature_maps, config, dtype, **kwargs)

    @classmethod
    def input_kind(cls, config: dict[str, Any]) -> str:
        """Return the kind of inputs of a configuration: "image", "text" or "pair"."""
        raise NotImplementedError(f"{cls.__name__} must define `input_kind`.")

    @classmethod
    def task_for(cls, config: dict[str, Any]) -> str:
        return TASK_NAMES[config.get("predicts", "class")].format(cls.input_kind(config))

    @classmethod
    def keep_arguments(cls, config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
        """Reset the scale of the targets if the targets change."""
        outputs = ("predicts", "num_classes")
        same = all(changes.get(name, config.get(name)) == config.get(name) for name in outputs)
        return {} if same else dict(UNSCALED)

    @property
    def predicts(self) -> str:
        """Return the kind of outputs: "class", "labels" or "values"."""
        return self._zoo_config.get("predicts", "class")

    def describe_output(self) -> dict[str, Any]:
        if self.predicts == "values":
            return {"outputs": "values", "targets": self.output_shape[-1]}
        return super().describe_output()

    def classify(self, inputs: Any, top: int = 5) -> list[list[tuple[str, float]]]:
        """Name the most probable classes or labels.

        Args:
            inputs: A batch of inputs, or a list of images `(height, width, channels)` of any sizes.
            top: Number of classes to name.

        Returns:
            See `decode_predictions`.

        Raises:
            ValueError: for a `top` below 1, a model of one class or of numbers, or outputs that are
                NaN or infinite.

        Example:

        >>> from keras_permix.zoo import CSPViT
        >>> model = CSPViT.from_preset("test")
        >>> [[(label, _), *others]] = model.classify(np.zeros((1, 8, 8, 3), "uint8"))
        >>> label in model.labels, len(others)
        (True, 2)
        """
        check_integer("top", top)  # fail before predicting
        self._check_several()
        return self.decode_predictions(self.predict(inputs, verbose=0), top)

    def decode_predictions(
        self, predictions: Tensor, top: int = 5
    ) -> list[list[tuple[str, float]]]:
        """Name the most probable classes or labels of logits.

        Args:
            predictions: Logits `(batch, num_classes)`, as returned by `predict`.
            top: Number of classes to name.

        Returns:
            For each sample a list of `(label, probability)`, the most probable first. A model
            without labels names classes by their numbers. The probabilities of a model that
            predicts labels are independent.

        Raises:
            ValueError: for a `top` below 1, a model of one class or of numbers, predictions of
                another shape, or samples whose largest prediction is not finite.
        """
        top = check_integer("top", top)
        self._check_several()
        predictions = keras.ops.convert_to_numpy(predictions).astype("float64")
        classes = self.output_shape[-1]
        if predictions.ndim != 2 or predictions.shape[1] != classes:
            raise ValueError(
                f"`predictions` must be logits (batch, {classes}). "
                f"Received: predictions.shape={predictions.shape}"
            )
        largest = predictions.max(1, keepdims=True)
        rows = np.flatnonzero(~np.isfinite(largest))
        if len(rows):
            raise ValueError(
                "`predictions` must be numbers, and the largest of each sample finite. Received: "
                f"NaN or infinity in {len(rows)} of {len(predictions)} samples, first in sample "
                f"{rows[0]}"
            )
        labels = self.labels or [str(number) for number in range(classes)]
        if self.predicts == "labels":
            probabilities = np.exp(-np.logaddexp(0, -predictions))
        else:
            shifted = np.exp(predictions - largest)
            probabilities = shifted / shifted.sum(1, keepdims=True)
        return [
            [(labels[best], float(row[best])) for best in np.argsort(-row)[:top]]
            for row in probabilities
        ]

    def _check_several(self):
        """Raise for models of numbers or of one class, whose probability would always be 1."""
        if self.predicts == "values":
            raise ValueError(
                "The model predicts numbers instead of classes: call `predict`. "
                f"Received: {self.name} with predicts={self.predicts!r}"
            )
        if self.predicts == "class" and self.output_shape[-1] < 2:
            raise ValueError(
                "`num_classes` must be at least 2 to name classes. With a single output, take the "
                "sigmoid of `predict`, or train one logit per class. "
                f"Received: {self.name} with num_classes={self.output_shape[-1]}"
            )

    def reset_classifier(self, num_classes: int, labels: Labels | None = None) -> Self:
        """Return a copy of the model with a new head of zeros for other classes or targets.

        Args:
            num_classes: Number of classes.
            labels: Names of the classes, or `None`.

        Returns:
            A new model of this class. Frozen layers stay frozen, except the head.

        Raises:
            ValueError: for a wrong number of labels, or a model that is quantized or has LoRA.

        Example:

        >>> from keras_permix.zoo import CSPViT
        >>> model = CSPViT.from_preset("test").reset_classifier(2, labels=["cat", "dog"])
        >>> model.output_shape, model.labels
        ((None, 2), ('cat', 'dog'))
        """
        config = {**self.get_config(), "num_classes": num_classes, "labels": labels, **UNSCALED}
        config = {key: value for key, value in config.items() if key not in ("name", "trainable")}
        layers = self._flatten_layers()
        if is_quantized(config) or any(getattr(layer, "lora_enabled", False) for layer in layers):
            raise ValueError(
                "The head of a model with quantized weights or LoRA cannot be replaced. Use the "
                "original model, or save the model as a preset, which merges LoRA. "
                f"Received: {self.name}, num_classes={num_classes}"
            )
        model = type(self).from_config(config)
        transfer_weights(self, model, {"num_classes": num_classes}, new_head=True)
        transfer_trainable(self, model)
        return model


class ImageClassifier(Classifier):
    """Classify images, which the layer "preprocessor" resizes to squares and normalizes.

    The constructor takes `image_size`, `channels`, `mean` and `std`.
    """

    default_classes = 10

    @classmethod
    def input_kind(cls, config: dict[str, Any]) -> str:
        return "image"

    def make_inputs(self, seed: int, batch: int) -> Any:
        return make_images(self, seed, batch)

    def describe_input(self) -> dict[str, Any]:
        return describe_images(self)


def make_images(model, seed, batch):
    """Make random images of the size to which a model resizes its inputs."""
    size = model.preprocessor.image_size
    shape = (batch, size, size, model.input_shape[-1])
    return np.random.default_rng(seed).integers(0, 256, shape, dtype="uint8")


def describe_images(model):
    """Describe the images that a model takes, for a preset."""
    preprocessor = model.preprocessor
    return {
        "size": preprocessor.image_size, "mean": preprocessor.mean, "std": preprocessor.std,
        "range": list(RANGE),
    }  # fmt: skip
