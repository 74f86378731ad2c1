"""Permute tokens by a plan in JAX: shifts, swapped pairs, sorted groups.

A kind of permutation is a module or an object with four functions. `real` marks the real tokens,
and is None if all tokens are real. `residuals` holds the order, which depends on the data:

* `values(x, real, plan)`: the result,
* `values_and_residuals(x, real, plan)`: the result, and the residuals,
* `take(x, real, residuals, plan)`: the same permutation of another tensor,
* `undo(x, real, residuals, plan)`: the transpose of `take`, its inverse.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from keras_permix.ops.backend.jax import groups, pairs, shift
from keras_permix.ops.backend.jax.keys import is_floating
from keras_permix.ops.backend.jax.linear import linear
from keras_permix.ops.backend.jax.shift import find_real


@partial(jax.jit, static_argnames="plan")
def permute(x, mask, plan):
    """Permute the tokens of `x`, (batch, tokens, channels), by `plan`.

    If `jax.export` leaves the number of tokens open, it is computed at run time, as with a mask.
    """
    tokens, in_pairs = x.shape[1], False
    if isinstance(tokens, int):
        real, plan = mask if mask is None else find_real(mask, plan), plan.at(tokens)
        in_pairs = plan.in_pairs(tokens)
    else:
        real = find_real(jnp.ones(x.shape[:2], bool) if mask is None else mask, plan)
        if not isinstance(plan.group_size, int):
            plan = plan._replace(group_size=None)  # all tokens
    kind = shift if plan.group_size == 1 else pairs if in_pairs else groups
    return permute_as(kind, x, real, plan)


@partial(jax.jit, static_argnames=("kind", "plan", "platform"))
def permute_on(platform, kind, x, mask, plan):
    """Permute by a kind on `platform`, or on all if it is None, and natively on others.

    The platform is only known when the program is lowered: it may differ from that of tracing and
    from the default devices.
    """

    def by_kind(x, mask):
        real = None if mask is None else find_real(mask, plan)
        return permute_as(kind, x, real, plan.at(x.shape[1]))

    if platform is None:
        return by_kind(x, mask)
    native = partial(permute, plan=plan)
    return lax.platform_dependent(x, mask, default=native, **{platform: by_kind})


def permute_as(kind, x, real, plan):
    """Permute by a kind, differentiably if `x` is floating."""
    if not is_floating(x.dtype):
        return kind.values(x, real, plan)
    return _differentiable(x, real, kind, plan)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _differentiable(x, real, kind, plan):
    return kind.values(x, real, plan)


@_differentiable.defjvp
def _derivative(kind, plan, primals, tangents):
    x, real = primals
    out, residuals = kind.values_and_residuals(lax.stop_gradient(x), real, plan)
    known = (real, residuals)
    return _found(x, out, known, kind, plan), _take(tangents[0], known, kind, plan)


@partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def _found(x, out, known, kind, plan):
    """Return `out`, computed from `x`, with the derivative of the permutation of `x`."""
    return out


@_found.defjvp
def _derivative_of_found(kind, plan, primals, tangents):
    x, out, known = primals
    return _found(x, out, known, kind, plan), _take(tangents[0], known, kind, plan)


def _take(tangent, known, kind, plan):
    def take(x, known):
        return kind.take(x, *known, plan)

    def undo(grad, known):
        return kind.undo(grad, *known, plan)

    return linear(take, undo, tangent, known)
