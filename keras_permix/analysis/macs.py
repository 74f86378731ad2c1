"""Count multiply-adds of models, and compare models before and after a swap."""

import contextlib
import functools
from typing import Any, NamedTuple

import keras

from keras_permix._typing import Model
from keras_permix.analysis.mac_rules import FREE, FREE_BY_NAME, FREE_OPERATIONS, RULES, RULES_OF_TWO
from keras_permix.analysis.watch import watched
from keras_permix.ops.backend import running


class MACs(NamedTuple):
    """Hold the results of `count_macs`.

    Args:
        total: Multiply-adds of one sample.
        by_layer: Those that each layer does itself, not by layers within it, by its path.
        uncounted: How many layers and operations of a class there is no rule for, by its name.
            They are not in `total`.

    Example:

    >>> from keras_permix.analysis import count_macs
    >>> from keras_permix.zoo import CSPViT
    >>> macs = count_macs(CSPViT.from_preset("test"))
    >>> macs.total == sum(macs.by_layer.values()), max(macs.by_layer, key=macs.by_layer.get)
    (True, 'block_0/mlp_in')
    """

    total: int
    by_layer: dict[str, int]
    uncounted: dict[str, int]


def count_macs(model: Any, inputs: Any = None, rules: dict | None = None) -> MACs:
    """Count the multiply-adds of one sample, as the Dimension Mixer paper does.

    The model is called once (on JAX one of the zoo is traced), and each layer reports its own work.

    * Products of matrices count one per multiply-add, in dense layers, convolutions and attention
      maps; block-diagonal layers count one more for each output with a bias.
    * Normalizations, nonlinear activations and softmaxes count one per output. An iteration of
      Sinkhorn has two softmaxes.
    * A moving average counts its recurrence; a Fourier transform counts two for each value and each
      halving of its axes.
    * Other biases, poolings, resizing, sums, means, gates, elementwise products, sorting and what
      is computed of weights only count nothing.

    Args:
        model: A model.
        inputs: A batch of one sample, or a list of one text. Defaults to generated inputs of a
            zoo model, such as an image of its size.
        rules: Additional rules by class: functions of the layer and of the shapes of its first
            input and output.

    Returns:
        A `MACs`: `total`, `by_layer`, and `uncounted`, the layers without a rule.

    Raises:
        ValueError: for inputs that are no batch of one sample, or none where the model makes none.

    Example:

    >>> from keras_permix.analysis import count_macs
    >>> from keras_permix.zoo import MLPMixer
    >>> macs = count_macs(MLPMixer(expansion=1))
    >>> macs.total, macs.by_layer["patch_embedding/projection"], macs.uncounted
    (20726016, 371712, {})

    Source: Sapkota & Bhattarai, "Dimension Mixer", 2023, Tables II and V, whose numbers it meets.
    """
    if inputs is None and hasattr(model, "make_inputs"):
        inputs = model.make_inputs(seed=0, batch=1)
    inputs = model.encoded(inputs) if hasattr(model, "encoded") else inputs
    sizes = [shape[:1] for shape in _shapes(inputs)]
    if not sizes or set(sizes) != {(1,)}:
        raise ValueError(
            "`inputs` must be a batch of one sample, and be given for a model that is not of the "
            f"zoo. Received: inputs of shapes {_shapes(inputs)}"
        )
    rules = {**dict.fromkeys(FREE, _nothing), **RULES, **(rules or {})}
    layers = list(model._flatten_layers())
    # A softmax within Keras' attention is counted there, where not every backend calls it.
    counted = {id(layer._softmax) for layer in layers if type(layer) in RULES_OF_TWO}
    by_layer: dict[str, int] = {}
    unknown: dict[int, str] = {}

    def note(layer, given, outputs):
        of_two = type(layer) in RULES_OF_TWO and type(layer) not in rules
        rule = (RULES_OF_TWO if of_two else rules).get(type(layer))
        if rule is None and not _is_graph(layer) and _qualified_name(layer) not in FREE_BY_NAME:
            unknown[id(layer)] = type(layer).__name__
        if rule is None:
            return
        shapes = _shapes(list(given.values()))
        macs = rule(layer, shapes[0], shapes[1] if of_two else _shapes(outputs)[0])
        if macs:
            by_layer[layer.path] = by_layer.get(layer.path, 0) + macs

    with contextlib.ExitStack() as calls:
        for layer in layers:
            if id(layer) not in counted:
                calls.enter_context(watched(layer, note))
        call = functools.partial(model, training=False)
        if hasattr(model, "make_inputs"):  # Those of the zoo ask for nothing but shapes.
            running.call_for_shapes(call, inputs)
        else:
            call(inputs)
    for operation in _operations(model):
        unknown[id(operation)] = type(operation).__name__
    names = sorted(unknown.values())
    return MACs(sum(by_layer.values()), by_layer, {name: names.count(name) for name in names})


