"""A run on several devices or processes, through what each backend has for it."""

import contextlib
from collections.abc import Iterator
from importlib import import_module

from keras_permix.ops.backend import running
from keras_permix.training.distribute.distribution import LOST, Distribution
from keras_permix.utils.checks import check_choice

__all__ = ["Distribution", "distributed"]

KINDS = ("data", "model", "auto")


@contextlib.contextmanager
def distributed(kind: str | Distribution | None = "auto") -> Iterator[Distribution]:
    """Run what is inside on several devices or processes.

    The processes are there already, started by `torchrun`, Slurm or the like, and each comes here
    before it computes anything.

    Args:
        kind: "data" divides each batch; "model" divides the weights, on JAX alone; "auto" is
            "data" where there is more than one device or process, and else `None`: one device. A
            `Distribution` that has begun is taken as it is.

    Yields:
        A `Distribution`.

    Raises:
        ValueError: for a kind that is unknown or not to be had here.
        ConnectionError: where another process has ended.

    Example:

    >>> from keras_permix.training.distribute import distributed
    >>> with distributed("auto") as distribution:
    ...     distribution.is_chief
    True
    """
    if isinstance(kind, Distribution):
        yield kind
        return
    distribution = _start(kind)
    try:
        yield distribution
        distribution.wait()
    except Exception as error:
        if distribution.lost(error):
            raise ConnectionError(f"{LOST} Received: {distribution.said(error)}") from error
        raise
    finally:
        distribution.close()


def _start(kind):
    if kind is None:
        return Distribution()
    check_choice("distribute", kind, KINDS)
    engine = import_module(f"keras_permix.training.distribute.{running.name()}")
    found = engine.start("model" if kind == "model" else "data")
    if kind == "auto" or found.devices > 1:
        return found if found.devices > 1 else Distribution()
    found.close()
    raise ValueError(
        f"`distribute={kind!r}` needs more than one device or process. {engine.HINT} "
        f"Received: one process with one device on {running.name()}"
    )
