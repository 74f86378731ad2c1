"""Explain the choice of an implementation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keras_permix._typing import Tensor
from keras_permix.ops.dispatch.node import OPS
from keras_permix.utils.checks import check_choice

EXPLAIN = object()  # in place of a name of an implementation


@dataclass(frozen=True)
class Explanation:
    """Hold the implementation of a call and the objections of the others, printed as a table."""

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
    """Explain which implementation runs a call, and why the others do not. Compute nothing.

    The result holds for these tensors on their device. A compiled function may use another
    implementation than an eager call, for example if it is divided among devices. In this case,
    call `explain` inside the function. The choice for a symbolic tensor may be open until run time.

    The environment variable `KERAS_PERMIX_IMPLEMENTATION` replaces `implementation` in every call
    of an op that has an implementation of that name. A call that it does not support raises an
    error, here as well.

    Args:
        op: A function of this module that takes `implementation`, or its name.
        *args: The arguments of the call.
        **kwargs: The named arguments of the call, without `implementation`.

    Returns:
        An `Explanation`, which prints as a table. `chosen` is a name, "copy" for a tensor without
        values, or None if the choice is made at run time. `objections` has a reason or None for
        every implementation, best first. `elsewhere` is the implementation of a compiled function
        on another than the default platform, or None.

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
