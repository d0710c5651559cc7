"""The factors that scales have beside their powers of two, so that averages can be requantised by shifting.

The mean of 49 numbers is their sum at a 49th of their scale. Where the result gets a scale with that factor too, a
shift makes one of the other; a layer that reads it takes the factor back in the scale of its weights.
"""

import math

from accel.frontend.quantization.targets import Targets
from accel.frontend.quantization.ties import tied


def bases(targets: Targets) -> dict[str, float]:
    """For each activation, a factor of at least 1 and less than 2.

    It is 1 but for averages of other than powers of two, and what is moved or averaged of them, if layers alone read
    them: an addition needs one factor for all of its operands, and so does a concatenation.
    """
    groups = {name: group for group in tied(targets) for name in group}
    added = {str(name) for node in targets.additions for name in node.input}
    added |= {name for join in targets.joins for name in join}
    found = dict.fromkeys(targets.activations, 1.0)
    for average in targets.averages:
        group = groups[average.result]
        made_otherwise = {other.result for other in targets.averages if other is not average} & set(group)
        if added.isdisjoint(group) and not made_otherwise:
            factor = _normal(found[average.source] / average.count)
            found |= dict.fromkeys(group, factor)
    return found


def reciprocal(base: float) -> float:
    """The factor that makes of ``base`` a power of two."""
    return _normal(1 / base)


def _normal(factor: float) -> float:
    return 2 * math.frexp(factor)[0]
