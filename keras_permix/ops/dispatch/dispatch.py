"""Select the implementation of an op.

Every op has a reference implementation in `keras.ops` that works on all backends. Faster ones are
listed in `ops/backend/{jax,tensorflow,torch}/rows.py`, of which one is imported. The first that
accepts the static facts of a call is used. The choice is made while tracing, so that it costs
nothing in a compiled function.
"""

import contextlib
import os
import threading
from collections.abc import Iterator

import keras

from keras_permix.ops.backend import running
from keras_permix.ops.dispatch.checks import is_empty
from keras_permix.ops.dispatch.explain import EXPLAIN, Explanation
from keras_permix.ops.dispatch.node import TokenOperation, is_symbolic
from keras_permix.ops.dispatch.rows import Call, Hardware
from keras_permix.utils.checks import check_choice

VARIABLE = "KERAS_PERMIX_IMPLEMENTATION"
FORCED = os.environ.get(VARIABLE) or None
NATIVE = running.module("rows")
REFERENCE = "reference"
EXPORTING = 0  # number of exports in progress, in all threads
LOCK = threading.Lock()


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Use only operations that LiteRT, ONNX and OpenVINO support, in all threads.

    Zoo models do this themselves when they export. Use it to export custom models with these
    layers on JAX and TensorFlow; PyTorch reports its exports. Inside the context,
    `KERAS_PERMIX_IMPLEMENTATION` is ignored. Missing conversions are added to `tf2onnx` if it is
    installed.

    Example:

    >>> import keras
    >>> from keras_permix.layers import CSP
    >>> from keras_permix.ops import exporting
    >>> model = keras.Sequential([keras.Input((8, 4)), CSP()])
    >>> with exporting():
    ...     model.export("model.tflite", format="litert")  # doctest: +SKIP
    """
    global EXPORTING
    running.complete_onnx()
    with LOCK:
        EXPORTING += 1
    try:
        yield
    finally:
        with LOCK:
            EXPORTING -= 1


def dispatch(
    op,
    reference,
    *arrays,
    mask=None,
    plan=None,
    like=0,
    shape=None,
    implementation=None,
    **options,
):
    """Run an op whose arguments have been checked.

    Implementations are called as `function(*arrays, mask, plan)` if there is a `plan`, otherwise as
    `function(*arrays, mask, **options)`. They return a tensor of the dtype of `arrays[like]` and of
    its shape, unless `shape` is given. They receive no tensor that is known to be empty.
    """
    explaining = implementation is EXPLAIN
    if not explaining and any(map(is_symbolic, (*arrays, mask))):
        return TokenOperation(op, implementation, options, like, shape)(*arrays, mask=mask)
    call = _describe(op, arrays, mask, plan, options)
    rows = {row.name: row for row in NATIVE.ROWS if row.op == op}
    if shape is None and is_empty(arrays[like]):  # which has no values
        return _explain_copy(call, rows) if explaining else keras.ops.copy(arrays[like])
    chosen = _choose(call, rows, None if explaining else implementation)
    if explaining:
        objections = {name: row.objection(call) or row.doubt(call) for name, row in rows.items()}
        row = rows.get(chosen)
        elsewhere = row.elsewhere if row and not call.hardware.sure else None
        return Explanation(f"{op}({call})", chosen, {**objections, REFERENCE: None}, elsewhere)
    function = reference if chosen == REFERENCE else rows[chosen].function
    return function(*arrays, mask, **options) if plan is None else function(*arrays, mask, plan)


def _explain_copy(call, rows):
    """Return the explanation of a call without values."""
    others = dict.fromkeys((*rows, REFERENCE), "it is not asked for what has no values")
    return Explanation(f"{call.op}({call})", "copy", {**others, "copy": None})


def _describe(op, arrays, mask, plan, options):
    x, symbolic = arrays[0], any(map(is_symbolic, (*arrays, mask)))
    return Call(
        op=op,
        hardware=Hardware() if symbolic else NATIVE.hardware(x),
        dtype=keras.backend.standardize_dtype(x.dtype),
        shape=NATIVE.shape(x),
        masked=mask is not None,
        exporting=bool(EXPORTING) or NATIVE.exporting(),
        plan=plan,
        options=options,
        symbolic=symbolic,
    )


def _choose(call, rows, implementation):
    """Return the name of the implementation, or None if a symbolic call leaves it open."""
    wanted = implementation or _forced(rows)
    if wanted is not None:
        return _check_wanted(wanted, rows, call)
    for name, row in rows.items():
        if not row.objection(call):
            return None if row.doubt(call) else name
    return REFERENCE


def _forced(rows):
    """Return the implementation named by the environment, if this op has it."""
    if FORCED is None or EXPORTING:
        return None
    check_choice(VARIABLE, FORCED, sorted({REFERENCE, *(row.name for row in NATIVE.ROWS)}))
    return FORCED if FORCED in (*rows, REFERENCE) else None


def _check_wanted(wanted, rows, call):
    check_choice("implementation", wanted, (*rows, REFERENCE))
    row = rows.get(wanted)
    if row is None:
        return wanted
    objection = row.objection(call)
    if objection:
        raise ValueError(
            f"{wanted!r} cannot serve this call of `{call.op}`: {objection}. "
            f"Leave `implementation=None` (and {VARIABLE} unset) to have one chosen. "
            f"Received: {call}"
        )
    return None if row.doubt(call) else wanted
