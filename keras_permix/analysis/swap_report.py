"""What a swap of mixers changes: weights and multiply-adds before and after."""

from typing import Any, NamedTuple

from keras_permix._typing import Model
from keras_permix.analysis.macs import MACs, count_macs


class SwapReport(NamedTuple):
    """What `swap_report` gives; `print` shows it as a table.

    Args:
        parameters: Numbers of weights, before and after.
        macs: What `count_macs` gives, before and after.

    Example:

    >>> from keras_permix import swap_mixer
    >>> from keras_permix.analysis import swap_report
    >>> from keras_permix.zoo import ViT
    >>> model = ViT.from_preset("test")
    >>> report = swap_report(model, swap_mixer(model, "csp"))
    >>> report.parameters, [macs.total for macs in report.macs]
    ((1443, 1187), [28384, 15072])
    """

    parameters: tuple[int, int]
    macs: tuple[MACs, MACs]

    def __str__(self) -> str:
        rows = {"parameters": self.parameters, "multiply-adds": [macs.total for macs in self.macs]}
        lines = [f"{'':14}{'before':>16}{'after':>16}{'change':>10}"]
        for name, (before, after) in rows.items():
            change = f"{100 * (after / before - 1):+.1f} %" if before else ""
            lines.append(f"{name:14}{before:16,}{after:16,}{change:>10}")
        left_out = sorted({name for macs in self.macs for name in macs.uncounted})
        if left_out:
            lines.append(f"multiply-adds are without those of {', '.join(left_out)}")
        return "\n".join(lines)


def swap_report(before: Model, after: Model, inputs: Any = None) -> SwapReport:
    """Compare a model with what `swap_mixer` made of it.

    Args:
        before, after: Two models that take the same inputs.
        inputs: What to call them with, a batch of one sample, which your own models need. `None`:
            what a model of the zoo makes up.

    Returns:
        A `SwapReport`.

    Raises:
        ValueError: for inputs that are no batch of one sample, or none where the model makes none.

    Example:

    >>> from keras_permix import swap_mixer
    >>> from keras_permix.analysis import swap_report
    >>> from keras_permix.zoo import ViT
    >>> model = ViT.from_preset("cifar10_small")
    >>> print(swap_report(model, swap_mixer(model, "csp")))
                            before           after    change
    parameters             808,586         611,978   -24.3 %
    multiply-adds       57,315,712      38,343,040   -33.1 %
    """
    parameters = (before.count_params(), after.count_params())
    return SwapReport(parameters, (count_macs(before, inputs), count_macs(after, inputs)))
