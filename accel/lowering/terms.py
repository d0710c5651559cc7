"""The operands of an elementwise composite: their weights, and how they are combined."""

from dataclasses import dataclass
from typing import get_args

from tvm import relax

from accel.lowering.elementwise import Combination


@dataclass(frozen=True)
class Terms:
    """A weight for each operand, and how many ``bindings`` of the composite there are before its epilogue."""

    combination: Combination
    weights: tuple[int, ...]

    @property
    def bindings(self) -> int:
        """A cast for each, a multiplication where the weight is not 1, and one less to combine them."""
        return 2 * len(self.weights) - 1 + sum(weight != 1 for weight in self.weights)


def terms_of(function: relax.Function) -> Terms:
    """Those of a composite ``elementwise``."""
    name = str(function.attrs["combination"])
    combination = next(known for known in get_args(Combination) if known == name)
    return Terms(combination, tuple(int(weight) for weight in function.attrs["weights"]))
