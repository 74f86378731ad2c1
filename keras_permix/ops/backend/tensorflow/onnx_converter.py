"""Add conversions from TensorFlow to ONNX that our models need."""

from importlib.util import find_spec

import numpy as np


def complete_onnx():
    """Teach `tf2onnx` what it lacks or has wrong. Without it, nothing is done.

    Keras' GELU is made of `Erfc`, which it does not know. Its remainder of negative integers is
    that of C, while TensorFlow's has the sign of the divisor. Twice does what once does.
    """
    if not find_spec("tf2onnx"):
        return  # Keras says that it is missing.
    from tf2onnx.handler import tf_op
    from tf2onnx.onnx_opset.math import FloorMod
    from tf2onnx.utils import map_onnx_to_numpy_type

    @tf_op("Erfc")
    class Erfc:
        """1 - erf(x)."""

        @classmethod
        def version_9(cls, graph, node, **kwargs):
            """In the operators of ONNX from version 9 on."""
            erf = graph.make_node("Erf", node.input).output[0]
            dtype = map_onnx_to_numpy_type(graph.get_dtype(node.output[0]))
            one = graph.make_const(f"{node.name}/one", np.ones((), dtype)).output[0]
            _put(graph, node, "Sub", [one, erf])

    @tf_op("FloorMod")
    class Remainder:
        """x - floor(x / y) * y, of integers without a division that rounds."""

        @classmethod
        def version_10(cls, graph, node, **kwargs):
            """In the operators of ONNX from version 10 on."""
            if np.issubdtype(map_onnx_to_numpy_type(graph.get_dtype(node.input[0])), np.integer):
                _put(graph, node, "Mod", node.input)
            else:
                FloorMod.version_7(graph, node, **kwargs)


def _put(graph, node, name, inputs):
    """Put an operator of ONNX where an operation of TensorFlow stood."""
    shapes, dtypes = node.output_shapes, node.output_dtypes
    graph.remove_node(node.name)
    graph.make_node(name, inputs, outputs=node.output, shapes=shapes, dtypes=dtypes)
