"""Permute tokens by a plan in TensorFlow.

Tokens are packed and shifted, arranged in pairs or groups, and unpacked. Arranging also returns
residuals, which hold the order. The order depends on the data; the gradient is its inverse.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.eager.record import could_possibly_record

from keras_permix.ops.backend.tensorflow import groups, pairs
from keras_permix.ops.backend.tensorflow.linear import linear
from keras_permix.ops.backend.tensorflow.packing import (
    find_packing,
    find_steps,
    pack,
    shift,
    unpack,
)
from keras_permix.ops.backend.tensorflow.runtime import at_home, compiled, platform


class Arrangement(NamedTuple):
    """Arrange packed tokens in pairs or groups; the first `length` tokens are real."""

    values: Callable  # (x, length) -> arranged values
    order: Callable  # (x, length) -> arranged values, and residuals
    take: Callable  # (x, residuals) -> values arranged by the residuals
    put: Callable  # (x, residuals) -> the inverse of `take`


def permute(x, mask, plan):
    """Permute the tokens of `x`, (batch, tokens, channels), by `plan`."""
    with at_home(x):
        mask = None if mask is None else tf.cast(mask, "bool")
        plan = _reduced(plan, x.shape[1], mask)
        steps = find_steps(x, mask, plan)
        if steps is not None:
            # Layers that differ only in their steps share their compiled functions.
            plan = plan._replace(steps=None)
        return _permutation(plan, platform(x) == "cpu")(x, mask, steps)


def _reduced(plan, tokens, mask):
    """Return the plan for `tokens` tokens, as far as the numbers of tokens are known."""
    if mask is None and tokens is not None:
        return plan.at(tokens)
    if tokens is None or plan.group_size is None:
        return plan._replace(group_size=plan.group_size or tokens)
    return plan._replace(group_size=min(plan.group_size, tokens))


@lru_cache(maxsize=256)
def _permutation(plan, on_cpu):
    """Return the differentiable function of a batch, a mask and steps that `plan` describes.

    The steps are a tensor, or None if those of the plan are used.
    """
    if plan.group_size == 1:
        return _shift(plan)
    if plan.orders_pairs():
        order = partial(pairs.order, plan=plan)
        pairing = Arrangement(lambda *args: order(*args)[0], order, pairs.swap, pairs.swap)
        return _arranged(pairing, plan)
    return _arranged(Arrangement(*groups.arrangement(plan, on_cpu)), plan)


def _packing(x, mask, steps, plan):
    return find_packing(x, mask, plan.steps if steps is None else steps)


def _shift(plan):
    @compiled
    def move(x, mask, steps, back):
        packing = _packing(x, mask, steps, plan)
        out = shift(x, packing, packing.steps, back)
        return tf.ensure_shape(out, x.shape)

    def permute(x, mask, steps):
        by_steps = partial(move, mask=mask, steps=steps)
        return linear(partial(by_steps, back=False), partial(by_steps, back=True))(x)

    return permute


def _arranged(arrange, plan):
    @compiled
    def values(x, mask, steps):
        packing = _packing(x, mask, steps, plan)
        out = arrange.values(pack(x, packing, packing.steps), packing.length)
        return tf.ensure_shape(unpack(out, packing), x.shape)

    @compiled
    def values_and_residuals(x, mask, steps):
        packing = _packing(x, mask, steps, plan)
        out, residuals = arrange.order(pack(x, packing, packing.steps), packing.length)
        return tf.ensure_shape(unpack(out, packing), x.shape), residuals

    @compiled
    def take(x, mask, steps, residuals):
        packing = _packing(x, mask, steps, plan)
        out = arrange.take(pack(x, packing, packing.steps), residuals)
        return tf.ensure_shape(unpack(out, packing), x.shape)

    @compiled
    def put(grad, mask, steps, residuals):
        packing = _packing(grad, mask, steps, plan)
        out = tf.ensure_shape(arrange.put(pack(grad, packing), residuals), grad.shape)
        return tf.ensure_shape(unpack(out, packing, packing.steps), grad.shape)

    def permute(x, mask, steps):
        def inverse(grad, residuals):
            known = dict(mask=mask, steps=steps, residuals=residuals)
            return linear(partial(put, **known), partial(take, **known))(grad)

        @tf.custom_gradient
        def differentiable(x):
            x = tf.stop_gradient(x)  # keeps the loops inside off the tape
            if could_possibly_record():
                out, residuals = values_and_residuals(x, mask, steps)
                return out, lambda grad: inverse(tf.ensure_shape(grad, x.shape), residuals)
            # A function that was traced without a tape may still be differentiated.
            return values(x, mask, steps), lambda grad: inverse(
                tf.ensure_shape(grad, x.shape), values_and_residuals(x, mask, steps)[1]
            )

        return differentiable(x)

    return permute
