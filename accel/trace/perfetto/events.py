"""The lines of a document: events as parts of text, to be rendered many at a time."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from accel.trace.cells import Bools, Cell, Numbers, Part, by_group, decimal, encoded, fixed
from accel.trace.source import Int64

Lines = npt.NDArray[np.intp]  # numbers of lines
Phase = Literal["s", "f"]

PID = 1
LAUNCHES, HOST, UNITS = 2, 3, 4  # thread numbers, in the order of the tracks; one number more for each unit


@dataclass(frozen=True)
class Clock:
    """Cycles as the viewer's microseconds: one a cycle, or what a clock of ``mhz`` makes of them, to the nanosecond."""

    mhz: float | None

    def ticks(self, cycles: Numbers) -> Numbers:
        """Times in the smallest unit that is shown. Taken before times are subtracted, so that slices still meet."""
        if self.mhz is None:
            return cycles
        nanoseconds: Int64 = np.rint(cycles * (1000 / self.mhz)).astype(np.int64)
        return nanoseconds

    def text(self, ticks: Numbers) -> Part:
        """Ticks as microseconds."""
        return decimal(ticks) if self.mhz is None else fixed(ticks, 3)

    def at(self, cycles: Numbers) -> Part:
        """Cycles as microseconds."""
        return self.text(self.ticks(cycles))


def quoted(value: Any) -> bytes:
    """A value in JSON; in UTF-8, as Perfetto shows the escapes of other letters as they are."""
    return encoded(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def slices(
    clock: Clock, tid: Numbers, span: tuple[Numbers, Numbers], category: str, rest: Sequence[Part]
) -> list[Part]:
    """One slice a line from ``span[0]`` to ``span[1]``, cycles; ``rest`` is its name in quotes and what follows."""
    begin, end = clock.ticks(span[0]), clock.ticks(span[1])
    head = b',\n{"ph":"X","pid":%d,"cat":%s,"tid":' % (PID, quoted(category))
    times: list[Part] = [head, decimal(tid), b',"ts":', clock.text(begin), b',"dur":', clock.text(end - begin)]
    return [*times, b',"name":', *rest, b"}"]


def arrow_ends(clock: Clock, tid: Numbers, cycle: Numbers, phase: Phase, flow: tuple[str, Numbers]) -> list[Part]:
    """One end of an arrow a line: phase ``s`` where it begins, ``f`` where it ends; ``flow`` is its name and number."""
    bind = b',"bp":"e"' if phase == "f" else b""
    head = b',\n{"ph":%s%s,"pid":%d,"cat":"token","name":%s,"tid":' % (quoted(phase), bind, PID, quoted(flow[0]))
    return [head, decimal(tid), b',"ts":', clock.at(cycle), b',"id":', decimal(flow[1]), b"}"]


def counters(clock: Clock, name: str, cycle: Numbers, level: Numbers) -> list[Part]:
    """One value of a token queue a line."""
    head = b',\n{"ph":"C","pid":%d,"name":%s,"ts":' % (PID, quoted(name))
    return [head, clock.at(cycle), b',"args":{"tokens":', decimal(level), b"}}"]


def where(mask: Bools, parts: Callable[[Lines], Sequence[Part]]) -> list[Cell]:
    """A part of those lines where the mask is set: ``parts(lines)`` makes it for them."""
    if not mask.any():
        return []
    return [by_group(mask.astype(np.int8) - 1, 1, lambda _, lines: parts(lines))]
