"""How a tile of a maximum over windows is made: what is brought into the accumulators, and which maxima are taken.

The window is separable: first along the rows, then along the columns. Taps that lie a stride apart share what was
brought: their maximum is taken in place, by doubling. What is used once need not be brought at all, as
``max(a, b) = max(a - b, 0) + b``: two contractions, and one operation with an immediate.
"""

from collections.abc import Sequence

from accel.lowering.pooling import Pooling, Taps, taps
from accel.lowering.steps import Box, Merge, Place, TilePlan, Ways, iterations

_SIGNS = (0, 1)  # the numbers of the factors 1 and -1


def pooling_plan(pooling: Pooling, rows: int, columns: int, ways: Ways) -> TilePlan:
    """The steps for a tile of ``rows`` x ``columns`` of the result."""
    return _Planner(pooling, rows, columns, ways).plan()


class _Planner:
    def __init__(self, pooling: Pooling, rows: int, columns: int, ways: Ways) -> None:
        window = pooling.window
        self._strides = window.strides
        self._vertical, self._horizontal = (
            taps(*numbers) for numbers in zip(window.kernel, window.strides, window.dilation, strict=True)
        )
        self._size = rows, columns
        self._ways = ways
        self._boxes = 0

    def plan(self) -> TilePlan:
        """The steps, by columns of one phase after the other."""
        if not self._ways.pair:
            return self._one_by_one()
        first, *others = self._horizontal
        plan = TilePlan()
        result = self._columns(plan, first)
        self._widen(plan, result, first.shifts, self._size, axis=1)
        for other in others:
            ways = [self._apart(other, result)]
            if self._ways.difference:
                ways.append(self._differing(other, result))
            best = min(ways, key=lambda way: iterations(way.steps, 1) + len(way.boxes))
            plan.boxes += best.boxes
            plan.steps += best.steps
        return plan

    def _one_by_one(self) -> TilePlan:
        """Every tap but the first by its difference."""
        plan = TilePlan()
        places = [(self._first(v, q), self._first(h, p, axis=1)) for v in self._vertical for q in v.shifts
                  for h in self._horizontal for p in h.shifts]  # fmt: skip
        box = self._brought(plan, self._size, places[0])
        for place in places[1:]:
            plan.differ(box, self._size, "max", 0, _SIGNS, place)
        return plan

    def _apart(self, columns: Taps, result: Box) -> TilePlan:
        """The maximum over columns of one phase in a box of its own, and then with the result."""
        plan = TilePlan()
        box = self._columns(plan, columns)
        self._widen(plan, box, columns.shifts, self._size, axis=1)
        plan.steps.append(Merge(result, box, self._size, "max"))
        return plan

    def _differing(self, columns: Taps, result: Box) -> TilePlan:
        """The same tap by tap, without a box."""
        plan = TilePlan()
        for rows in self._vertical:
            for q in rows.shifts:
                for p in columns.shifts:
                    place = self._first(rows, q), self._first(columns, p, axis=1)
                    plan.differ(result, self._size, "max", 0, _SIGNS, place)
        return plan

    def _columns(self, plan: TilePlan, columns: Taps) -> Box:
        """The maximum over the rows of the window, for columns of one phase."""
        size = self._size[0], self._size[1] + columns.span
        left = self._first(columns, columns.shifts[0], axis=1)
        first, *others = self._vertical

        def brought(rows: Taps) -> Box:
            place = self._first(rows, rows.shifts[0]), left
            box = self._brought(plan, (size[0] + rows.span, size[1]), place)
            self._widen(plan, box, rows.shifts, size, axis=0)
            return box

        box = brought(first)
        for rows in others:
            if self._ways.difference and len(rows.shifts) == 1:
                plan.differ(box, size, "max", 0, _SIGNS, (self._first(rows, rows.shifts[0]), left))
            else:
                plan.steps.append(Merge(box, brought(rows), size, "max"))
        return box

    def _brought(self, plan: TilePlan, size: Place, first: Place) -> Box:
        self._boxes += 1
        box = Box(f"box{self._boxes}", *size)
        plan.bring(box, self._ways, 0, 0, first)
        return box

    def _widen(self, plan: TilePlan, box: Box, shifts: Sequence[int], size: Place, *, axis: int) -> None:
        """The maximum over taps that lie equally far apart, in place: each pass doubles how many there are."""
        count = 1
        while count < len(shifts):
            step = min(count, len(shifts) - count)
            count += step
            distance = shifts[1] - shifts[0]
            more = (len(shifts) - count) * distance
            extents = (size[0] + more, size[1]) if axis == 0 else (size[0], size[1] + more)
            shift = (step * distance, 0) if axis == 0 else (0, step * distance)
            plan.steps.append(Merge(box, box, extents, "max", shift))

    def _first(self, along: Taps, shift: int, axis: int = 0) -> int:
        return along.phase + shift * self._strides[axis]
