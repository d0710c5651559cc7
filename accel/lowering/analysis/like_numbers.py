"""Numbers of which nothing is known: one may stand for another in what was made with it.

Matching and simplification ask of a float only whether it is one that arithmetic or an instruction knows: zero, a power
of two, a number in an instruction's expression. Another one goes where it goes whatever it is.
"""

import math
from collections.abc import Iterable

import numpy as np

from accel.accelerator.target import Target
from accel.expression.syntax_tree import Literal, walk


class LikeNumbers:
    """The numbers that a target's instructions know."""

    def __init__(self, target: Target) -> None:
        self._known = frozenset(
            float32_bits(node.value)
            for meaning in target.semantics
            for node in walk(meaning.typed.statement.value)
            if isinstance(node, Literal)
        )

    def is_any(self, number: float) -> bool:
        """Returns whether nothing is known of a number: arithmetic and instructions do the same for others."""
        single = abs(float(np.float32(number)))
        usual = math.isfinite(single) and single >= float(np.finfo(np.float32).tiny)
        return (
            usual and math.frexp(single)[0] != 0.5 and not {float32_bits(number), float32_bits(-number)} & self._known
        )

    def are_alike(self, pairs: Iterable[tuple[float, float]]) -> bool:
        """Returns whether what was made with the first numbers can be made with the second ones in their stead.

        They are equal, or none of both is known and they have one sign; and numbers are equal, but for signs, where the
        others are.
        """
        known = list(pairs)
        if not all(a == b or (self.is_any(a) and self.is_any(b) and (a < 0) == (b < 0)) for a, b in known):
            return False
        bits = {(float32_bits(abs(a)), float32_bits(abs(b))) for a, b in known}
        return all(len({pair[side] for pair in bits}) == len(bits) for side in (0, 1))


def float32_bits(number: float) -> int:
    """Returns the bits of a number as float32."""
    with np.errstate(over="ignore"):
        return int(np.float32(number).view(np.uint32))