def _nothing(layer, x, y):
    return 0


def _qualified_name(layer):
    return f"{type(layer).__module__.partition('.')[0]}.{type(layer).__name__}"


def _is_graph(layer):
    """Return whether a layer is a model that only calls other layers."""
    return isinstance(layer, keras.Sequential) or hasattr(layer, "operations")


def _operations(model):
    """Return the operations of functional models that are not layers and not free."""
    for graph in model._flatten_layers():
        for operation in getattr(graph, "operations", ()):
            free = type(operation).__name__ in FREE_OPERATIONS
            if not free and not isinstance(operation, keras.layers.Layer):
                yield operation


def _shapes(arrays):
    flat = keras.tree.flatten(arrays)
    return [tuple(array.shape) for array in flat if hasattr(array, "shape")]


class SwapReport(NamedTuple):
    """Hold the results of `swap_report`, printed as a table.

    Args:
        parameters: Numbers of weights, before and after.
        macs: What `count_macs` gives, before and after.

    Example:

    >>> from keras_permix import swap_mixer
    >>> from keras_permix.analysis import swap_report
    >>> from keras_permix.zoo import ViT
    >>> model = ViT.from_preset("test")
    >>> report = swap_report(model, swap_mixer(model, "csp"))
    >>> report.parameters, [macs.total for macs in report.macs]
    ((1443, 1187), [28384, 15072])
    """

    parameters: tuple[int, int]
    macs: tuple[MACs, MACs]

    def __str__(self) -> str:
        rows = {"parameters": self.parameters, "multiply-adds": [macs.total for macs in self.macs]}
        lines = [f"{'':14}{'before':>16}{'after':>16}{'change':>10}"]
        for name, (before, after) in rows.items():
            change = f"{100 * (after / before - 1):+.1f} %" if before else ""
            lines.append(f"{name:14}{before:16,}{after:16,}{change:>10}")
        left_out = sorted({name for macs in self.macs for name in macs.uncounted})
        if left_out:
            lines.append(f"multiply-adds are without those of {', '.join(left_out)}")
        return "\n".join(lines)


def swap_report(before: Model, after: Model, inputs: Any = None) -> SwapReport:
    """Compare a model with the result of `swap_mixer`.

    Args:
        before, after: Two models that take the same inputs.
        inputs: What to call them with, a batch of one sample, which your own models need. `None`:
            what a model of the zoo makes up.

    Returns:
        A `SwapReport`.

    Raises:
        ValueError: for inputs that are no batch of one sample, or none where the model makes none.

    Example:

    >>> from keras_permix import swap_mixer
    >>> from keras_permix.analysis import swap_report
    >>> from keras_permix.zoo import ViT
    >>> model = ViT.from_preset("cifar10_small")
    >>> print(swap_report(model, swap_mixer(model, "csp")))
                            before           after    change
    parameters             808,586         611,978   -24.3 %
    multiply-adds       57,315,712      38,343,040   -33.1 %
    """
    parameters = (before.count_params(), after.count_params())
    return SwapReport(parameters, (count_macs(before, inputs), count_macs(after, inputs)))
