"""Name the outputs of classifiers, replace their heads, and check the scale of targets."""

from numbers import Real
from typing import Any, Self

import keras
import numpy as np

from keras_permix._typing import Labels, Tensor
from keras_permix.utils.checks import check_floats, check_integer
from keras_permix.zoo.presets.load import is_quantized
from keras_permix.zoo.presets.transfer import transfer_weights

UNSCALED = {"target_mean": 0.0, "target_std": 1.0}


class NamedOutputs:
    """Mix into a `ZooModel` to name the most probable classes, and to replace the head."""

    # `self: Any` is a `Classifier`.

    def classify(self: Any, inputs: Any, top: int = 5) -> list[list[tuple[str, float]]]:
        """Name the most probable classes or labels.

        Args:
            inputs: A batch of inputs, or a list of images `(height, width, channels)` of any sizes.
            top: Number of classes to name.

        Returns:
            See `decode_predictions`.

        Raises:
            ValueError: as `decode_predictions`.

        Example:
            >>> from keras_permix.zoo import CSPViT
            >>> model = CSPViT.from_preset("test")
            >>> [[(label, _), *others]] = model.classify(np.zeros((1, 8, 8, 3), "uint8"))
            >>> label in model.labels, len(others)
            (True, 2)
        """
        return self.decode_predictions(self.predict(inputs, verbose=0), top)

    def decode_predictions(
        self: Any, predictions: Tensor, top: int = 5
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
            ValueError: for a `top` below 1, a model of one class or of numbers, or predictions
                that are not finite or have another shape.
        """
        top = check_integer("top", top)
        predictions = keras.ops.convert_to_numpy(predictions).astype("float64")
        kind, classes = self.predicts, self.output_shape[-1]
        if kind == "values" or kind == "class" and classes < 2:
            rule = "A model must predict labels, or at least 2 classes, to name them"
            raise ValueError(f"{rule}. Received: predicts={kind!r}, num_classes={classes}")
        if predictions.shape[1:] != (classes,) or not np.isfinite(predictions.max(1)).all():
            rule = f"`predictions` must be finite logits (batch, {classes})"
            raise ValueError(f"{rule}. Received: {predictions!r:.200} of shape {predictions.shape}")
        labels = self.labels or [str(number) for number in range(classes)]
        if kind == "labels":
            probabilities = np.exp(-np.logaddexp(0, -predictions))
        else:
            shifted = np.exp(predictions - predictions.max(1, keepdims=True))
            probabilities = shifted / shifted.sum(1, keepdims=True)
        return [
            [(labels[best], float(row[best])) for best in np.argsort(-row)[:top]]
            for row in probabilities
        ]

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
        source: Any = self
        config = {**source.get_config(), "num_classes": num_classes, "labels": labels, **UNSCALED}
        config = {key: value for key, value in config.items() if key not in ("name", "trainable")}
        layers = source._flatten_layers()
        if is_quantized(config) or any(getattr(layer, "lora_enabled", False) for layer in layers):
            raise ValueError(
                "The head of a model with quantized weights or LoRA cannot be replaced. Save the "
                f"model as a preset, which merges LoRA. Received: {source.name}"
            )
        model = type(source).from_config(config)
        transfer_weights(source, model, {"num_classes": num_classes}, new_head=True)
        model.get_layer("head").trainable = True
        return model


def check_scale(scale: dict[str, Any], targets: int) -> dict[str, Any]:
    """Return the mean and the standard deviation of targets as floats, or lists per target."""
    for name, value in scale.items():
        one = isinstance(value, Real)
        floats = check_floats(name, [value] if one else value, 1 if one else targets, "target")
        scale = {**scale, name: floats[0] if one else floats}
        if name.endswith("std") and np.min(floats) <= 0:
            raise ValueError(f"`{name}` must be positive. Received: {name}={scale[name]}")
    return scale
