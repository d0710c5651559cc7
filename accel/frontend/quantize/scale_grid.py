"""The scales to choose from: a geometric sequence, and the error of int8 at each of them."""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

_DENSITY = 8
Scales = Literal["power of two", "free"]
CalibrationMethod = Literal["minmax", "percentile", "entropy", "mse"]
"""How the range of an activation is chosen: that of all values; without the outermost ten thousandth on each side; the
one whose levels tell the most of the distribution; or that of the least squared error."""

_CHANNEL_OCTAVES = 1.5  # of the few weights of a channel the largest counts for more
OCTAVES = 4  # how far below the scale that just holds every value to look
INT8_MAX = 127
_LEVELS = 1 << 13  # of absolute values: a 64th of the step that just holds the largest
_BLOCK = 1 << 13  # elements that are looked at together: they stay in the cache, and BLAS starts no threads
_PART = 1 << 16  # weights that are counted together: they stay in the cache, and so do their levels
_MAX_EXPONENT = 55  # the product of two scales is still a normal float32


ZeroPoints = Literal["none", "unpadded", "fused", "all"]
"""Which activations may have a zero point: none; those that no operator of windows reads with zeros around them, which
loads bring by themselves; also those of these that come with the sums of a layer, where a zero point costs no more than
rounding does, and not from a relu by itself; or all that a zero point helps."""


@dataclass(frozen=True)
class Scheme:
    """How a model is quantised.

    Attributes:
        scales: those that the machine can requantise between: "power of two" where the product of a layer's scales
            has to be its result's times one.
        by_channel: whether weights have a scale for each output channel; then ``scales`` are free.
        zero_points: of activations.
        method: how the ranges of activations are chosen.
        float_products: whether products of two activations stay in float32.
        stores_gelu: whether GELU is computed by stores, as integers, so that its results have no zero point.
        softmax_columns: the least and the most columns of rows of which stores compute softmax; 0 if none do.
        layer_norm_columns: the same of layer norm.
    """

    scales: Scales = "power of two"
    by_channel: bool = False
    zero_points: ZeroPoints = "unpadded"
    method: CalibrationMethod = "mse"
    float_products: bool = False
    stores_gelu: bool = False
    softmax_columns: tuple[int, int] = (0, 0)
    layer_norm_columns: tuple[int, int] = (0, 0)


DEFAULT_SCHEME = Scheme()


@dataclass(frozen=True)
class Loss:
    """The ``energy`` of a tensor, summed over its elements, and its squared error by the index of the scale.

    ``zero_points`` are those of the errors, also by the index of the scale.
    """

    energy: float
    errors: dict[int, float]
    zero_points: dict[int, int]


