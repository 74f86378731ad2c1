"""Scores in words."""

SHARES = ("accuracy", "top1", "top5")  # metrics from 0 to 1


def format_score(key: str, value: float) -> str:
    """A score as people read it: percent for accuracies, else the number.

    Args:
        key: `DATA/PART/METRIC`.
        value: A float.

    Example:

    >>> from keras_permix.scores import format_score
    >>> format_score("cifar10/test/top1", 0.8906), format_score("qm9/test/mae", 0.0123)
    ('89.06 %', '0.0123')
    """
    return f"{100 * value:.2f} %" if key.split("/")[-1] in SHARES else f"{value:.4g}"
