"""Ask which implementation serves a call."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keras_permix._typing import Tensor
from keras_permix.ops.dispatch.node import OPS
from keras_permix.utils.checks import check_choice

EXPLAIN = object()  # in place of a name of an implementation


@dataclass(frozen=True)
class Explanation:
    """Which implementation serves a call, and why the others do not; printed as a table."""

    call: str
    chosen: str | None
    objections: dict[str, str | None]
    elsewhere: str | None = None

    def __str__(self):
        lines = [f"{self.call}"]
        for name, objection in self.objections.items():
            verdict = objection or "comes later"
            if name == self.chosen:
                verdict = "serves this call"
            if name == self.chosen and self.elsewhere:
                verdict += f"; {self.elsewhere} does where it is compiled for another platform"
            lines.append(f"  {name}: {verdict}")
        return "\n".join(lines)


def explain(op: str | Callable[..., Tensor], *args: Any, **kwargs: Any) -> Explanation:
    """Say which implementation serves a call, and why the others do not.

    The answer holds for these tensors, where they are. A function that is compiled may be served
    by another one than an eager call, for instance where a compiler has to divide it between
    devices: ask inside of the function. For a symbolic tensor, whose device is not known and whose
    number of tokens may not be, the answer may be that it is known when it runs.

    The environment variable `KERAS_PERMIX_IMPLEMENTATION` takes the place of `implementation` in
    every call: an implementation of that name serves wherever the op has one, and raises where it
    cannot serve. This function then raises the same error.

    Args:
        op: A function of this module that takes `implementation`, or its name.
        *args: The arguments of the call.
        **kwargs: The named arguments of the call, without `implementation`.

    Returns:
        An `Explanation` with `chosen` (a name, "copy" where a tensor has no values to compute
        with, or None if that is known when it runs),
        `objections` (a reason or None for every implementation, best first), `elsewhere` (what
        serves instead where a compiled function turns out to be for another platform than the
        default one, or None) and a readable `str`. Nothing is computed.

    Raises:
        ValueError: for a name that is no op, or arguments that the op rejects.

    Example:

    >>> import numpy as np
    >>> from keras_permix import ops
    >>> ops.explain("group_sort", np.ones((1, 4, 2), "float32"), 2).chosen
    'native'
    """
    name = check_choice("op", getattr(op, "__name__", op), sorted(OPS))
    return OPS[name](*args, **kwargs, implementation=EXPLAIN)
