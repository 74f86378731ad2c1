"""What the converter from TensorFlow to ONNX lacks for our models."""

from importlib.util import find_spec

import numpy as np


def complete_onnx():
    """Teach `tf2onnx` TensorFlow's `Erfc`, which its GELU is made of. Without it, nothing is done.

    Twice does what once does.
    """
    if not find_spec("tf2onnx"):
        return  # Keras says that it is missing.
    from tf2onnx.handler import tf_op
    from tf2onnx.utils import map_onnx_to_numpy_type

    @tf_op("Erfc")
    class Erfc:
        """1 - erf(x)."""

        @classmethod
        def version_9(cls, graph, node, **kwargs):
            """In the operators of ONNX from version 9 on."""
            dtype, shape = graph.get_dtype(node.output[0]), graph.get_shape(node.output[0])
            graph.remove_node(node.name)
            erf = graph.make_node("Erf", node.input).output[0]
            one = graph.make_const(f"{node.name}/one", np.ones((), map_onnx_to_numpy_type(dtype)))
            graph.make_node(
                "Sub", [one.name, erf], outputs=node.output, shapes=[shape], dtypes=[dtype]
            )
