"""Which implementation serves a call.

Every op has a reference written in `keras.ops`, which serves any call on any backend. Faster
implementations are rows of the table in `ops/backend/{jax,tensorflow,torch}/rows.py`; exactly one
of these is imported. The first row that accepts the static facts of a call serves it, so the
choice is made while tracing and costs nothing in a compiled function.
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
EXPORTING = 0  # how many exports there are, in all threads
LOCK = threading.Lock()


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Meanwhile ops are served, in all threads, by what LiteRT, ONNX and OpenVINO have, too.

    Models of the zoo export so by themselves. It is for models of your own around these layers, on
    JAX and TensorFlow, whose formats of their own take everything. PyTorch says when it exports.
    `KERAS_PERMIX_IMPLEMENTATION` has no say meanwhile. `tf2onnx`, if it is installed, learns what
    it lacks for ours.

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
    """Serve a call whose arguments have been checked.

    Implementations are called as `function(*arrays, mask, **options)`, or, where the options amount
    to a `plan`, as `function(*arrays, mask, plan)`. They return a tensor of the dtype of
    `arrays[like]` and, unless there is a `shape` of its own, of the same shape. Rows get no
    tensor that is known to be empty.
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
    """What serves a call without values."""
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
    """The name of what serves a call, or None where a symbolic one does not tell."""
    wanted = implementation or _forced(rows)
    if wanted is not None:
        return _check_wanted(wanted, rows, call)
    for name, row in rows.items():
        if not row.objection(call):
            return None if row.doubt(call) else name
    return REFERENCE


def _forced(rows):
    """What the environment asks for, if this op has it."""
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
