"""The values of a tensor, counted in bins, and what int8 makes of them at any scale and zero point."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accel.frontend.quantize.scale_grid import GRIDS, INT8_MAX, OCTAVES, CalibrationMethod, Grid, Loss
from accel.util.arrays import Array

_BINS_PER_STEP = 8  # of the finest candidate scale
_BINS = 2 * 128 * 2**OCTAVES * _BINS_PER_STEP  # on either side of 0: twice what the widest candidate scale reaches
_BLOCK = 1 << 14  # elements that are counted together: they stay in the cache with the bins
ENOUGH = 1 << 17  # elements of a tensor, of all samples together: their errors are within a hundredth of those of all
_KEPT = 4 * ENOUGH  # elements: as much memory as bins take
_PLAIN = GRIDS["power of two"]
_POWER = 0.5  # the mantissa of a power of two
_PERCENTILE = 0.9999  # of the values are held, on each side
_LEVELS = 128  # of absolute values
_DIVERGENCE_BINS = 2048
_WORTH_A_LOOK = 0.8  # of the two ends' distances from 0: else the step shrinks by a tenth at most
_WORTH_A_SHIFT = 0.85  # of the error without a zero point
_CLIPPED = 4  # times the error of what a scale clips, of which other data than the samples have more
_NOTHING = 1e-11  # of the energy: what is lost where sums are subtracted
_SHIFTED_OCTAVES = 2  # below the scale that holds the whole range


class Histogram:
    """The values of a tensor in narrow bins: their number, and the sum and squared sum of how far they lie in each.

    From these follows the error of int8 at any scale, as the values of a bin are mostly rounded alike. A bin is a part
    of the finest candidate scale, so that none straddles a rounding boundary of a scale that is a power of two of it;
    where one does, its values are rounded as its middle is, which adds under a hundredth to the error. Distances are
    in widths of a bin.

    Elements are kept until the error is asked for: then the candidates are known. Of more than are kept, bins are parts
    of scales without a factor.

    Args:
        most: elements of an array that are counted, evenly spread. Those in the outer half of its range are apart, and
            all counted if they are no more: what a scale clips is few elements, and each decides.
    """

    def __init__(self, most: int = ENOUGH) -> None:
        self._most = most
        self._low = self._high = 0.0
        self._kept: list[tuple[Array, float]] = []  # elements, and how many each stands for
        self._bins: _Bins | None = None

    def add(self, value: Array) -> bool:
        """Adds the elements of an array; returns whether all are finite, and else does nothing."""
        low, high = float(value.min(initial=0)), float(value.max(initial=0))
        if not (math.isfinite(low) and math.isfinite(high)):
            return False
        self._low, self._high = min(low, self._low), max(high, self._high)
        self._kept += _chosen(value.reshape(-1), low, high, self._most)
        if sum(elements.size for elements, _ in self._kept) > _KEPT:
            self._bins = self._counted(_PLAIN)
            self._kept.clear()
        return True

    @property
    def _largest(self) -> float:
        return max(-self._low, self._high)

    def _counted(self, grid: Grid) -> "_Bins":
        """All values in bins that are a part of the finest candidate scale."""
        if self._bins is None:
            bins = _Bins(_width(grid, self._largest), 0, np.zeros((3, 1)))
        else:
            bins = self._bins.widened(_width(_PLAIN, self._largest))
        return bins.with_values(self._kept, self._low, self._high)

    def loss(self, grid: Grid, method: CalibrationMethod = "mse", *, shifts: bool = False) -> Loss:
        """Returns the energy of the values, and their error at each candidate scale.

        Args:
            grid: of the scales.
            method: how candidates are chosen: all for ``mse``; for any other the scales just wide enough for the
                range that it keeps, one for each place within the octave.
            shifts: whether a zero point may move the range of int8, where that is worth it.
        """
        bins = self._counted(grid)
        values = _Values.of(bins)
        low, high = self._held(bins, method)
        candidates = grid.candidates(self._largest)
        centred = values.errors_by_scale(grid, _tried(candidates, grid, max(-low, high) / INT8_MAX, method))
        if not shifts or not self._largest or min(-low, high) > _WORTH_A_LOOK * max(-low, high):
            return Loss(values.energy, *centred)
        step = (high - low) / (2 * INT8_MAX + 1)
        most = grid.ceiling(step) + grid.density - 1
        near = [at for at in candidates if most - _SHIFTED_OCTAVES * grid.density <= at <= most]
        moved = values.errors_by_scale(grid, _tried(near, grid, step, method), (low, high))
        better = bool(moved[0]) and min(moved[0].values()) < _WORTH_A_SHIFT * min(centred[0].values())
        return Loss(values.energy, *(moved if better else centred))

    def _held(self, bins: "_Bins", method: CalibrationMethod) -> tuple[float, float]:
        """The range of values that int8 is to hold, around 0."""
        if not self._largest:
            return 0.0, 0.0
        low, high = self._low / bins.width, self._high / bins.width
        counts = bins.sums[0]
        places = np.arange(counts.size) + bins.first + 0.5
        if method == "percentile":
            sums = np.cumsum(counts) / counts.sum()
            low = float(places[np.searchsorted(sums, 1 - _PERCENTILE)])
            high = float(places[min(np.searchsorted(sums, _PERCENTILE), sums.size - 1)])
        elif method == "entropy":
            limit = _least_divergence(np.abs(places), counts)
            low, high = max(low, -limit), min(high, limit)
        return min(low, 0.0) * bins.width, max(high, 0.0) * bins.width


@dataclass(frozen=True)
class _Bins:
    """Bins of one width.

    Attributes:
        width: of each.
        first: the number of the first; that of 0 begins at it.
        sums: the number of values in each, their distances from its beginning in widths, and the squares of these
            [3, bins].
    """

    width: float
    first: int
    sums: Array

    def widened(self, width: float) -> "_Bins":
        """Returns the same with bins of ``width``, of which this one's is a part; each joins two, or two of those.

        Zeros alone fit each width.
        """
        if self.sums.shape[1] == 1 and not self.sums[1:].any():
            return _Bins(width, self.first, self.sums)
        bins = self
        while bins.width < width:
            even = bins._extended(bins.first & ~1, bins.first + bins.sums.shape[1] - 1 | 1)
            (low, high), (low_sums, sums), (low_squares, squares) = even.sums.reshape(3, -1, 2).swapaxes(1, 2)
            joined = [low + high, (low_sums + sums + high) / 2, (low_squares + squares + 2 * sums + high) / 4]
            bins = _Bins(2 * bins.width, even.first // 2, np.stack(joined))
        return bins

    def with_values(self, kept: Sequence[tuple[Array, float]], low: float, high: float) -> "_Bins":
        """Returns the same with elements counted, of which each stands for so many, between ``low`` and ``high``."""
        limit = self.width * _BINS  # what only values beyond the widest scale exceed, which every scale clips
        bounds = [math.floor(min(max(bound, -limit), limit) / self.width) for bound in (low, high)]
        found = self._extended(*bounds)
        if kept:
            values = np.concatenate([elements for elements, _ in kept])
            found.count(values if max(-low, high) <= limit else np.clip(values, -limit, limit), _weights(kept))
        return found

    def _extended(self, first: int, last: int) -> "_Bins":
        """A copy that has bins from ``first`` to ``last`` at least."""
        size = self.sums.shape[1]
        before, after = max(self.first - first, 0), max(last - self.first - size + 1, 0)
        sums = np.zeros((3, before + size + after))
        sums[:, before : before + size] = self.sums
        return _Bins(self.width, self.first - before, sums)

    def count(self, values: Array, weights: float | Array) -> None:
        """Counts values, of which each stands for so many; there is a bin for each."""
        # by a power of two, float32 is divided exactly; all but the smallest distances are exact too
        number = np.float32 if math.frexp(self.width)[0] == _POWER else np.float64
        within, whole = np.empty((2, min(_BLOCK, values.size)), number)
        places, weighed = np.empty(within.size, np.intp), np.empty(within.size)
        for at in range(0, values.size, _BLOCK):
            size = min(_BLOCK, values.size - at)
            near, place, sums = within[:size], places[:size], weighed[:size]
            each = weights if isinstance(weights, float) else weights[at : at + size]
            np.divide(values[at : at + size], self.width, out=near, dtype=number)
            np.floor(near, out=whole[:size])
            near -= whole[:size]
            whole[:size] -= self.first
            np.copyto(place, whole[:size], casting="unsafe")
            np.add.at(self.sums[0], place, each)
            np.multiply(near, each, out=sums, dtype=np.float64)
            np.add.at(self.sums[1], place, sums)
            sums *= near
            np.add.at(self.sums[2], place, sums)


@dataclass(frozen=True)
class _Values:
    """Values in bins of one width, in which distances are measured.

    Attributes:
        sums: of the values, their distances from 0 and the squares of these in all bins before one [3, bins + 1].
        first: the bin at whose beginning 0 is.
        width: of a bin.
    """

    sums: Array
    first: int
    width: float

    @classmethod
    def of(cls, bins: _Bins) -> "_Values":
        """Returns the values in bins."""
        counts, within, squares = bins.sums
        begins = np.arange(bins.first, bins.first + counts.size, dtype=np.float64)
        sums = np.zeros((3, counts.size + 1))
        np.cumsum(counts, out=sums[0, 1:])
        np.cumsum(counts * begins + within, out=sums[1, 1:])
        np.cumsum((counts * begins + 2 * within) * begins + squares, out=sums[2, 1:])
        return cls(sums, bins.first, bins.width)

    @property
    def energy(self) -> float:
        """The sum of the squares of the values themselves."""
        return float(self.sums[2, -1]) * self.width**2

    def errors_by_scale(
        self, grid: Grid, candidates: Sequence[int], kept: tuple[float, float] | None = None
    ) -> tuple[dict[int, float], dict[int, int]]:
        """Returns the error by scale, and the zero point of it; ``kept`` is the range that one can make room for."""
        if not candidates:
            return {}, {}
        steps = grid.scales(candidates) / self.width
        points = np.zeros((len(steps), 1), np.int64)
        if kept is not None:
            points = _zero_points(kept[0] / self.width, kept[1] / self.width, steps)
        found = self._errors(np.repeat(steps, points.shape[1]), points.reshape(-1)).reshape(points.shape)
        best = found.argmin(1)[:, None]
        errors = np.take_along_axis(found, best, 1)[:, 0] * self.width**2
        zero_points = np.take_along_axis(points, best, 1)[:, 0]
        return dict(zip(candidates, errors.tolist(), strict=True)), dict(
            zip(candidates, zero_points.tolist(), strict=True)
        )

    def _errors(self, steps: Array, zero_points: Array) -> Array:
        """The squared error of int8 by step and zero point, which are [n]; what is clipped counts more.

        A bin is rounded as its middle is. The bins that are rounded alike follow each other, so that three differences
        tell of all of a level.
        """
        levels = np.arange(-INT8_MAX - 1, INT8_MAX + 1) - zero_points[:, None]
        held = np.concatenate([levels[:, :1], levels, levels[:, -1:]], 1) * steps[:, None]
        edges = np.concatenate([levels - 0.5, levels[:, -1:] + 0.5], 1) * steps[:, None] - 0.5 - self.first
        last = self.sums.shape[1] - 1
        bins = np.zeros((len(steps), held.shape[1] + 1), np.intp)
        bins[:, 1:-1], bins[:, -1] = np.clip(np.ceil(edges), 0, last), last
        counts, sums, squares = np.diff(self.sums.take(bins, axis=1), axis=2)
        each = squares + held * (held * counts - 2 * sums)
        each[:, [0, -1]] *= _CLIPPED
        errors = each.sum(1)
        return np.where(errors > _NOTHING * self.sums[2, -1], errors, 0.0)


def _width(grid: Grid, largest: float) -> float:
    """The width of bins of values up to ``largest``."""
    return grid.scale(grid.finest(largest)) / _BINS_PER_STEP


def _weights(kept: Sequence[tuple[Array, float]]) -> float | Array:
    """How many each element stands for: all, or one after the other."""
    weights = [each for _, each in kept]
    return np.repeat(weights, [elements.size for elements, _ in kept]) if len(set(weights)) > 1 else weights[0]


def _tried(candidates: Sequence[int], grid: Grid, scale: float, method: CalibrationMethod) -> Sequence[int]:
    """All candidates for ``mse``; for any other method those from ``scale``, if it is one, to an octave wider."""
    if method == "mse":
        return candidates
    least = grid.ceiling(scale) if scale > 0 else candidates[0]
    return range(least, least + grid.density)


def _chosen(flat: Array, low: float, high: float, most: int) -> list[tuple[Array, float]]:
    """Copies of the elements that tell of all, and how many each stands for; the least and the greatest are given."""
    if flat.size <= most:
        return [(flat.copy(), 1.0)]
    edge = max(-low, high) / 2
    some, outer = flat[:: _stride(flat.size, most)], _beyond(flat, edge, low, high)
    if not 0 < outer.size <= flat.size // 2:
        return [(some.copy(), flat.size / some.size)]
    inner, of_outer = some[np.abs(some) <= edge], outer[:: _stride(outer.size, most)].copy()
    if not inner.size:
        return [(some.copy(), flat.size / some.size)]
    return [(inner, (flat.size - outer.size) / inner.size), (of_outer, outer.size / of_outer.size)]


def _beyond(flat: Array, edge: float, low: float, high: float) -> Array:
    """The elements of a greater magnitude, given the least and the greatest of all."""
    above, below = flat > edge if high > edge else None, flat < -edge if low < -edge else None
    if above is not None and below is not None:
        above |= below
    chosen = below if above is None else above
    return np.asarray(flat[chosen.nonzero()[0]] if chosen is not None else flat[:0])


def _stride(elements: int, most: int) -> int:
    """The distance of elements of which there are at most so many, in a row, a column or a channel as many as in any.

    It has no divisor in common with the number of elements, and so none with an extent of the array.
    """
    stride = math.ceil(elements / most) or 1
    while math.gcd(stride, elements) > 1:
        stride += 1
    return stride


def _zero_points(low: float, high: float, steps: Array) -> Array:
    """The zero points to try for each step, the least first, some of them more than once: [steps, 3].

    One leaves room beyond the far end of a range that fits; else there is one for each end, and one between. The near
    end is that of a relu or SiLU, which no other value exceeds.
    """
    near_low = -INT8_MAX - 1 - np.floor(low / steps + 0.5)
    near_high = INT8_MAX - np.ceil(high / steps - 0.5)
    one = near_low if -low < high else near_high
    fits = near_low <= near_high
    ends = [np.where(fits, one, end) for end in (near_low, near_high, (near_low + near_high) // 2)]
    points = np.clip(np.stack(ends, 1), -INT8_MAX - 1, INT8_MAX).astype(np.int64)
    return np.take_along_axis(points, np.abs(points).argsort(1, kind="stable"), 1)


def _least_divergence(magnitudes: Array, counts: Array) -> float:
    """The limit of absolute values below which 128 levels tell of their distribution the most.

    As TensorRT chooses it: what lies beyond a limit counts at the limit, and the divergence of Kullback and Leibler is
    that of the distribution from its levels.
    """
    width = magnitudes.max() / _DIVERGENCE_BINS
    bins = np.minimum((magnitudes / width).astype(np.intp), _DIVERGENCE_BINS - 1)
    histogram = np.bincount(bins, counts, _DIVERGENCE_BINS)
    histogram[0] = 0 if histogram[1:].any() else 1  # zeros are exact at any scale
    best, found = math.inf, _DIVERGENCE_BINS
    for limit in range(_LEVELS, _DIVERGENCE_BINS + 1, _LEVELS // 8):
        clipped = histogram[:limit].copy()
        clipped[-1] += histogram[limit:].sum()
        level = np.arange(limit) * _LEVELS // limit
        filled = histogram[:limit] > 0
        means = np.bincount(level, histogram[:limit], _LEVELS) / np.maximum(np.bincount(level, filled, _LEVELS), 1)
        spread = np.where(filled, means[level], 0)
        known = (clipped > 0) & (spread > 0)
        if not known.any():
            continue
        p, q = clipped / clipped.sum(), spread / spread.sum()
        lost = p[(clipped > 0) & ~known].sum()  # of what the levels have nothing of
        divergence = float((p[known] * np.log(p[known] / q[known])).sum() + 16 * lost)
        if divergence < best:
            best, found = divergence, limit
    return float(found * width)
