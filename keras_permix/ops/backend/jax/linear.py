"""Define linear maps with a given transpose in JAX.

A permutation is constant for the gradient, so it is linear and its transpose is its inverse. JAX
would transpose a gather to a scatter-add. (`jax.custom_vjp` does not support forward mode, and
`jax.custom_derivatives.linear_call` does not support `vmap`.)
"""

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

_linear = Primitive("linear")


def linear(function, transpose, x, known):
    """Call `function(x, known)`, which is linear in the floats `x` and keeps their shape.

    The gradient is `transpose(cotangent, known)`. `known` is a tree of constant tensors.
    """
    leaves, tree = jax.tree.flatten(known)

    def unflattened(function):
        return lambda x, *leaves: function(x, tree.unflatten(leaves))

    return _bind(unflattened(function), unflattened(transpose), x, *leaves)


def _bind(function, transpose, x, *leaves):
    return _linear.bind(x, *leaves, function=function, transpose=transpose)


@_linear.def_impl
def _call(x, *leaves, function, transpose):
    return function(x, *leaves)


@_linear.def_abstract_eval
def _shape(x, *leaves, function, transpose):
    return x


def _differentiate(primals, tangents, *, function, transpose):
    (x, *leaves), (tangent, *_) = primals, tangents
    if type(tangent) is not ad.Zero:
        tangent = _bind(function, transpose, tangent, *leaves)
    return _bind(function, transpose, x, *leaves), tangent


def _transpose(cotangent, x, *leaves, function, transpose):
    if type(cotangent) is not ad.Zero:
        cotangent = _bind(transpose, function, cotangent, *leaves)
    return cotangent, *(None for _ in leaves)


def _vectorize(args, axes, *, function, transpose):
    size = next(a.shape[axis] for a, axis in zip(args, axes, strict=True) if axis is not None)
    x, *leaves = (
        array if axis is None else jnp.moveaxis(array, axis, 0)
        for array, axis in zip(args, axes, strict=True)
    )
    x = jnp.broadcast_to(x, (size, *x.shape)) if axes[0] is None else x
    axes = (0, *(None if axis is None else 0 for axis in axes[1:]))
    return _bind(jax.vmap(function, axes), jax.vmap(transpose, axes), x, *leaves), 0


ad.primitive_jvps[_linear] = _differentiate
ad.primitive_transposes[_linear] = _transpose
batching.primitive_batchers[_linear] = _vectorize
mlir.register_lowering(_linear, mlir.lower_fun(_call, multiple_results=False))
