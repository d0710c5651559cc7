"""The values of a tensor, counted in bins, and what int8 makes of them at any scale and zero point."""

import math
from dataclasses import dataclass

import numpy as np

from accel.frontend.quantize.scale_grid import INT8_MAX, OCTAVES, CalibrationMethod, Grid, Loss
from accel.util.arrays import Array

_BINS_PER_STEP = 8  # of the finest candidate scale
_BINS = 2 * 128 * 2**OCTAVES * _BINS_PER_STEP  # on either side of 0: twice what the widest candidate scale reaches
_BLOCK = 1 << 17  # elements that are counted together, as many as stay in the cache
ENOUGH = 1 << 18  # elements of a tensor, of all samples together: their errors are within a hundredth of those of all
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

    Args:
        grid: of the scales.
        most: elements of an array that are counted, evenly spread. Those in the outer half of its range are apart, and
            all counted if they are no more: what a scale clips is few elements, and each decides.
    """

    def __init__(self, grid: Grid, most: int = ENOUGH) -> None:
        self._grid = grid
        self._most = most
        self._low = self._high = 0.0
        self._largest = 0.0
        self._width = self._width_for(0.0)
        self._first = 0  # the bin of 0 begins at it
        self._sums = np.zeros((3, 1))

    def add(self, value: Array) -> bool:
        """Counts the elements of an array; returns whether all are finite, and else does nothing."""
        low, high = float(value.min(initial=0)), float(value.max(initial=0))
        if not (math.isfinite(low) and math.isfinite(high)):
            return False
        self._low, self._high = min(low, self._low), max(high, self._high)
        if max(-low, high) > self._largest:
            self._widen(max(-low, high))
        self._extend(math.floor(max(low, -self._limit) / self._width), math.floor(min(high, self._limit) / self._width))
        flat = value.reshape(-1)
        if flat.size <= self._most:
            self._count(flat, 1)
            return True
        edge = max(-low, high) / 2
        some, outer = flat[:: _stride(flat.size, self._most)], _beyond(flat, edge, low, high)
        if not 0 < outer.size <= flat.size // 2:
            self._count(some, flat.size / some.size)
            return True
        inner = some[np.abs(some) <= edge]
        of_outer = outer[:: _stride(outer.size, self._most)]
        self._count(inner, (flat.size - outer.size) / inner.size)
        self._count(of_outer, outer.size / of_outer.size)
        return True

    @property
    def _limit(self) -> float:
        """What only values beyond the widest scale exceed, which every scale clips."""
        return float(self._width * _BINS)

    def _count(self, flat: Array, each: float) -> None:
        """Counts elements, of which each stands for so many."""
        buffers, bins = np.empty((2, min(_BLOCK, flat.size))), np.empty(min(_BLOCK, flat.size), np.intp)
        clips = self._largest > self._limit
        for at in range(0, flat.size, _BLOCK):
            block = flat[at : at + _BLOCK]
            if clips:
                block = np.clip(block, -self._limit, self._limit)
            within, whole = buffers[:, : block.size]
            np.divide(block, self._width, out=within, dtype=np.float64)
            np.floor(within, out=whole)
            within -= whole
            whole -= self._first
            of_block = bins[: block.size]
            np.copyto(of_block, whole, casting="unsafe")
            self._sums[0] += each * np.bincount(of_block, minlength=self._sums.shape[1])
            self._sums[1] += each * np.bincount(of_block, within, self._sums.shape[1])
            within *= within
            self._sums[2] += each * np.bincount(of_block, within, self._sums.shape[1])

    def loss(self, method: CalibrationMethod = "mse", *, shifts: bool = False) -> Loss:
        """Returns the energy of the values, and their error at each candidate scale.

        Args:
            method: how candidates are chosen: all for ``mse``; for any other the scales just wide enough for the
                range that it keeps, one for each place within the octave.
            shifts: whether a zero point may move the range of int8, where that is worth it.
        """
        values = _Values.of(self._sums, self._first)
        energy = values.energy * self._width**2
        low, high = self._kept(method)
        centred = self._errors(values, max(-low, high) / INT8_MAX, None, method)
        if not shifts or not self._largest or min(-low, high) > _WORTH_A_LOOK * max(-low, high):
            return Loss(energy, *centred)
        moved = self._errors(values, (high - low) / (2 * INT8_MAX + 1), (low, high), method)
        better = bool(moved[0]) and min(moved[0].values()) < _WORTH_A_SHIFT * min(centred[0].values())
        return Loss(energy, *(moved if better else centred))

    def _errors(
        self, values: "_Values", scale: float, kept: tuple[float, float] | None, method: CalibrationMethod
    ) -> tuple[dict[int, float], dict[int, int]]:
        """The error by scale, and the zero point of it; ``kept`` is the range that a zero point can make room for."""
        candidates = self._grid.candidates(self._largest)
        if method != "mse":
            least = self._grid.ceiling(scale) if scale > 0 else candidates[0]
            candidates = [least + finer for finer in range(self._grid.density)]
        elif kept is not None:
            most = self._grid.ceiling(scale) + self._grid.density - 1
            candidates = [at for at in candidates if most - _SHIFTED_OCTAVES * self._grid.density <= at <= most]
        steps = {index: self._grid.scale(index) / self._width for index in candidates}
        tried = [
            (index, point)
            for index, step in steps.items()
            for point in ([0] if kept is None else _zero_points(kept[0] / self._width, kept[1] / self._width, step))
        ]
        found = values.errors(np.array([steps[index] for index, _ in tried]), np.array([point for _, point in tried]))
        errors, zero_points = dict[int, float](), dict[int, int]()
        for (index, point), error in zip(tried, (found * self._width**2).tolist(), strict=True):
            if error < errors.get(index, math.inf):
                errors[index], zero_points[index] = error, point
        return errors, zero_points

    def _kept(self, method: CalibrationMethod) -> tuple[float, float]:
        """The range of values that int8 is to hold, around 0."""
        if not self._largest:
            return 0.0, 0.0
        low, high = self._low / self._width, self._high / self._width
        counts = self._sums[0]
        places = np.arange(counts.size) + self._first + 0.5
        if method == "percentile":
            sums = np.cumsum(counts) / counts.sum()
            low = float(places[np.searchsorted(sums, 1 - _PERCENTILE)])
            high = float(places[min(np.searchsorted(sums, _PERCENTILE), sums.size - 1)])
        elif method == "entropy":
            limit = _least_divergence(np.abs(places), counts)
            low, high = max(low, -limit), min(high, limit)
        return min(low, 0.0) * self._width, max(high, 0.0) * self._width

    def _width_for(self, largest: float) -> float:
        return self._grid.scale(self._grid.finest(largest)) / _BINS_PER_STEP

    def _widen(self, largest: float) -> None:
        """Join bins in pairs, as wider scales become candidates; the zeros before any other value fit each width."""
        width, zeros = self._width_for(largest), not self._largest
        while not zeros and self._width < width:
            self._extend(self._first & ~1, self._first + self._sums.shape[1] - 1 | 1)
            (low, high), (low_sums, sums), (low_squares, squares) = self._sums.reshape(3, -1, 2).swapaxes(1, 2)
            self._sums = np.stack(
                [low + high, (low_sums + sums + high) / 2, (low_squares + squares + 2 * sums + high) / 4]
            )
            self._first //= 2
            self._width *= 2
        self._largest, self._width = largest, width

    def _extend(self, first: int, last: int) -> None:
        """Have bins from ``first`` to ``last`` at least."""
        size = self._sums.shape[1]
        before, after = max(self._first - first, 0), max(last - self._first - size + 1, 0)
        if before or after:
            known, self._sums = self._sums, np.zeros((3, before + size + after))
            self._sums[:, before : before + size] = known
            self._first -= before


@dataclass(frozen=True)
class _Values:
    """Values in bins of one width, in which distances are measured.

    Attributes:
        sums: of the values, their distances from 0 and the squares of these in all bins before one [3, bins + 1].
        first: the bin at whose beginning 0 is.
    """

    sums: Array
    first: int

    @classmethod
    def of(cls, of_bins: Array, first: int) -> "_Values":
        """Returns the values of bins: their numbers, distances from the beginnings of their bins, and squares."""
        counts, within, squares = of_bins
        begins = np.arange(first, first + counts.size, dtype=np.float64)
        sums = np.zeros((3, counts.size + 1))
        np.cumsum(counts, out=sums[0, 1:])
        np.cumsum(counts * begins + within, out=sums[1, 1:])
        np.cumsum((counts * begins + 2 * within) * begins + squares, out=sums[2, 1:])
        return cls(sums, first)

    @property
    def energy(self) -> float:
        """The sum of the squares."""
        return float(self.sums[2, -1])

    def errors(self, steps: Array, zero_points: Array) -> Array:
        """Returns the squared error of int8 by step and zero point, which are [n]; what is clipped counts more.

        A bin is rounded as its middle is. The bins that are rounded alike follow each other, so that three differences
        tell of all of a level.
        """
        levels = np.arange(-INT8_MAX - 1, INT8_MAX + 1) - zero_points[:, None]
        held = np.concatenate([levels[:, :1], levels, levels[:, -1:]], 1) * steps[:, None]
        edges = np.concatenate([levels - 0.5, levels[:, -1:] + 0.5], 1) * steps[:, None] - 0.5 - self.first
        last = self.sums.shape[1] - 1
        bins = np.zeros((len(steps), held.shape[1] + 1), np.intp)
        bins[:, 1:-1], bins[:, -1] = np.clip(np.ceil(edges), 0, last), last
        counts, sums, squares = np.diff(self.sums[:, bins], axis=2)
        each = squares + held * (held * counts - 2 * sums)
        each[:, [0, -1]] *= _CLIPPED
        errors = each.sum(1)
        return np.where(errors > _NOTHING * self.energy, errors, 0.0)


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


def _zero_points(low: float, high: float, step: float) -> list[int]:
    """The zero points to try, the least first.

    One leaves room beyond the far end of a range that fits; else there is one for each end, and one between. The near
    end is that of a relu or SiLU, which no other value exceeds.
    """
    near_low, near_high = -INT8_MAX - 1 - math.floor(low / step + 0.5), INT8_MAX - math.ceil(high / step - 0.5)
    fits = near_low <= near_high
    points = {near_low if -low < high else near_high} if fits else {near_low, near_high, (near_low + near_high) // 2}
    return sorted({min(max(point, -INT8_MAX - 1), INT8_MAX) for point in points}, key=abs)


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
