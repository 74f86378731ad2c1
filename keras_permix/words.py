"""Numbers as people read them."""


def counted(count: int, noun: str) -> str:
    """So many of something.

    Example:

    >>> from keras_permix.words import counted
    >>> counted(1, "step"), counted(11_700, "step")
    ('1 step', '11,700 steps')
    """
    return f"{count:,} {noun if count == 1 else f'{noun}s'}"


def duration(seconds: float) -> str:
    """A time in the units that one would give it in.

    Example:

    >>> from keras_permix.words import duration
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
