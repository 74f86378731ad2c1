"""Select the implementation of an op.

Every op has a reference implementation in `keras.ops` that works on all backends. Faster
implementations are listed in `ops/backend/<backend>/implementations.py`. The first one that
supports the call is used. The choice is made while tracing, so that compiled functions have no
overhead.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import keras

from keras_permix._typing import Tensor
from keras_permix.ops.backend import running
from keras_permix.ops.backend.plan import Call, Hardware
from keras_permix.ops.dispatch.checks import is_empty
from keras_permix.utils.checks import check_choice

VARIABLE = "KERAS_PERMIX_IMPLEMENTATION"
FORCED = os.environ.get(VARIABLE) or None
NATIVE = running.module("implementations")
RUNTIME = running.module("runtime")
REFERENCE = "reference"
EXPORTING = 0  # number of exports in progress, in all threads
LOCK = threading.Lock()
OPS: dict[str, Callable[..., Any]] = {}  # public functions by name
Op = TypeVar("Op", bound=Callable[..., Any])
EXPLAIN = object()  # passed as `implementation` to explain a call


def op(function: Op) -> Op:
    """Register the public function of an op, so that models and `explain` find it by name."""
    OPS[function.__name__] = function
    return function


@keras.saving.register_keras_serializable("keras_permix")
class TokenOperation(keras.Operation):
    """Represent an op as one node of a functional model, which is dispatched when it runs."""

    def __init__(self, op, implementation, options, like=0, shape=None, name=None):
        super().__init__(name=name)
        self.op = op
        self.implementation = implementation
        self.options = options
        self.like = like
        self.shape = shape

    def call(self, *arrays, mask=None):
        given = {} if mask is None else {"mask": mask}
        return OPS[self.op](*arrays, **given, implementation=self.implementation, **self.options)

    def compute_output_spec(self, *arrays, mask=None):
        like = arrays[self.like]
        return keras.KerasTensor(self.shape or like.shape, like.dtype)

    def get_config(self):
        names = ("op", "implementation", "options", "like", "shape", "name")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_config(cls, config):
        return cls(**keras.saving.deserialize_keras_object(config))


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Use only operations that LiteRT, ONNX and OpenVINO support, in all threads.

    Use this context to export custom models with these layers on JAX and TensorFlow. Zoo models
    enter it automatically, and PyTorch does not need it. Inside the context,
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
    op, reference, *arrays, mask=None, plan=None, like=0, shape=None, implementation=None, **options
):
    """Run an op whose arguments have been checked.

    Implementations are called as `function(*arrays, mask, plan)` if there is a `plan`, otherwise as
    `function(*arrays, mask, **options)`. They return a tensor of the dtype of `arrays[like]` and of
    its shape, unless `shape` is given. They receive no tensor that is known to be empty.
    """
    symbolic = any(isinstance(x, keras.KerasTensor) for x in (*arrays, mask))
    explaining = implementation is EXPLAIN
    if symbolic and not explaining:
        return TokenOperation(op, implementation, options, like, shape)(*arrays, mask=mask)
    x = arrays[0]
    call = Call(
        op=op,
        hardware=Hardware() if symbolic else RUNTIME.hardware(x),
        dtype=keras.backend.standardize_dtype(x.dtype),
        shape=RUNTIME.shape(x),
        masked=mask is not None,
        exporting=bool(EXPORTING) or RUNTIME.exporting(),
        plan=plan,
        options=options,
        symbolic=symbolic,
    )
    candidates = {each.name: each for each in NATIVE.IMPLEMENTATIONS if each.op == op}
    empty = shape is None and is_empty(arrays[like])
    if explaining:
        return _explain(call, candidates, empty)
    if empty:
        return keras.ops.copy(arrays[like])
    chosen = _choose(call, candidates, implementation)
    function = reference if chosen == REFERENCE else candidates[chosen].function
    return function(*arrays, mask, **options) if plan is None else function(*arrays, mask, plan)


def _explain(call, candidates, empty):
    if empty:
        others = dict.fromkeys((*candidates, REFERENCE), "it is not used for empty tensors")
        return Explanation(f"{call.op}({call})", "copy", {**others, "copy": None})
    chosen = _choose(call, candidates, None)
    objections = {
        name: each.objection(call) or each.doubt(call) for name, each in candidates.items()
    }
    candidate = candidates.get(chosen)
    elsewhere = candidate.elsewhere if candidate and not call.hardware.sure else None
    return Explanation(f"{call.op}({call})", chosen, {**objections, REFERENCE: None}, elsewhere)


def _choose(call, candidates, implementation):
    """Return the name of the implementation, or None if it is chosen at run time."""
    wanted = implementation or _forced(candidates)
    if wanted is not None:
        check_choice("implementation", wanted, (*candidates, REFERENCE))
        if wanted == REFERENCE:
            return REFERENCE
        if objection := candidates[wanted].objection(call):
            rule = f"The implementation {wanted!r} does not support this call of `{call.op}`"
            raise ValueError(f"{rule}: {objection}. Received: {call}")
        return None if candidates[wanted].doubt(call) else wanted
    for name, candidate in candidates.items():
        if not candidate.objection(call):
            return None if candidate.doubt(call) else name
    return REFERENCE


def _forced(candidates):
    """Return the implementation that the environment selects, if this op has it."""
    if FORCED is None or EXPORTING:
        return None
    names = {each.name for each in NATIVE.IMPLEMENTATIONS}
    check_choice(VARIABLE, FORCED, sorted({REFERENCE, *names}))
    return FORCED if FORCED in (*candidates, REFERENCE) else None


@dataclass(frozen=True)
class Explanation:
    """Hold the implementation of a call and why the others are not used; prints as a table."""

    call: str
    chosen: str | None
    objections: dict[str, str | None]
    elsewhere: str | None = None

    def __str__(self):
        lines = [self.call]
        for name, objection in self.objections.items():
            verdict = "selected" if name == self.chosen else objection or "not selected"
            if name == self.chosen and self.elsewhere:
                verdict += f"; on other platforms: {self.elsewhere}"
            lines.append(f"  {name}: {verdict}")
        return "\n".join(lines)


def explain(op: str | Callable[..., Tensor], *args: Any, **kwargs: Any) -> Explanation:
    """Explain which implementation runs a call, and why the others do not, without computing it.

    The result is valid for these tensors on their device. A compiled function may use another
    implementation than an eager call, for example if it is divided among devices. In this case,
    call `explain` inside the function. For a symbolic tensor, the choice may be made at run time.

    The environment variable `KERAS_PERMIX_IMPLEMENTATION` is the default of `implementation` in
    every call of an op that has an implementation of that name. Calls that it does not support
    raise an error, as does `explain`.

    Args:
        op: A function of this module that takes `implementation`, or its name.
        *args: The arguments of the call.
        **kwargs: The named arguments of the call, without `implementation`.

    Returns:
        An `Explanation`, which prints as a table. `chosen` is a name, "copy" for an empty tensor,
        or None if the choice is made at run time. `objections` has a reason or None for every
        implementation, best first. `elsewhere` is the implementation of a function that is compiled
        for another platform than the default, or None.

    Raises:
        ValueError: for an unknown op, or arguments that the op rejects.

    Example:
        >>> import numpy as np
        >>> from keras_permix import ops
        >>> ops.explain("group_sort", np.ones((1, 4, 2), "float32"), 2).chosen
        'native'
    """
    name = check_choice("op", getattr(op, "__name__", op), sorted(OPS))
    return OPS[name](*args, **kwargs, implementation=EXPLAIN)
