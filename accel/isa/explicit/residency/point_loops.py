"""Loops of points: a sequence of operand addresses as executions of an instruction with hardware loops."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, HardwareLoop
from accel.isa.explicit.operations import InstructionOperation
from accel.util.arrays import Int64

_LAST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class LoopedPoints:
    """An execution: the first address (k,) of each of k tensors, and for each loop its extent and their steps (k,)."""

    begin: Int64
    extents: tuple[int, ...]
    steps: tuple[Int64, ...]


class LoopShapes:
    """What the hardware loops of an operation allow, of whose tensors the addresses are given in their order."""

    def __init__(self, accelerator: Accelerator, sort: InstructionOperation) -> None:
        assert isinstance(sort.instruction, Compute)
        self._loops = sort.instruction.loops
        self._most = [_most(accelerator, sort.instruction, loop) for loop in self._loops]
        self._names = [tensor.name for tensor in sort.tensors]
        self._limits = [
            [_limits(accelerator, sort.instruction, loop, name) for name in self._names] for loop in self._loops
        ]

    def executions(self, points: Int64) -> Iterator[LoopedPoints]:
        """Yields executions that make ``points`` (n, k) in this order, the longest first ones.

        Where no loop makes a step, as where no field holds it, each point behind it begins an execution.
        """
        if not self._loops:
            yield from (LoopedPoints(point, (), ()) for point in points)
            return
        for begin, shape in _nests(points, len(self._loops)):
            yield from self._placed(begin, shape)

    def _placed(self, begin: Int64, shape: Sequence[tuple[int, Int64]]) -> Iterator[LoopedPoints]:
        """A nest, innermost loop first, in the machine's loops; cut where an extent or a step is beyond its field."""
        levels = [(extent, step) for extent, step in shape if extent > 1]
        chosen = self._assigned(levels)
        if chosen is None:
            *within, (extent, step) = levels
            for number in range(extent):
                yield from self._placed(begin + number * step, within)
            return
        none = np.zeros_like(begin)
        extents, steps = [1] * len(self._loops), [none] * len(self._loops)
        for loop, (extent, step) in zip(chosen, levels, strict=True):
            extents[loop], steps[loop] = extent, step
        yield from self._cut(LoopedPoints(begin, tuple(extents), tuple(steps)))

    def _assigned(self, levels: Sequence[tuple[int, Int64]]) -> list[int] | None:
        """The loop of each level, innermost first: the innermost that allows its steps and is around the one before."""
        chosen: list[int] = []
        for _, step in levels:
            below = chosen[-1] if chosen else len(self._loops)
            loop = next((loop for loop in reversed(range(below)) if self._allows(loop, step)), None)
            if loop is None:
                return None
            chosen.append(loop)
        return chosen

    def _allows(self, loop: int, steps: Int64) -> bool:
        limits = self._limits[loop]
        return all(low <= step < high for step, (low, high) in zip(steps.tolist(), limits, strict=True))

    def _cut(self, points: LoopedPoints) -> Iterator[LoopedPoints]:
        """Executions of no more iterations than each loop makes, in the order of the points."""
        beyond = [loop for loop, most in enumerate(self._most) if points.extents[loop] > most]
        if not beyond:
            yield points
            return
        loop = next(loop for loop, extent in enumerate(points.extents) if extent > 1)
        most = self._most[loop] if beyond == [loop] else 1
        for first in range(0, points.extents[loop], most):
            extents = list(points.extents)
            extents[loop] = min(most, points.extents[loop] - first)
            begin = points.begin + first * points.steps[loop]
            yield from self._cut(LoopedPoints(begin, tuple(extents), points.steps))


