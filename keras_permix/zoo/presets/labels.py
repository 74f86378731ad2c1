"""Names of classes and outputs."""

from typing import Any


def check_labels(labels: Any, outputs: int) -> tuple[str, ...] | None:
    """The labels of a model with so many outputs, as a tuple; `None` stays `None`.

    Raises:
        ValueError: if they are not one name per output, each another.
    """
    if labels is None:
        return None
    named = isinstance(labels, list | tuple) and all(isinstance(name, str) for name in labels)
    if not named or len(labels) != outputs:
        count = len(labels) if hasattr(labels, "__len__") else "no"
        raise ValueError(
            "`labels` must hold one name per class or output, a list of str. "
            f"Received: labels={str(labels)[:100]}, {count} labels for {outputs} outputs"
        )
    twice = sorted({name for name in labels if labels.count(name) > 1})
    if twice:
        raise ValueError(f"`labels` must differ from each other. Received: {twice} more than once")
    return tuple(labels)
