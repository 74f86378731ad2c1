"""Export models as programs of PyTorch operations, and write them to files."""

import keras
import torch

from keras_permix.utils.checks import import_extra


def write_onnx(model, inputs, path, dynamo=True, **options):
    """Write a functional model as ONNX, for a batch of any size.

    `inputs` are arrays or tensors of at least two samples, whose other sizes are fixed. Without
    `dynamo`, PyTorch's older exporter traces sizes as tensors, which Keras' normalizations do not
    support. Therefore it traces the program of `torch.export`.
    """
    for package in ("onnx", "onnxscript") if dynamo else ("onnx",):
        import_extra(package, "export", "Writing ONNX")
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
    """Return a program of `torch.export` for a functional model and a batch of any size.

    It takes each input of the model as a tensor with the dtype in `model.inputs`, such as float32
    for images. `inputs` are as in `write_onnx`.
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
    """Convert arrays to the tensors that a model takes, in the order of its inputs."""
    pairs = zip(model.inputs, keras.tree.flatten(inputs), strict=True)
    arrays = [(keras.ops.convert_to_numpy(array), tensor.dtype) for tensor, array in pairs]
    return tuple(torch.from_numpy(array.astype(dtype)) for array, dtype in arrays)


class _Flat(torch.nn.Module):
    """Wrap a model as a module that takes each input as an argument."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        packed = keras.tree.pack_sequence_as(self.model.input, list(inputs))
        return self.model(packed, training=False)


class _Traced(torch.nn.Module):
    """Wrap a program of `torch.export` as a module that can be traced for any batch."""

    def __init__(self, made):
        super().__init__()
        module = made.module(check_guards=False)
        module._forward_pre_hooks.clear()  # They compare sizes that are symbols in the tracer.
        for node in module.graph.nodes:
            given = [part.meta.get("val") for part in node.all_input_nodes]
            if node.target is torch.ops.aten.sym_size.int:
                node.target = torch.Tensor.size
            elif any(isinstance(value, torch.SymInt) for value in given):
                # Methods of tensors support traced sizes; operators do not.
                _, _, operator = str(node.target).partition("aten.")
                node.target = getattr(torch.Tensor, operator.partition(".")[0], node.target)
        module.recompile()
        self.held = [module]  # in a list, because as a submodule it would not support `eval`
        self.eval()

    def forward(self, *inputs):
        return self.held[0](*inputs)
