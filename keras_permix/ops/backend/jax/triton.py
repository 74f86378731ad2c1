"""Permute tokens by Triton kernels in JAX on NVIDIA GPUs, called by `jax_triton`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap

from keras_permix.ops.backend.jax.permute import permute_on
from keras_permix.ops.backend.jax.runtime import divided, find_division
from keras_permix.ops.backend.jax.shift import pack, unpack
from keras_permix.ops.backend.triton.pairs import WORD, order_pairs, undo_pairs
from keras_permix.ops.backend.triton.shift import REGISTERS, shift
from keras_permix.ops.backend.triton.sort import put_back, sort_groups
from keras_permix.ops.backend.triton.windows import Reads, Real, Window, reads_of, window_for_any


def run(program, arrays, results):
    """Call a kernel on JAX arrays."""
    from jax_triton import triton_call

    arrays = {
        name: jnp.asarray(a) if isinstance(a, np.ndarray) else a for name, a in arrays.items()
    }
    return triton_call(
        **arrays,
        **program.arguments,
        kernel=program.kernel,
        out_type=tuple(jax.ShapeDtypeStruct(*result) for result in results.values()),
        grid=program.grid,
        num_warps=program.warps,
        backend_options={"maxnreg": REGISTERS},
        name=f"permix_{program.kernel.fn.__name__}",
    )


def permute(x, mask, plan, run=run, platform="cuda"):
    """Permute the tokens of `x`, (batch, tokens, channels), by `plan`."""
    if mask is None and plan.group_size and x.shape[1] % plan.group_size:
        mask = jnp.ones(x.shape[:2], bool)  # the last group is shorter
    return permute_on(platform, Kernels(run, find_division(x)), x, mask, plan)


@dataclass(frozen=True)
class Kernels:
    """Implement a kind of permutation, see `permute.py`, by kernels that every device calls."""

    run: Callable
    division: tuple | None

    def values(self, x, real, plan):
        return self._order(x, real, plan, with_residuals=False)[0]

    def values_and_residuals(self, x, real, plan):
        return self._order(x, real, plan, with_residuals=True)

    def take(self, x, real, residuals, plan):
        x = self._shift(x, real, plan)
        if plan.group_size == 1:
            return x
        token = jnp.arange(x.shape[1], dtype="int32")[None, :, None]
        if plan.orders_pairs():
            words = jnp.take(residuals, token[0, :, 0] // WORD.value, axis=1)
            source = token ^ (words >> (token % WORD.value // 2)) & 1
        else:
            source = token // plan.group_size * plan.group_size + residuals
        return unpack(jnp.take_along_axis(pack(x, real), source, axis=1), real)

    def undo(self, grad, real, residuals, plan):
        if plan.group_size == 1:
            return self._shift(grad, real, plan, back=True)
        if plan.orders_pairs():
            return self._call(undo_pairs, grad, real, plan, residuals, back=True)

        def undo(run, grad, reads, positions):
            return put_back(run, grad, positions, plan.group_size, reads.real)

        return self._shift(self._call(undo, grad, real, plan, residuals), real, plan, back=True)

    def _order(self, x, real, plan, with_residuals):
        if plan.group_size == 1:
            return self._shift(x, real, plan), None
        options = dict(aligned=plan.aligned, with_residuals=with_residuals)
        if plan.orders_pairs():
            return self._call(partial(order_pairs, **options), x, real, plan)
        if plan.descending is not None:
            options["descending"] = np.array(plan.descending, "int8")

        def sort(run, x, reads):
            return sort_groups(run, x, plan.group_size, reads.real, **options)

        # Two kernels, because one would read slowly.
        return self._call(sort, self._shift(x, real, plan), real, plan)

    def _shift(self, x, real, plan, back=False):
        steps = plan.steps if real is None else real.steps
        if steps is None and (real is None or plan.group_size > 1):
            return x
        return self._call(shift, x, real, plan, back=back)

    def _call(self, function, x, real, plan, *residuals, back=False):
        """Call `function(run, x, reads, *residuals)` for the part of the batch on every device."""
        masked = None
        if real is not None:
            moves = real.steps if back else real.back
            moves = jnp.zeros((x.shape[0], x.shape[2]), "int32") if moves is None else moves
            masked = real.order, real.lengths, moves

        @custom_vmap
        def call(x, masked, *residuals):
            return function(self.run, x, _reads(x, masked, plan.steps, back), *residuals)

        @call.def_vmap
        def map_call(size, batched, *arrays):
            def fold(array, batched):
                array = array if batched else jnp.broadcast_to(array, (size, *array.shape))
                return array.reshape(-1, *array.shape[2:])

            out = call(*jax.tree.map(fold, arrays, tuple(batched)))
            out = jax.tree.map(lambda array: array.reshape(size, -1, *array.shape[1:]), out)
            return out, jax.tree.map(lambda _: True, out)

        return divided(call, self.division)(x, masked, *residuals)


def _reads(x, masked, steps, back):
    """Return the `Reads` of a shift of `x`, or of its inverse; shared tables are constants."""
    _, tokens, channels = x.shape
    if masked is not None:
        order, lengths, moves = masked
        window = window_for_any(tokens, x.dtype.itemsize)
        real = Real(order, lengths)
        return Reads(window, moves, real=real, order=window.order(real, tokens, jnp.arange))
    if not steps and not back:
        return Reads(Window())
    reads, window = reads_of(steps or (0,) * channels, tokens, x.dtype.itemsize, back)
    starts = np.array(window.starts, "int32") if window.starts else None
    return Reads(window, np.array(reads, "int32"), starts)
