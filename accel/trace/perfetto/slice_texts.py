"""The lines of a document: events and instructions as parts of text that are rendered many at a time."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from accel.trace.text_columns import Cell, Part, by_group, decimal, encoded, fixed, lookup
from accel.trace.trace_names import TraceNames
from accel.trace.trace_rows import Rows
from accel.util.arrays import Bools, Int64, Integers

Lines = npt.NDArray[np.intp]  # numbers of lines
Phase = Literal["s", "f"]

PID = 1
LAUNCHES, HOST, UNITS = 2, 3, 4  # thread numbers, in the order of the tracks; one number more for each unit


@dataclass(frozen=True)
class Clock:
    """Cycles as the viewer's microseconds: one a cycle, or what a clock of ``mhz`` makes of them, to the nanosecond."""

    mhz: float | None

    def ticks(self, cycles: Integers) -> Integers:
        """Returns times in the smallest unit shown; it is applied before times are subtracted, so that slices meet."""
        if self.mhz is None:
            return cycles
        nanoseconds: Int64 = np.rint(cycles * (1000 / self.mhz)).astype(np.int64)
        return nanoseconds

    def number(self, ticks: int) -> int | float:
        """Returns ticks in microseconds."""
        return ticks if self.mhz is None else ticks / 1000

    def text(self, ticks: Integers) -> Part:
        """Returns the text of ticks, in microseconds."""
        return decimal(ticks) if self.mhz is None else fixed(ticks, 3)

    def at(self, cycles: Integers) -> Part:
        """Returns the text of cycles, in microseconds."""
        return self.text(self.ticks(cycles))


def quoted(value: Any) -> bytes:
    """Returns a value in JSON; in UTF-8, as Perfetto shows the escapes of other letters as they are."""
    return encoded(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def slices(
    clock: Clock, tid: Integers, span: tuple[Integers, Integers], category: str, rest: Sequence[Part]
) -> list[Part]:
    """Returns lines of one slice each from ``span[0]`` to ``span[1]``, cycles.

    ``rest`` is the slice's name in quotes and all that follows it in the line.
    """
    begin, end = clock.ticks(span[0]), clock.ticks(span[1])
    head = b',\n{"ph":"X","pid":%d,"cat":%s,"tid":' % (PID, quoted(category))
    times: list[Part] = [head, decimal(tid), b',"ts":', clock.text(begin), b',"dur":', clock.text(end - begin)]
    return [*times, b',"name":', *rest, b"}"]


def arrow_ends(
    clock: Clock, tid: Integers, cycle: Integers, phase: Phase, flow: tuple[str, str, Integers]
) -> list[Part]:
    """Returns lines of one end of an arrow each: its begin in phase ``s``, its end in phase ``f``.

    ``flow`` is the arrow's name, category and number.
    """
    bind = b',"bp":"e"' if phase == "f" else b""
    name, category, number = flow
    words = quoted(phase), bind, PID, quoted(category), quoted(name)
    head = b',\n{"ph":%s%s,"pid":%d,"cat":%s,"name":%s,"tid":' % words
    return [head, decimal(tid), b',"ts":', clock.at(cycle), b',"id":', decimal(number), b"}"]


def counters(clock: Clock, name: str, cycle: Integers, level: Integers) -> list[Part]:
    """Returns lines of one value of a token queue each."""
    head = b',\n{"ph":"C","pid":%d,"name":%s,"ts":' % (PID, quoted(name))
    return [head, clock.at(cycle), b',"args":{"tokens":', decimal(level), b"}}"]


def where(mask: Bools, parts: Callable[[Lines], Sequence[Part]]) -> list[Cell]:
    """Returns a part for the lines where ``mask`` is set; ``parts(lines)`` returns it for them."""
    if not mask.any():
        return []
    return [by_group(mask.astype(np.int8) - 1, 1, lambda _, lines: parts(lines))]


class InstructionTexts:
    """The texts that instructions share."""

    def __init__(self, names: TraceNames) -> None:
        self._names = names
        self._operations = [quoted(operation.name) for operation in names.operations]
        self._launches = [b',"launch":' + quoted(launch.name) for launch in names.launches]
        self._origins = [b"", *(b',"origin":' + quoted(vars(origin)) for origin in names.origins)]
        self.longest = max(map(len, [*self._operations, *self._launches, *self._origins]))

    def parts(self, rows: Rows) -> list[Part]:
        """Returns the name of each, and its arguments."""
        return [
            lookup(self._operations, rows["kind"]),
            b',"args":{"index":',
            decimal(rows.index),
            lookup(self._launches, rows["launch"]),
            b',"fields":{',
            [self._fields(rows)],
            b"}",
            lookup(self._origins, rows["origin"] + 1),
            b"}",
        ]

    def _fields(self, rows: Rows) -> Cell:
        def parts(kind: int, lines: npt.NDArray[np.intp]) -> Iterator[Part]:
            for place, name in enumerate(self._names.operations[kind].fields):
                yield (b"," if place else b"") + quoted(name) + b":"
                yield decimal(rows[f"field/{name}"][lines])

        return by_group(rows["kind"], len(self._names.operations), lambda kind, lines: list(parts(kind, lines)))


def in_turn(unit: Int64, start: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Returns the starts and ends (n,), cut where the unit's next instruction begins: slices must not overlap.

    Instructions overlap only where a launch has begun while the last stores of another still run. ``unit`` ascends.
    """
    if not len(unit):
        return start, end
    apart = unit * (int(end.max()) + 1)
    begin = np.maximum.accumulate(start + apart) - apart
    following = np.where(unit[1:] == unit[:-1], begin[1:], end[:-1])
    return begin, np.maximum(np.minimum(end, np.append(following, end[-1])), begin)


def freed(unit: Int64, end: Int64) -> Int64:
    """Returns the end of each instruction's predecessor in its unit (n,), 0 for the first. ``unit`` ascends."""
    free = np.zeros(len(end), np.int64)
    free[1:] = np.where(unit[1:] == unit[:-1], end[:-1], 0)
    return free


def tracks(units: Int64) -> Int64:
    """Returns the thread numbers of units."""
    return units + UNITS
