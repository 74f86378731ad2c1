"""Export models. Each function writes a model to a file and returns a function that runs the file.

The batch size is dynamic. Image sizes and numbers of tokens and nodes are those of `_example`.
"""

from importlib import import_module
from importlib.util import find_spec

import keras
import numpy as np
import pytest
from packaging.version import Version


def saved_model(model, folder):
    """Export to TensorFlow's SavedModel with Keras."""
    import tensorflow as tf

    model.export(folder / "model", verbose=False, input_signature=signature(model))
    artifact = tf.saved_model.load(str(folder / "model"))

    def run(inputs):
        def constant(tensor, array):
            return tf.constant(array.astype(tensor.dtype))

        return artifact.serve(keras.tree.map_structure(constant, model.input, inputs)).numpy()

    return run


def litert(model, folder):
    """Export to LiteRT (formerly TensorFlow Lite) with Keras."""
    from ai_edge_litert.interpreter import Interpreter

    path = folder / "model.tflite"
    model.export(str(path), format="litert", verbose=False)
    interpreter = Interpreter(str(path))

    def run(inputs):
        given = by_name(interpreter.get_input_details(), inputs, lambda entry: entry["name"])
        for entry, array in given:
            interpreter.resize_tensor_input(entry["index"], array.shape)
        interpreter.allocate_tensors()
        for entry, array in given:
            interpreter.set_tensor(entry["index"], array.astype(entry["dtype"]))
        interpreter.invoke()
        return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])

    return run


def onnx(model, folder):
    """Export to ONNX with Keras; on PyTorch, with its current exporter."""
    path = str(folder / "model.onnx")
    model.export(path, format="onnx", verbose=False)
    return run_onnx(path)


def openvino(model, folder):
    """Export to OpenVINO with Keras."""
    path = folder / "model.xml"
    model.export(path, format="openvino", verbose=False)
    return run_openvino(path)


def torch_export(model, folder):
    """Export to a program of PyTorch ops with `torch.export`."""
    import torch

    from keras_permix.ops.backend.torch.exports import program, tensors

    torch.export.save(program(model, model._example(2)), folder / "model.pt2")
    run = torch.export.load(folder / "model.pt2").module()
    return lambda inputs: run(*tensors(model, inputs)).detach().numpy()


def onnx_script(model, folder):
    """Export to ONNX with PyTorch's older exporter."""
    path = str(folder / "model.onnx")
    model.export(path, format="onnx", verbose=False, dynamo=False)
    return run_onnx(path)


def openvino_onnx(model, folder):
    """Export to ONNX with PyTorch, and run the file with OpenVINO."""
    onnx_script(model, folder)
    return run_openvino(str(folder / "model.onnx"))


def signature(model):
    """Return input specs in which only the batch size is unknown."""
    example = model._example(1)

    def spec(tensor, array):
        return keras.InputSpec(tensor.dtype, (None, *array.shape[1:]), name=tensor.name)

    return [keras.tree.map_structure(spec, model.input, example)]


def by_name(entries, inputs, name_of):
    """Pair the inputs of an artifact with arrays. Names may have added prefixes and suffixes."""
    if not isinstance(inputs, dict):
        return [(entries[0], inputs)]
    longest = sorted(inputs, key=len, reverse=True)
    names = [next(name for name in longest if name in name_of(entry)) for entry in entries]
    return [(entry, inputs[name]) for entry, name in zip(entries, names, strict=True)]


def run_onnx(path):
    """Return a function that runs an ONNX file with ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    types = {"float": "float32"}

    def run(inputs):
        feed = {}
        for entry, array in by_name(session.get_inputs(), inputs, lambda entry: entry.name):
            kind = entry.type.removeprefix("tensor(").removesuffix(")")
            feed[entry.name] = np.asarray(array).astype(types.get(kind, kind))
        return session.run(None, feed)[0]

    return run


def run_openvino(path):
    """Return a function that runs an ONNX or OpenVINO file with OpenVINO, in float32."""
    import openvino

    model = openvino.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(inputs):
        pairs = by_name(model.inputs, inputs, lambda entry: " ".join(entry.get_names()))
        feed = {e.get_any_name(): a.astype(e.element_type.to_dtype()) for e, a in pairs}
        return model(feed)[0]

    return run


# Export functions of each backend, with the additional packages that they require.
ONNX = ("onnx", "onnxruntime")
WAYS = {
    "tensorflow": {
        "SavedModel": (saved_model, ()),
        "LiteRT": (litert, ("ai_edge_litert",)),
        "ONNX, Keras": (onnx, (*ONNX, "tf2onnx")),
        "OpenVINO, Keras": (openvino, ("openvino",)),
    },
    "jax": {
        "SavedModel": (saved_model, ("tensorflow",)),
        "ONNX, Keras": (onnx, (*ONNX, "jax2onnx", "flax")),
    },
    "torch": {
        "torch.export": (torch_export, ()),
        "ONNX, dynamo": (onnx, (*ONNX, "onnxscript")),
        "ONNX, TorchScript": (onnx_script, ONNX),
        "OpenVINO, from ONNX": (openvino_onnx, (*ONNX, "openvino")),
    },
}


def lacking(packages):
    """Return the packages that are not installed."""
    return [name for name in packages if find_spec(name) is None]


def skip_if_tensorflow_cannot_read_jax():
    """Skip tests with a dynamic batch: TensorFlow 2.21 cannot read SavedModels of JAX 0.11."""
    if keras.config.backend() == "jax":
        tensorflow, jax = (import_module(name).__version__ for name in ("tensorflow", "jax"))
        if Version(tensorflow) < Version("2.22") and Version(jax) >= Version("0.11"):
            pytest.skip("this TensorFlow cannot read programs of this JAX")
