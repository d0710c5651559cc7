"""What a document says of one instruction."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from accel.trace.cells import Cell, Part, by_group, decimal, lookup
from accel.trace.names import Names
from accel.trace.perfetto.events import UNITS, quoted
from accel.trace.rows import Rows
from accel.trace.source import Int64


class InstructionTexts:
    """The texts that instructions share."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._operations = [quoted(operation.name) for operation in names.operations]
        self._launches = [b',"launch":' + quoted(launch.name) for launch in names.launches]
        self._origins = [b"", *(b',"origin":' + quoted(vars(origin)) for origin in names.origins)]
        self.longest = max(map(len, [*self._operations, *self._launches, *self._origins]))

    def parts(self, rows: Rows) -> list[Part]:
        """The name of each, and its arguments."""
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


def unit_numbers(names: Names) -> Int64:
    """The unit of each operation, by its place in ``names.units``."""
    return np.array([names.units.index(operation.unit) for operation in names.operations], np.int64)


def in_turn(unit: Int64, start: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Starts and ends (n,), cut where the next of the unit begins: on a track slices must not overlap.

    They do only where one launch has begun and another's last stores still run. ``unit`` ascends.
    """
    if not len(unit):
        return start, end
    apart = unit * (int(end.max()) + 1)
    begin = np.maximum.accumulate(start + apart) - apart
    following = np.where(unit[1:] == unit[:-1], begin[1:], end[:-1])
    return begin, np.maximum(np.minimum(end, np.append(following, end[-1])), begin)


def freed(unit: Int64, end: Int64) -> Int64:
    """The end of each one's predecessor in its unit (n,), 0 of the first. ``unit`` ascends."""
    free = np.zeros(len(end), np.int64)
    free[1:] = np.where(unit[1:] == unit[:-1], end[:-1], 0)
    return free


def tracks(units: Int64) -> Int64:
    """The thread numbers of units."""
    return units + UNITS
