"""Models as programs of PyTorch's own operations, and as files made of them."""

from importlib.util import find_spec

import keras
import torch


def write_onnx(model, inputs, path):
    """Write a functional model as ONNX, for a batch of any size.

    Args:
        model: The model.
        inputs: NumPy arrays that it takes, of two samples or more; their other sizes stay.
        path: The file to write.
    """
    if missing := [name for name in ("onnx", "onnxscript") if not find_spec(name)]:
        raise ImportError(
            f"`export` to ONNX needs {' and '.join(missing)}: pip install {' '.join(missing)}"
        )
    names = [tensor.name for tensor in model.inputs]
    torch.onnx.export(
        program(model, inputs),
        f=str(path),
        input_names=names,
        dynamo=True,
        verbose=False,
        external_data=False,
    )


def program(model, inputs):
    """A program of `torch.export` that takes the inputs of a model one by one; see `write_onnx`."""
    given, trains = tensors(model, inputs), model.training
    free = tuple({0: torch.export.Dim.DYNAMIC} for _ in given)
    try:
        with torch.no_grad():
            flat = _Flat(model).eval()
            return torch.export.export(flat, given, dynamic_shapes=(free,), strict=False)
    finally:
        model.train(trains)


def tensors(model, inputs):
    """NumPy arrays as the tensors that a model takes, in the order of its inputs."""
    pairs = zip(model.inputs, keras.tree.flatten(inputs), strict=True)
    return tuple(torch.from_numpy(array.astype(tensor.dtype)) for tensor, array in pairs)


class _Flat(torch.nn.Module):
    """A model as a module that takes its inputs one by one."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        packed = keras.tree.pack_sequence_as(self.model.input, list(inputs))
        return self.model(packed, training=False)
