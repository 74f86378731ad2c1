"""Which implementation serves a call.

Every op has a reference written in `keras.ops`, which serves any call on any backend. Faster
implementations are rows of the table in `ops/backend/{jax,tensorflow,torch}/rows.py`; exactly one
of these is imported. The first row that accepts the static facts of a call serves it, so the
choice is made while tracing and costs nothing in a compiled function.
"""

import os
from dataclasses import dataclass
from inspect import signature

import keras

from keras_permix.ops.backend import running
from keras_permix.ops.dispatch.rows import Call

FORCED = os.environ.get("KERAS_PERMIX_IMPLEMENTATION") or None
NATIVE = running.module("rows")
SERVED = {}  # name -> public op

_EXPLAIN = object()


@dataclass(frozen=True)
class Explanation:
    """Which implementation serves a call, and why the others do not; printed as a table."""

    call: str
    chosen: str
    objections: dict

    def __str__(self):
        lines = [f"{self.call}"]
        for name, objection in self.objections.items():
            verdict = "serves this call" if name == self.chosen else objection or "comes later"
            lines.append(f"  {name}: {verdict}")
        return "\n".join(lines)


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
    `arrays[like]` and, unless there is a `shape` of its own, of the same shape.
    """
    explaining = implementation is _EXPLAIN
    if not explaining and any(map(is_symbolic, (*arrays, mask))):
        return TokenOperation(op, implementation, options, like, shape)(*arrays, mask=mask)
    call = _describe(op, arrays[0], mask, plan, options)
    rows = {row.name: row for row in NATIVE.ROWS if row.op == op}
    wanted = FORCED if implementation is None or explaining else implementation
    chosen = wanted or next((name for name in rows if not rows[name].objection(call)), "reference")
    if explaining:
        return _explanation(call, rows, chosen)
    if wanted and wanted != "reference":
        _check_wanted(wanted, rows, call)
    function = reference if chosen == "reference" else rows[chosen].function
    return function(*arrays, mask, **options) if plan is None else function(*arrays, mask, plan)


def explain(op, *args, **kwargs):
    """Say which implementation serves a call, and why the others do not.

    Args:
        op: a function of this module that takes `implementation`, or its name.
        *args: the arguments of the call.
        **kwargs: the named arguments of the call, without `implementation`.

    Returns:
        An `Explanation` with `chosen` (a name), `objections` (a reason or None for every
        implementation, best first) and a readable `str`. Nothing is computed.

    Raises:
        ValueError: for a name that is no op, or arguments that the op rejects.

    Example:

    >>> explain("group_sort", keras.ops.ones((1, 4, 2)), 2).chosen
    'native'
    """
    name = op if isinstance(op, str) else op.__name__
    if name not in SERVED:
        raise ValueError(f"`op` must be one of {list(SERVED)}. Received: op={name!r}")
    return SERVED[name](*args, **kwargs, implementation=_EXPLAIN)


def serve(functions):
    """Have `explain` and functional models find those of the functions that are dispatched."""
    ops = (f for f in functions if "implementation" in signature(f).parameters)
    SERVED.update({op.__name__: op for op in ops})


def is_symbolic(x):
    return isinstance(x, keras.KerasTensor)


@keras.saving.register_keras_serializable("keras_permix")
class TokenOperation(keras.Operation):
    """An op as one node of a functional model: dispatched when it runs, not when it is drawn."""

    def __init__(self, op, implementation, options, like=0, shape=None, name=None):
        super().__init__(name=name)
        self.op = op
        self.implementation = implementation
        self.options = options
        self.like = like
        self.shape = shape

    def call(self, *arrays, mask=None):
        given = {} if mask is None else {"mask": mask}
        return SERVED[self.op](*arrays, **given, implementation=self.implementation, **self.options)

    def compute_output_spec(self, *arrays, mask=None):
        like = arrays[self.like]
        return keras.KerasTensor(self.shape or like.shape, like.dtype)

    def get_config(self):
        return {
            "op": self.op,
            "implementation": self.implementation,
            "options": self.options,
            "like": self.like,
            "shape": self.shape,
            "name": self.name,
        }


def _describe(op, x, mask, plan, options):
    device, devices = ("unknown", 1) if is_symbolic(x) else NATIVE.device(x)
    return Call(
        op=op,
        device=device,
        devices=devices,
        dtype=keras.backend.standardize_dtype(x.dtype),
        shape=tuple(x.shape),
        masked=mask is not None,
        exporting=NATIVE.exporting(),
        plan=plan,
        options=options,
    )


def _check_wanted(wanted, rows, call):
    if wanted not in rows:
        raise ValueError(
            f"`implementation` must be one of {(*rows, 'reference')} for `{call.op}` "
            f"on this backend. Received: implementation={wanted!r}"
        )
    objection = rows[wanted].objection(call)
    if objection:
        raise ValueError(
            f"{wanted!r} cannot serve this call of `{call.op}`: {objection}. "
            "Leave `implementation=None` (and KERAS_PERMIX_IMPLEMENTATION unset) to have one "
            f"chosen. Received: {call}"
        )


def _explanation(call, rows, chosen):
    objections = {name: row.objection(call) for name, row in rows.items()}
    return Explanation(f"{call.op}({call})", chosen, {**objections, "reference": None})
