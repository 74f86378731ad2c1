"""Distribute a run over several devices or processes."""

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
    """Distribute the computations of a `with` block over devices or processes.

    Start the processes by `torchrun`, Slurm or a similar launcher. Each must enter the block before
    it computes anything.

    Args:
        kind: "data" divides each batch; "model" divides the parameters (JAX only); "auto" is "data"
            with several devices or processes, else `None`, one device. A `Distribution` is used
            as it is. Defaults to "auto".

    Yields:
        A `Distribution`.

    Raises:
        ValueError: for a kind that is unknown or unsupported by the backend.
        ConnectionError: if another process has ended.

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
            found = " ".join(str(error).split())[:200] or type(error).__name__
            raise ConnectionError(f"{LOST} Received: {found}") from error
        raise
    finally:
        distribution.close()


def _start(kind):
    if kind is None:
        return Distribution()
    check_choice("distribute", kind, KINDS)
    if kind == "model" and running.name() != "jax":
        raise ValueError(f"`distribute='model'` requires JAX. Received: {running.name()}")
    engine = import_module(f"keras_permix.training.distribute.{running.name()}")
    found = engine.start(kind)
    if found.devices > 1:
        return found
    if kind == "auto":
        return Distribution()
    found.close()
    rule = f"`distribute={kind!r}` requires several devices or processes (see torchrun)"
    raise ValueError(f"{rule}. Received: one")
