"""Export models to files that run without this package."""

import json
from contextlib import nullcontext
from typing import Any

import keras
import numpy as np

from keras_permix._typing import StrPath
from keras_permix.ops.backend import running
from keras_permix.ops.dispatch.dispatch import exporting

OF_ONE_SIZE = ("litert", "onnx", "openvino")  # formats that fix all sizes except the batch


class Exported:
    """Mix into a Keras model to export it with the settings that each format needs."""

    # `self: Any` is a Keras model.
    def export(
        self: Any,
        filepath: StrPath,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Write the model to a file that runs without this package, as Keras' `export` does.

        ONNX, OpenVINO and LiteRT fix all sizes except the batch. Images and texts have the size of
        the model, graphs the largest number of atoms in `domain`, or 8 nodes. On JAX and
        TensorFlow, these formats use the reference implementations of the ops. On PyTorch, ONNX is
        written by `torch.onnx.export(dynamo=True)` with a dynamic batch; pass `dynamo=False` for
        the older exporter. LiteRT files from PyTorch take batches of one.

        ONNX files use the names of the model's inputs and outputs, such as `images` and `logits`.
        Their first axis is called `batch`. The metadata holds `labels`, a JSON list, if the model
        has labels.

        Args:
            filepath: The file or folder to write.
            format: `"tf_saved_model"`, `"onnx"`, `"openvino"`, `"litert"`, or another format of
                Keras.
            verbose: Whether to print the path.
            input_signature: Other shapes and dtypes of the inputs: a list of one `keras.InputSpec`,
                or of a dict of `keras.InputSpec` by the names of the inputs.
            **kwargs: Other arguments of Keras for the format or, for ONNX on PyTorch, of
                `torch.onnx.export`.

        Raises:
            ImportError: if a package for the format is missing.
            ValueError: for an `input_signature` without sizes that the format fixes, or
                "tf_saved_model" on PyTorch.

        Example:
            >>> from keras_permix.zoo import CSPViT
            >>> model = CSPViT.from_preset("test")
            >>> model.export("test.onnx", format="onnx", verbose=False)  # doctest: +SKIP
        """
        ours, signature = running.exports(), input_signature
        if ours and format == "tf_saved_model":
            rule = "`format` must not be 'tf_saved_model' on PyTorch; try 'onnx'"
            raise ValueError(f"{rule}. Received: {format=}")
        if signature is None and format in OF_ONE_SIZE:
            signature = [keras.tree.map_structure(_spec, self.input, self._example(1))]
        if format == "onnx" and ours:
            inputs = self._example(2) if input_signature is None else _zeros(input_signature)
            names = {"output_names": list(self.output_names)}
            ours.write_onnx(self, inputs, filepath, **{**names, **kwargs})
            _describe(self, filepath, kwargs.get("output_names"))
            if verbose is not False:
                print(f"Saved artifact at '{filepath}'.")
            return
        with exporting() if format in OF_ONE_SIZE and not ours else nullcontext():
            super().export(  # type: ignore[misc]  # of the model
                str(filepath), format=format, verbose=verbose, input_signature=signature, **kwargs
            )
        if format == "onnx":
            _describe(self, filepath)

    def _example(self, batch, seed=0):
        """Make inputs of the size for formats with a fixed size."""
        return self.make_inputs(seed, batch)


def _describe(model, path, output_names=None):
    """Name the inputs, the outputs and the batch axis of an ONNX file, and store the labels."""
    import onnx

    file = onnx.load(path)
    graph = file.graph
    names = sorted((tensor.name for tensor in model.inputs), key=len, reverse=True)
    for value in graph.input:
        name = names[0] if len(names) == 1 else next(name for name in names if name in value.name)
        if value.name != name:
            graph.node.insert(0, onnx.helper.make_node("Identity", [name], [value.name]))
            value.name = name
    for value, name in zip(graph.output, output_names or model.output_names, strict=True):
        if value.name != name:
            graph.node.append(onnx.helper.make_node("Identity", [value.name], [name]))
            value.name = name
    for value in (*graph.input, *graph.output):
        size = value.type.tensor_type.shape.dim[0]
        if not size.HasField("dim_value"):
            size.dim_param = "batch"
    if model.labels is not None:
        onnx.helper.set_model_props(file, {"labels": json.dumps(model.labels, ensure_ascii=False)})
    onnx.save(file, path)


def _spec(tensor, array):
    """Return the shape and dtype of an input of known size in a batch of any size."""
    return keras.InputSpec(tensor.dtype, (None, *array.shape[1:]), name=tensor.name)


def _zeros(signature):
    """Make a batch of two zero inputs from a signature."""

    def zeros(spec):
        if None in spec.shape[1:]:
            rule = "`input_signature` must give all sizes except the batch"
            raise ValueError(f"{rule}. Received: {spec.shape}")
        return np.zeros((2, *spec.shape[1:]), keras.backend.standardize_dtype(spec.dtype))

    return keras.tree.map_structure(zeros, signature)
