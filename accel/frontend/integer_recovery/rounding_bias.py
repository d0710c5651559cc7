"""Rounding that is right on average: a shift rounds half up in every other channel, and half down in the rest.

``(x + 2^(s-1)) >> s`` rounds ties up. Of integers of any residue one in ``2^s`` is a tie, so the mean error is
``2^-(s+1)`` units: a quarter where the shift is by one, as in the sum of two tensors of half the result's scale. One
unit less before the shift sends ties down and changes nothing else. Where the channels take turns the mean is zero,
and what differs is a tensor of one number a channel, which the sums begin with or the bias has in it.

From one sum to the next the channels change sides, so that along a trunk of residual blocks a channel's errors cancel.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from accel.frontend.integer_recovery import composite_functions
from accel.util.arrays import Int64

ACCEPTED_BIAS = 0.02
"""Units of the result that a rounding may be off by on average."""

Rounded = Literal["layer", "sum"]


def tie_bias(shift: int, grain: int = 1) -> float:
    """Returns the mean error, in units of the result, of rounding half up what is a multiple of ``grain``.

    Args:
        shift: to the right; nothing is rounded where it is not positive.
        grain: a power of two.
    """
    return grain * 2.0 ** -(shift + 1) if shift > 0 and grain < 1 << shift else 0.0


def product_tie_bias(shift: int) -> float:
    """Returns the mean error of rounding the product of two integers half up; more of those are even than odd."""
    return shift * 2.0 ** -(shift + 2) if shift > 0 else 0.0


def grain_of(*factors: int) -> int:
    """Returns the largest power of two that divides all of ``factors``, at least one of which is not 0."""
    together = int(np.gcd.reduce(np.abs(np.asarray(factors, np.int64))))
    return together & -together


@dataclass
class RoundingSides:
    """Which channels of each rounding go up, and what stays biased.

    ``balances``: the accelerator can add a number a channel. ``biases`` are mean errors, in units of the result, by the
    node that rounds, of those beyond :data:`ACCEPTED_BIAS`.
    """

    balances: bool
    biases: dict[str, float] = field(default_factory=dict)
    _turns: Counter[Rounded] = field(default_factory=Counter)

    def offsets(
        self,
        of: Rounded,
        epilogue: composite_functions.AnyEpilogue,
        channels: int,
        node: str,
        *,
        grain: int = 1,
        product: bool = False,
        free: bool = False,
    ) -> Int64:
        """Returns what each channel adds for a mean error near zero, [channels]; all 0 where that needs nothing.

        Args:
            of: the sort of operator; each has turns of its own.
            epilogue: how the sums become int8.
            channels: of the result.
            node: what rounds.
            grain: the power of two whose multiples the sums are.
            product: they are products of two tensors.
            free: there is a number a channel anyway, so that it costs nothing.
        """
        none = np.zeros(channels, np.int64)
        if not isinstance(epilogue, composite_functions.ShiftEpilogue):
            return none
        bias = product_tie_bias(epilogue.shift) if product else tie_bias(epilogue.shift, grain)
        if not bias or not (bias > ACCEPTED_BIAS or free):
            return none
        left = bias * (channels % 2) / channels if self.balances else bias
        if left > ACCEPTED_BIAS:
            self.biases[node] = left
        if not self.balances:
            return none
        turn = self._turns[of]
        self._turns[of] += 1
        return -grain * ((np.arange(channels) + turn) % 2)
