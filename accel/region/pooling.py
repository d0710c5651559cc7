"""Maximum over windows of a packed image: its shape, and the steps that make a tile of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from accel.region.shapes import PackedActivation, SlidingWindow
from accel.region.tile_steps import (
    AccumulatorBlock,
    LaneCapabilities,
    Load,
    Merge,
    PairOp,
    Place,
    TilePlan,
    iterations_of_steps,
)


@dataclass(frozen=True)
class Pooling:
    """``max`` over the window of each channel of ``data``, counted as a :class:`Convolution` is.

    ``window.padding`` are zeros that the loads add, and no datum is below them; ``host_padding`` (top, left, bottom,
    right) is already in ``data``, of the least int8. ``direct``: int8 data are loaded into the accumulators as they
    are; else a contraction with the identity brings them there. ``by_store``: a store takes the maximum of windows, of
    data that are loaded whole.
    """

    kind: ClassVar[str] = "pooling"

    data: PackedActivation
    window: SlidingWindow
    out_height: int
    out_width: int
    direct: bool
    host_padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    by_store: bool = False

    def over(self, operands: tuple[PackedActivation, ...]) -> Self:
        """The same over data of other pitches."""
        (data,) = operands
        return replace(self, data=data)

    @property
    def result(self) -> PackedActivation:
        """The result, without room between its rows."""
        return PackedActivation.dense(self.data.batch, self.data.blocks, self.out_height, self.out_width)

    @property
    def operands(self) -> tuple[PackedActivation, ...]:
        """The data."""
        return (self.data,)

    @property
    def weights(self) -> tuple[int, ...]:
        """Data are taken as they are."""
        return (1,)

    @property
    def pair_op(self) -> PairOp:
        """The maximum."""
        return "max"

    @property
    def factors(self) -> tuple[int, ...]:
        """Data are added, and taken off for differences."""
        return (1, -1)

    @property
    def strides(self) -> tuple[int, int]:
        """Rows and columns from one window to the next."""
        return self.window.strides

    @property
    def padding(self) -> tuple[int, int, int, int]:
        """The padding that the loads add."""
        return self.window.padding

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        return self.out_height, self.out_width

    @property
    def stored_windows(self) -> SlidingWindow | None:
        """Its own, if a store takes the maximum."""
        return self.window if self.by_store else None

    def reach(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns of the data that a tile of so many rows and columns of the result reads."""
        window = self.window
        height, width = (
            (extent - 1) * stride + (size - 1) * dilation + 1
            for extent, stride, size, dilation in zip(
                (rows, columns), window.strides, window.kernel, window.dilation, strict=True
            )
        )
        return height, width

    def plan_tile(self, rows: int, columns: int, ways: LaneCapabilities) -> TilePlan:
        """The steps for a tile of ``rows`` x ``columns`` of the result."""
        if self.by_store:
            image = AccumulatorBlock("image", *self.reach(rows, columns))
            return TilePlan([image], [Load(image, image.extents, 0, dense=True)])
        return pooling_plan(self, rows, columns, ways)


@dataclass(frozen=True)
class Taps:
    """The taps of a window along one axis that lie ``phase`` after a multiple of the stride.

    ``shifts`` are how many strides on, ascending, at equal distances.
    """

    phase: int
    shifts: tuple[int, ...]

    @property
    def span(self) -> int:
        """By how much the last tap is beyond the first, strides."""
        return self.shifts[-1] - self.shifts[0]


def taps(size: int, stride: int, dilation: int) -> list[Taps]:
    """The taps of an axis by their phase; those with most taps come first."""
    phases: dict[int, list[int]] = {}
    for tap in range(size):
        phases.setdefault(tap * dilation % stride, []).append(tap * dilation // stride)
    return sorted((Taps(phase, tuple(shifts)) for phase, shifts in phases.items()), key=lambda t: -len(t.shifts))


_SIGNS = (0, 1)  # the numbers of the factors 1 and -1


def pooling_plan(pooling: Pooling, rows: int, columns: int, ways: LaneCapabilities) -> TilePlan:
    """The steps for a tile of ``rows`` x ``columns`` of the result."""
    return _Planner(pooling, rows, columns, ways).plan()


class _Planner:
    def __init__(self, pooling: Pooling, rows: int, columns: int, ways: LaneCapabilities) -> None:
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
            best = min(ways, key=lambda way: iterations_of_steps(way.steps, 1) + len(way.boxes))
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

    def _apart(self, columns: Taps, result: AccumulatorBlock) -> TilePlan:
        """The maximum over columns of one phase in a box of its own, and then with the result."""
        plan = TilePlan()
        box = self._columns(plan, columns)
        self._widen(plan, box, columns.shifts, self._size, axis=1)
        plan.steps.append(Merge(result, box, self._size, "max"))
        return plan

    def _differing(self, columns: Taps, result: AccumulatorBlock) -> TilePlan:
        """The same tap by tap, without a box."""
        plan = TilePlan()
        for rows in self._vertical:
            for q in rows.shifts:
                for p in columns.shifts:
                    place = self._first(rows, q), self._first(columns, p, axis=1)
                    plan.differ(result, self._size, "max", 0, _SIGNS, place)
        return plan

    def _columns(self, plan: TilePlan, columns: Taps) -> AccumulatorBlock:
        """The maximum over the rows of the window, for columns of one phase."""
        size = self._size[0], self._size[1] + columns.span
        left = self._first(columns, columns.shifts[0], axis=1)
        first, *others = self._vertical

        def brought(rows: Taps) -> AccumulatorBlock:
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

    def _brought(self, plan: TilePlan, size: Place, first: Place) -> AccumulatorBlock:
        self._boxes += 1
        box = AccumulatorBlock(f"box{self._boxes}", *size)
        plan.bring(box, self._ways, 0, 0, first)
        return box

    def _widen(self, plan: TilePlan, box: AccumulatorBlock, shifts: Sequence[int], size: Place, *, axis: int) -> None:
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