def _nests(points: Int64, depth: int) -> Iterator[tuple[Int64, list[tuple[int, Int64]]]]:
    """Nests of loops that make the points one after the other: where each begins, and its loops, innermost first."""
    none = np.zeros(points.shape[1], np.int64)
    nests: list[tuple[Int64, list[tuple[int, Int64]]]] = []
    at, count = 0, len(points)
    change = np.diff(points, axis=0)
    same = np.all(change[1:] == change[:-1], axis=1)
    breaks = np.append(np.flatnonzero(~same), _LAST)
    while at < count:
        if at == count - 1:
            nests.append((points[at], [(1, none)]))
            break
        until = int(breaks[np.searchsorted(breaks, at)])
        length = min(until + 2, count) - at
        nests.append((points[at], [(length, change[at])]))
        at += length
    for _ in range(1, depth):
        nests = list(_around(nests, none))
    yield from nests


def _around(
    nests: Sequence[tuple[Int64, list[tuple[int, Int64]]]], none: Int64
) -> Iterator[tuple[Int64, list[tuple[int, Int64]]]]:
    """Nests in one loop more: those alike that begin at equal distances are one."""
    at = 0
    while at < len(nests):
        begin, shape = nests[at]
        end, step = at + 1, none
        while end < len(nests) and _alike(shape, nests[end][1]):
            distance = nests[end][0] - nests[end - 1][0]
            if end == at + 1:
                step = distance
            elif (distance != step).any():
                break
            end += 1
        yield begin, [*shape, (end - at, step if end > at + 1 else none)]
        at = end


def _alike(one: list[tuple[int, Int64]], other: list[tuple[int, Int64]]) -> bool:
    return all(
        extent == its and (extent == 1 or bool((step == step_of).all()))
        for (extent, step), (its, step_of) in zip(one, other, strict=True)
    )


def _most(accelerator: Accelerator, compute: Compute, loop: HardwareLoop) -> int:
    names = (loop.extent, *loop.repeated_in)
    most = min(accelerator.field(compute, name).limits[1] - 1 for name in names)
    return min(most, loop.limit or most)


def _limits(accelerator: Accelerator, compute: Compute, loop: HardwareLoop, name: str) -> tuple[int, int]:
    """The steps that a tensor may have in a loop, as a half-open range."""
    if name in loop.factors:
        return accelerator.field(compute, loop.factors[name]).limits
    step = loop.steps.get(name, 0)
    return step, step + 1


def points_of(begins: Sequence[int], extents: Sequence[int], steps: Sequence[Sequence[int]]) -> Int64:
    """Returns the addresses (n, k) that an execution makes, in its order; loops, of k steps, are outermost first."""
    points = np.array(begins, np.int64)[np.newaxis]
    for extent, step in zip(extents, steps, strict=True):
        there = np.arange(extent, dtype=np.int64)[:, np.newaxis] * np.array(step, np.int64)
        points = (points[:, np.newaxis] + there[np.newaxis]).reshape(-1, len(begins))
    return points


def fields_of(sort: InstructionOperation, points: LoopedPoints) -> Iterator[tuple[str, int]]:
    """Yields the fields of an execution: addresses, extents and steps."""
    assert isinstance(sort.instruction, Compute)
    for tensor, at in zip(sort.tensors, points.begin.tolist(), strict=True):
        yield tensor.address, at
    for loop, extent, steps in zip(sort.instruction.loops, points.extents, points.steps, strict=True):
        yield from ((name, extent) for name in (loop.extent, *loop.repeated_in))
        for tensor, step in zip(sort.tensors, steps.tolist(), strict=True):
            if tensor.name in loop.factors:
                yield loop.factors[tensor.name], step


def has_own_fields(sort: InstructionOperation) -> bool:
    """Returns whether each address, extent and step of an operation has a field of its own."""
    assert isinstance(sort.instruction, Compute)
    names = [tensor.address for tensor in sort.tensors]
    for loop in sort.instruction.loops:
        own = {tensor.name for tensor in sort.tensors}
        names += [loop.extent, *loop.repeated_in, *(step for name, step in loop.factors.items() if name in own)]
    return len(set(names)) == len(names)
