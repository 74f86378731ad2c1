"""Format numbers, scores and text for people."""

SHARES = ("accuracy", "top1", "top5")  # metrics from 0 to 1


def counted(count: int, noun: str) -> str:
    """Format a count with its noun, in the plural unless the count is 1."""
    return f"{count:,} {noun if count == 1 else f'{noun}s'}"


def duration(seconds: float) -> str:
    """Format a duration in readable units.

    Example:
        >>> duration(0.65), duration(7605), duration(290)
        ('0.65 s', '2 h 7 min', '4 min 50 s')
    """
    if seconds < 10:
        return f"{seconds:.2g} s"
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def format_score(key: str, value: float) -> str:
    """Format an accuracy in percent, and other scores as numbers.

    Example:
        >>> format_score("cifar10/test/top1", 0.8906), format_score("qm9/test/mae", 0.0123)
        ('89.06 %', '0.0123')
    """
    return f"{100 * value:.2f} %" if key.split("/")[-1] in SHARES else f"{value:.4g}"


def printable(text: object) -> str:
    """Return text on one line, without control characters."""
    return "".join(c if c.isprintable() else " " * c.isspace() for c in str(text))