@dataclass(frozen=True)
class Grid:
    """The scales ``base * 2**(index / density)``, for every integer ``index``, rounded to float32.

    The ratio of two of them whose indices are congruent modulo ``density`` is exactly a power of two. ``base`` is at
    least 1 and less than 2.
    """

    density: int
    base: float = 1.0

    def with_base(self, base: float) -> "Grid":
        """Returns the grid of the same density over another base."""
        return replace(self, base=base)

    def scale(self, index: int) -> float:
        """Returns a float32 number."""
        octave, step = divmod(index, self.density)
        return math.ldexp(_octave(self.density, self.base)[step], octave)

    def scales(self, indices: Sequence[int]) -> npt.NDArray[np.float64]:
        """Returns the scales of several indices."""
        octaves, steps = np.divmod(np.array(indices, np.int64), self.density)
        return np.asarray(np.ldexp(np.array(_octave(self.density, self.base))[steps], octaves))

    def ceiling(self, scale: float) -> int:
        """Returns the least index whose scale, before it is rounded, is at least ``scale``, which is positive."""
        return int(np.ceil(self.density * np.log2(scale / self.base)))

    def top(self, largest: float) -> int:
        """Returns the index of the power of two that just holds ``largest``."""
        octave = int(np.ceil(np.log2(largest / INT8_MAX / self.base))) if largest > 0 else -7
        return min(max(octave, -_MAX_EXPONENT), _MAX_EXPONENT) * self.density

    def finest(self, largest: float) -> int:
        """Returns the least of :meth:`candidates`."""
        return self.top(largest) - OCTAVES * self.density

    def candidates(self, largest: float) -> list[int]:
        """Returns the candidate indices: from :meth:`top` to four octaves finer, then what is less than one wider.

        So of every fraction of an octave there is a scale that holds ``largest``; where all are as good, the first is
        the power of two.
        """
        top = self.top(largest)
        return [*range(top, self.finest(largest) - 1, -1), *range(top + 1, top + self.density)]

    def best(self, values: npt.NDArray[Any]) -> int:
        """Returns the index whose scale has the least squared error over ``values``; of equal ones, the largest.

        Errors only grow from block to block, so most scales need not be tried on all of them: the likely ones go
        first, and a scale whose error exceeds the best one's is dropped.
        """
        flat = values.reshape(-1)
        top, finest = self.top(_largest(flat)), self.finest(_largest(flat))
        sample = flat[:: max(1, flat.size // _BLOCK)]
        guesses = {index: squared_error(sample, self.scale(index)) for index in range(top, finest - 1, -1)}
        least, found = math.inf, top
        for index in sorted(guesses, key=guesses.__getitem__):
            error = squared_error(flat, self.scale(index), above=least)
            if (error, -index) < (least, -found):
                least, found = error, index
        return found

    def errors(self, values: npt.NDArray[Any], squares: npt.NDArray[Any] | float = 1.0) -> dict[int, float]:
        """Returns the squared error of ``values`` as a share of their energy, by the index of each candidate scale.

        What each counts is ``squares``, which broadcasts with ``values``.
        """
        largest = _largest(values)
        if not largest:
            return dict.fromkeys(self.candidates(largest), 0.0)
        factor = np.float32((_LEVELS - 1) / largest)
        weights = None if isinstance(squares, float) else np.broadcast_to(squares, values.shape)
        counts = np.zeros(_LEVELS)
        for block, weight in _blocks(values, weights):
            levels = np.abs(block)
            levels *= factor
            levels += np.float32(0.5)
            counts += np.bincount(
                levels.astype(np.intp).reshape(-1), None if weight is None else weight.reshape(-1), _LEVELS
            )
        # the levels that a scale rounds alike follow each other, so that differences of sums tell of them
        middles = np.arange(_LEVELS) * (largest / (_LEVELS - 1))
        sums = np.zeros((3, _LEVELS + 1))
        np.cumsum([counts, counts * middles, counts * middles**2], 1, out=sums[:, 1:])
        energy = float(sums[2, -1]) or 1.0
        candidates = self.candidates(largest)
        held = self.scales(candidates)[:, None] * np.arange(INT8_MAX + 1)
        edges = (held[:, 1:] - held[:, 1:2] / 2) * ((_LEVELS - 1) / largest)
        ends = np.full((len(candidates), INT8_MAX + 2), _LEVELS)
        ends[:, 0], ends[:, 1:-1] = 0, np.minimum(np.ceil(edges), _LEVELS)
        number, sum_, squares = np.diff(sums.take(ends, axis=1), axis=2)
        errors = (squares + held * (held * number - 2 * sum_)).sum(1) / energy
        return dict(zip(candidates, np.maximum(errors, 0).tolist(), strict=True))

    def best_of_rows(self, rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Returns the same for each row of ``rows`` [O, ...], as far as it lies near the scale that holds the row."""
        flat = rows.reshape(len(rows), -1)
        tops = np.array([self.top(_largest(row)) for row in flat], np.int64)
        least, found = np.full(len(flat), np.inf), tops.copy()
        for finer in range(int(_CHANNEL_OCTAVES * self.density) + 1):
            scales = np.array([self.scale(int(top) - finer) for top in tops])
            steps = flat / scales[:, None].astype(np.float32)
            error = np.clip(np.rint(steps), -INT8_MAX - 1, INT8_MAX)
            error -= steps
            errors = np.einsum("ok,ok->o", error, error) * scales**2
            better = errors < least
            least, found = np.where(better, errors, least), np.where(better, tops - finer, found)
        return found


@functools.cache
def _octave(density: int, base: float) -> tuple[float, ...]:
    """The scales from ``base`` to twice that."""
    return tuple(float(np.float32(base * 2.0 ** (step / density))) for step in range(density))


GRIDS: dict[Scales, Grid] = {"power of two": Grid(_DENSITY), "free": Grid(_DENSITY)}


def squared_error(values: npt.NDArray[Any], scale: float, above: float = math.inf) -> float:
    """Returns the summed squared error of int8 with ``scale``; summing stops once it exceeds ``above``."""
    flat, total = values.reshape(-1), 0.0
    scaled, error = np.empty((2, min(_BLOCK, flat.size)), np.float64)
    for at in range(0, flat.size, _BLOCK):
        block = flat[at : at + _BLOCK]
        s, e = scaled[: block.size], error[: block.size]
        np.divide(block, scale, out=s, dtype=np.float64)
        np.rint(s, out=e)
        np.clip(e, -INT8_MAX - 1, INT8_MAX, out=e)
        np.subtract(e, s, out=e)
        total += float(np.dot(e, e)) * scale**2
        if total > above:
            break
    return total


def _blocks(
    values: npt.NDArray[Any], weights: npt.NDArray[Any] | None
) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any] | None]]:
    """Returns parts of arrays of one shape that stay in the cache."""
    if values.size <= _PART:
        yield values, weights
    elif values[0].size > _PART:
        for at in range(len(values)):
            yield from _blocks(values[at], None if weights is None else weights[at])
    else:
        size = _PART // values[0].size
        for at in range(0, len(values), size):
            yield values[at : at + size], None if weights is None else weights[at : at + size]


def _largest(values: npt.NDArray[Any]) -> float:
    """The largest absolute value, 0 of none."""
    return max(float(values.max(initial=0)), -float(values.min(initial=0)))


def quantised(values: npt.NDArray[Any], scale: float, dtype: type[np.int8 | np.int32]) -> npt.NDArray[Any]:
    """Returns ``values`` in steps of ``scale``, rounded half to even and clipped to ``dtype``."""
    flat, limits = values.reshape(-1), np.iinfo(dtype)
    steps = np.empty(flat.size, dtype)
    for at in range(0, flat.size, _BLOCK):
        block = np.divide(flat[at : at + _BLOCK], scale, dtype=np.float64)
        steps[at : at + _BLOCK] = np.clip(np.rint(block, out=block), limits.min, limits.max, out=block)
    return steps.reshape(values.shape)
