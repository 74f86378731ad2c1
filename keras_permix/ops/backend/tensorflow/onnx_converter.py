"""Add conversions from TensorFlow to ONNX that the models need."""

from importlib.util import find_spec

import numpy as np


def complete_onnx():
    """Register conversions in `tf2onnx`, if it is installed; may be called repeatedly.

    `tf2onnx` lacks `Erfc`, which Keras' GELU uses. Its remainder of negative integers is that of C,
    while TensorFlow's has the sign of the divisor.
    """
    if not find_spec("tf2onnx"):
        return  # Keras reports that it is missing.
    from tf2onnx.handler import tf_op
    from tf2onnx.onnx_opset.math import FloorMod
    from tf2onnx.utils import map_onnx_to_numpy_type

    @tf_op("Erfc")
    class Erfc:
        """Convert 1 - erf(x)."""

        @classmethod
        def version_9(cls, graph, node, **kwargs):
            """Convert to operators of ONNX from version 9 on."""
            erf = graph.make_node("Erf", node.input).output[0]
            dtype = map_onnx_to_numpy_type(graph.get_dtype(node.output[0]))
            one = graph.make_const(f"{node.name}/one", np.ones((), dtype)).output[0]
            _put(graph, node, "Sub", [one, erf])

    @tf_op("FloorMod")
    class Remainder:
        """Convert x - floor(x / y) * y, for integers without rounding."""

        @classmethod
        def version_10(cls, graph, node, **kwargs):
            """Convert to operators of ONNX from version 10 on."""
            if np.issubdtype(map_onnx_to_numpy_type(graph.get_dtype(node.input[0])), np.integer):
                _put(graph, node, "Mod", node.input)
            else:
                FloorMod.version_7(graph, node, **kwargs)


def _put(graph, node, name, inputs):
    """Replace an operation of TensorFlow by an operator of ONNX."""
    shapes, dtypes = node.output_shapes, node.output_dtypes
    graph.remove_node(node.name)
    graph.make_node(name, inputs, outputs=node.output, shapes=shapes, dtypes=dtypes)
