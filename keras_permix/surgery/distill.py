"""Distill one model into another, such as attention into a permutation."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import keras
from keras import distillation, ops

from keras_permix._typing import Model
from keras_permix.ops.backend import running
from keras_permix.utils.checks import check_rate, is_index, plain
from keras_permix.zoo.model import ZooModel


def distill(
    student: Model,
    teacher: Model,
    x: Any,
    y: Any = None,
    *,
    optimizer: str | keras.Optimizer = "adamw",
    logits: float = 1.0,
    features: float = 1.0,
    layers: int | str | Sequence[int | str] | Mapping[int | str, int | str] | None = None,
    temperature: float | None = 2.0,
    labels: float = 0.0,
    **fit_arguments: Any,
) -> Model:
    """Train a model to reproduce the hidden states and outputs of another model.

    Distillation restores accuracy after `swap_mixer`, without labels. The loss is
    `labels * supervised + (1 - labels) * (logits * output + features * states)`, where `states`
    is the mean squared error of the hidden states, divided by their variance and averaged over
    `layers`. Padding is not counted. The teacher runs without dropout and is not changed.

    Training uses `keras.distillation.Distiller`. The student is not compiled, and its frozen
    weights stay frozen.

    Args:
        student: A Keras model with one output, which is trained. It must not share layers with the
            teacher.
        teacher: A Keras model with the same inputs and the same output shape.
        x: Inputs as for `fit` of the student: arrays, texts for a model of the zoo, or a data set
            of batches.
        y: Labels: integers, or probabilities of classes. Ignored with `labels=0`.
        optimizer: A Keras optimizer or its name.
        logits: Weight of the loss of outputs, at least 0: the KL divergence at `temperature`.
        features: Weight of the loss of hidden states, at least 0.
        layers: Layers to compare: names or, for models of the zoo, indices of blocks; or a dict
            from layers of the student to layers of the teacher. `None`: all blocks if both are zoo
            models, else no layers.
        temperature: Temperature of the softmax, above 0. `None`: outputs are not logits of classes,
            and the losses of outputs and labels are mean squared errors.
        labels: Weight of the supervised loss on `y`, at least 0 and below 1.
        **fit_arguments: Other arguments of `keras.Model.fit`, such as `epochs`, `batch_size` and
            `callbacks`, except weights of samples and classes.

    Returns:
        The student.

    Raises:
        ValueError: for a weight of labels or a temperature out of range, unknown layers, missing
            labels, or hidden states of different shapes. Also for models that share weights, with
            different inputs or outputs, or with probabilities as outputs if `temperature` is set.

    Example:
        >>> from keras_permix import distill, swap_mixer
        >>> from keras_permix.zoo import ViT
        >>> teacher = ViT.from_preset("test")
        >>> images = teacher.make_inputs(seed=0, batch=8)
        >>> student = distill(swap_mixer(teacher, "csp"), teacher, images, epochs=2, verbose=0)
        >>> student.get_config()["mixer"]["name"]
        'csp'

    Reference: Hinton, Vinyals, Dean, "Distilling the Knowledge in a Neural Network", 2015,
    arXiv:1503.02531; Romero et al., "FitNets: Hints for Thin Deep Nets", 2014, arXiv:1412.6550.
    """
    if {id(weight) for weight in student.weights} & {id(weight) for weight in teacher.weights}:
        raise ValueError(f"`student` must not share the teacher's weights. Received: {student}")
    if ignored := {"sample_weight", "class_weight"} & fit_arguments.keys():
        raise ValueError(f"Keras' `Distiller` supports no weights. Received: {sorted(ignored)}")
    shape = getattr(student, "output_shape", ())  # a subclassed model may have none
    if not isinstance(shape, tuple):
        raise ValueError(f"`student` must have one output. Received: {student.name}")
    classes = shape[-1:] != (1,) and getattr(student, "predicts", "class") == "class"
    if temperature is not None and (logits or labels) and not classes:
        found = f"{temperature=}, {student.name} with outputs {shape}"
        raise ValueError(f"`temperature` must be None without classes. Received: {found}")
    for model in (student, teacher):
        if temperature is not None and _returns_probabilities(model):
            rule = "Models must return logits, not probabilities, unless `temperature` is None"
            raise ValueError(f"{rule}. Received: {model.name}")
    if not (logits >= 0 and features >= 0):
        raise ValueError(f"`logits` and `features` must be ≥ 0. Received: {logits=}, {features=}")
    labels = check_rate("labels", labels)
    pairs = _pairs(student, teacher, layers) if features else []
    if not logits and not pairs:
        raise ValueError("`logits`, or `features` of `layers`, must be above 0. Received: logits=0")
    supervised: Any = keras.losses.MeanSquaredError() if temperature is None else _cross_entropy
    if pairs:  # Lists would be tracked by Keras, and then not match the outputs.
        supervised = (supervised, *[_nothing] * (2 * len(pairs)))
    layers_before = [(part, part.trainable) for part in teacher._flatten_layers()]
    weights_before = [(weight, weight.trainable) for weight in teacher.variables]
    try:
        distiller = _Distiller(
            _with_states(teacher, [theirs for _, theirs in pairs]),
            _with_states(student, [ours for ours, _ in pairs]),
            _Distillation(temperature, logits, features),
            student_loss_weight=labels,
        )
        distiller.save, distiller.save_weights = student.save, student.save_weights  # checkpoints
        distiller.compile(optimizer, supervised)
        with running.weights_kept(teacher), running.weights_kept(student):
            if isinstance(student, ZooModel):
                student._run(distiller.fit, (x, y), fit_arguments, loss=False)
            else:
                distiller.fit(x, y, **fit_arguments)
    finally:
        for part, value in layers_before:
            part._trainable = value  # `trainable` would change layers inside, which may be shared
        for weight, value in weights_before:
            weight.trainable = value
    return student


class _Distiller(distillation.Distiller):
    """Distill models that return the output, hidden states and masks in a tuple.

    Given the names of layers, Keras' `Distiller` would compute the student twice, count padding,
    and lose the structure of inputs in a dict.
    """

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        labels = self.student_loss_weight
        if sample_weight is not None:
            raise ValueError("Keras' `Distiller` supports no weights. Received: weights in `x`")
        if labels and y is None:
            raise ValueError(f"`labels` requires `y`. Received: labels={labels}, y=None")
        if labels and isinstance(y_pred, tuple):
            y = (y,) * len(y_pred)  # only the first is used
        return super().compute_loss(x, y, y_pred, sample_weight, training)


class _Distillation(distillation.DistillationLoss):
    """Weight the loss of outputs and, if the models return them, the errors of hidden states.

    These are masked squared errors, relative to the teacher's variance.
    """

    def __init__(self, temperature, logits, features):
        self.logits, self.features = logits, features
        self.output = distillation.FeatureDistillation(keras.losses.MeanSquaredError())
        if temperature is not None:
            # Keras 3.15 omits the softmax if given the name of the divergence.
            divergence = keras.losses.KLDivergence()
            self.output = distillation.LogitsDistillation(temperature, divergence)

    def compute_loss(self, teacher_outputs, student_outputs, **kwargs):
        if not isinstance(teacher_outputs, tuple):
            return self.logits * self.output.compute_loss(teacher_outputs, student_outputs)
        (expected, *theirs), (given, *ours) = teacher_outputs, student_outputs
        count = len(theirs) // 2  # hidden states, followed by their masks
        states = zip(theirs[:count], ours[:count], theirs[count:], strict=True)
        errors = sum(_relative_error(*each) for each in states) / count
        return self.logits * self.output.compute_loss(expected, given) + self.features * errors


def _relative_error(expected, given, mask):
    mask = ops.expand_dims(ops.cast(mask, expected.dtype), -1)
    axes = tuple(range(len(expected.shape) - 1))
    mean = ops.sum(expected * mask, axes) / ops.maximum(ops.sum(mask), 1)
    variance = ops.sum(mask * ops.square(expected - mean))
    return ops.sum(mask * ops.square(expected - given)) / (variance + keras.config.epsilon())


def _cross_entropy(y, logits):
    kind = keras.losses.SparseCategoricalCrossentropy
    if len(y.shape) == len(logits.shape) and y.shape[-1] == logits.shape[-1]:
        kind = keras.losses.CategoricalCrossentropy
    return kind(from_logits=True)(y, logits)


def _nothing(y, outputs):
    return 0.0


def _pairs(student, teacher, layers):
    """Return pairs of symbolic hidden states of the student and the teacher."""
    if layers is None:
        if not (isinstance(student, ZooModel) and isinstance(teacher, ZooModel)):
            return []
        depths = [len(model._feature_maps) for model in (student, teacher)]
        if depths[0] != depths[1]:
            raise ValueError(f"`layers` must be set for other depths. Received: {depths} blocks")
        layers = range(depths[0])
    if not isinstance(layers, Mapping):
        layers = plain(layers)
        layers = [layers] if isinstance(layers, int | str) else layers
        layers = dict(zip(layers, layers, strict=True))
    pairs = []
    for first, second in layers.items():
        ours, theirs = _state(student, first), _state(teacher, second)
        if ours.shape != theirs.shape:
            found = f"{first!r} of {ours.shape} and {second!r} of {theirs.shape}"
            raise ValueError(f"`layers` must pair states of the same shape. Received: {found}")
        pairs.append((ours, theirs))
    return pairs


def _state(model, layer):
    """Return the output of a layer of a functional model, by layer name or block index."""
    maps = getattr(model, "_feature_maps", [])
    if is_index(layer, len(maps)):
        return maps[layer]
    layer, graph = model.get_layer(layer), getattr(model, "_functional", model)
    nodes = chain.from_iterable(getattr(graph, "_nodes_by_depth", {}).values())
    for node in nodes:  # `layer.output` of a nested model is in the graph of that model
        if node.operation is layer:
            return node.output_tensors[0]
    return layer.output


def _returns_probabilities(model):
    """Return whether the last layer of a functional model is a softmax or sigmoid."""
    if not getattr(model, "outputs", None):
        return False
    last = model.outputs[0]._keras_history.operation
    activation = getattr(last, "activation", None)
    return isinstance(last, keras.layers.Softmax) or activation in (
        keras.activations.softmax,
        keras.activations.sigmoid,
    )


def _with_states(model, states):
    """Return a model of the same layers that returns its output, hidden states and masks."""
    if not states:
        return model
    masks = [getattr(state, "_keras_mask", None) for state in states]
    masks = [
        ops.ones_like(state[..., 0]) if mask is None else mask
        for state, mask in zip(states, masks, strict=True)
    ]
    return keras.Model(
        model.input,
        tuple(ops.cast(tensor, "float32") for tensor in (model.output, *states, *masks)),
    )
