"""Rounding that is right on average: a shift rounds half up in every other channel, and half down in the rest.

``(x + 2^(s-1)) >> s`` rounds ties up. Of integers of any residue one in ``2^s`` is a tie, so the mean error is
``2^-(s+1)`` units: a quarter where the shift is by one, as in the sum of two tensors of half the result's scale. One
unit less before the shift sends ties down and changes nothing else. Where the channels take turns the mean is zero,
and what differs is a tensor of one number a channel, which the sums begin with or the bias has in it. A constant that
is no whole number of sums, as a zero point or half a unit can be, is rounded up in as many channels as it takes.

From one sum to the next the channels change sides, so that along a trunk of residual blocks a channel's errors cancel.
What a channel is off by at one sum is known, so the bias of a layer that reads it makes up for it.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from accel.util.arrays import Float64, Int64

ACCEPTED_BIAS = 0.02
"""Units of the result that a rounding may be off by on average."""

Rounded = Literal["layer", "addition", "elementwise"]
ROUNDED: frozenset[Rounded] = frozenset(get_args(Rounded))


@dataclass(frozen=True)
class Rounding:
    """How far sums that become int8 are off on average: by ``bias`` units of the result, a scalar or [O].

    ``step`` more in the sums, the least that can be added to them, is worth ``worth`` units, of the same shape.
    """

    bias: Float64
    worth: Float64
    step: int = 1

    @property
    def mean(self) -> float:
        """The error over all channels, in absolute value."""
        return abs(float(np.mean(self.bias)))

    def offsets(self, channels: int, turn: int = 0) -> Int64:
        """Returns what each channel adds for errors to cancel, [channels]; an odd ``turn`` has the channels swap."""
        part = np.broadcast_to(self.bias / self.worth, channels)
        first = 1 / 2
        if np.allclose(part, 1 / 2):  # the worth is a quotient of scales, which float32 has rounded
            part, first = np.full(channels, 1 / 2), turn % 2 / 2  # halves may begin with either
        return -self.step * np.diff(np.floor(np.cumsum(part) + first), prepend=0).astype(np.int64)

    def left(self, channels: int) -> float:
        """Returns the error over all channels, in absolute value, that :meth:`offsets` leave."""
        return abs(float(np.mean(self.errors(self.offsets(channels)))))

    def errors(self, offsets: Int64) -> Float64:
        """Returns the mean error of each channel once it adds its one of ``offsets``; units of the result."""
        return np.asarray(self.bias + offsets / self.step * self.worth, np.float64)


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


@dataclass(frozen=True)
class LeftBias:
    """The mean error of a rounding, in units of the result; ``balanced``: as far as its few channels let it."""

    error: float
    balanced: bool


@dataclass
class RoundingSides:
    """Which channels of each rounding go up, and what stays biased.

    ``balances``: the operators to which the accelerator can add a number a channel. ``biases`` are those beyond
    :data:`ACCEPTED_BIAS`, by the node that rounds. ``errors`` are the mean errors of each channel of a tensor, as real
    numbers, by its variable; channels are along axis 1 of images and the last of anything else.
    """

    balances: Collection[Rounded]
    biases: dict[str, LeftBias] = field(default_factory=dict)
    errors: dict[str, Float64] = field(default_factory=dict)
    _turns: Counter[bool] = field(default_factory=Counter)  # of layers, and of the rest

    def shape(self, of: Rounded, shape: list[int], rounding: Rounding) -> list[int]:
        """Returns how to lay out an image or a matrix whose elements are summed, for its errors to cancel.

        As it is, but where its channels are one, or few and odd: a channel is then a part of what one was.
        """
        if of not in self.balances or rounding.mean <= ACCEPTED_BIAS:
            return shape
        return next((each for each in _layouts(shape) if rounding.left(each[1]) <= ACCEPTED_BIAS), shape)

    def offsets(self, of: Rounded, rounding: Rounding, channels: int, node: str, *, free: bool = False) -> Int64:
        """Returns what each channel adds for a mean error near zero, [channels]; all 0 where that needs nothing.

        Args:
            of: the sort of operator; layers have turns of their own.
            rounding: of its sums.
            channels: of the result.
            node: what rounds.
            free: there is a number a channel anyway, so that it costs nothing.
        """
        needs = rounding.mean > ACCEPTED_BIAS
        balanced = of in self.balances and (needs or (free and rounding.mean > 0))
        left = rounding.left(channels) if balanced else rounding.mean
        if left > ACCEPTED_BIAS and (node not in self.biases or left > self.biases[node].error):
            self.biases[node] = LeftBias(left, balanced)
        if not balanced:
            return np.zeros(channels, np.int64)
        turn = self._turns[of == "layer"]
        self._turns[of == "layer"] += 1
        return rounding.offsets(channels, turn)


def _layouts(shape: list[int]) -> Iterator[list[int]]:
    """The shape, and those of more channels in which the elements lie in the same order."""
    yield shape
    if len(shape) == 2:
        rows, columns = shape
        yield from ([rows // part, columns * part] for part in range(2, rows + 1) if rows % part == 0)
        return
    batch, channels, *plane = shape
    places = math.prod(plane)
    yield from ([batch, channels * part, 1, places // part] for part in range(2, places + 1) if places % part == 0)
