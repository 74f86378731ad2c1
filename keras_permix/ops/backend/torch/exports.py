"""Models as programs of PyTorch's own operations, and as files made of them."""

from importlib.util import find_spec

import keras
import torch


def write_onnx(model, inputs, path, dynamo=True, **options):
    """Write a functional model as ONNX, for a batch of any size.

    PyTorch's older exporter traces sizes as tensors, which Keras' normalizations do not take. It is
    given the program of `torch.export` as well, and traces that.

    Args:
        model: The model, of the zoo or your own.
        inputs: Arrays or tensors that it takes, of two samples or more; their other sizes stay.
        path: The file to write.
        dynamo: Whether by PyTorch's exporter of today, or by the older one.
        **options: Others of `torch.onnx.export`.
    """
    needed = ("onnx", "onnxscript") if dynamo else ("onnx",)
    if missing := [name for name in needed if not find_spec(name)]:
        raise ImportError(
            'To write ONNX, `pip install "keras_permix[export]"`, or what is missing of it. '
            f"Received: no {', no '.join(missing)}"
        )
    names = [tensor.name for tensor in model.inputs]
    given, made = tensors(model, inputs), program(model, inputs)
    options = {"input_names": names, "verbose": False, "dynamo": dynamo, **options}
    if dynamo:
        torch.onnx.export(made, f=str(path), **{"external_data": False, **options})
    else:
        axes = {name: {0: "batch"} for name in names}
        options = {"dynamic_axes": axes, "output_names": ["output"], **options}
        torch.onnx.export(_Traced(made), given, str(path), **options)


def program(model, inputs):
    """A program of `torch.export` for a functional model, and for a batch of any size.

    It takes the model's inputs one by one, as tensors of the dtypes that `model.inputs` name:
    float32 of images.

    Args:
        model: The model, of the zoo or your own.
        inputs: As for `write_onnx`.
    """
    given = tensors(model, inputs)
    free = tuple({0: torch.export.Dim.DYNAMIC} for _ in given)
    training = [part for part in model.modules() if part.training]
    try:
        with torch.no_grad():
            flat = _Flat(model).eval()
            return torch.export.export(flat, given, dynamic_shapes=(free,), strict=False)
    finally:
        for part in training:
            part.training = True


def tensors(model, inputs):
    """Arrays as the tensors that a model takes, in the order of its inputs."""
    pairs = zip(model.inputs, keras.tree.flatten(inputs), strict=True)
    arrays = [(keras.ops.convert_to_numpy(array), tensor.dtype) for tensor, array in pairs]
    return tuple(torch.from_numpy(array.astype(dtype)) for array, dtype in arrays)


class _Flat(torch.nn.Module):
    """A model as a module that takes its inputs one by one."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        packed = keras.tree.pack_sequence_as(self.model.input, list(inputs))
        return self.model(packed, training=False)


class _Traced(torch.nn.Module):
    """A program of `torch.export` as a module that can be traced, whatever the batch."""

    def __init__(self, made):
        super().__init__()
        module = made.module(check_guards=False)
        module._forward_pre_hooks.clear()  # which compare sizes that the tracer has no numbers of
        for node in module.graph.nodes:
            given = [part.meta.get("val") for part in node.all_input_nodes]
            if node.target is torch.ops.aten.sym_size.int:
                node.target = torch.Tensor.size
            elif any(isinstance(value, torch.SymInt) for value in given):
                # Operators take no sizes that are traced, the methods of tensors do.
                _, _, operator = str(node.target).partition("aten.")
                node.target = getattr(torch.Tensor, operator.partition(".")[0], node.target)
        module.recompile()
        self.held = [module]  # not as a part, which could not be set to `eval`
        self.eval()

    def forward(self, *inputs):
        return self.held[0](*inputs)
