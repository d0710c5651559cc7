"""A document in full: a slice an instruction, a slice a stall, arrows for tokens."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from accel.trace.cells import Part, pack, render
from accel.trace.index import tokens_of
from accel.trace.perfetto.events import Clock, Lines, Phase, arrow_ends, quoted, slices, where
from accel.trace.perfetto.instructions import InstructionTexts, tracks, unit_numbers
from accel.trace.perfetto.tokens import Arrows, Levels
from accel.trace.perfetto.view import View
from accel.trace.rows import Rows
from accel.trace.source import Int64, step_for

MEMORY = "memory"


def fits(view: View, most: int) -> bool:
    """Whether the document in full has at most ``most`` events. It stops to count when it knows."""
    names = view.source.names
    found = len(names.queues)
    for rows in view.stretches():
        inside = view.inside(rows)
        marks = [rows[f"wait/{cause}"] > 0 for cause in names.causes]
        # a level and an end of an arrow
        marks += 2 * [*tokens_of(rows, "push"), *tokens_of(rows, "pop")]
        found += int(inside.sum()) + sum(int((mask & inside).sum()) for mask in marks)
        if found > most:
            return False
    return True


@dataclass(frozen=True)
class Full:
    """The rows that are shown, unit by unit; the end of each one's predecessor; their arrows; the queues' levels."""

    rows: Rows
    units: Int64
    free: Int64
    pushes: Int64
    pops: Int64
    levels: Levels

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def instructions(self) -> int:
        """How many are shown."""
        return len(self)

    def lines(self, clock: Clock) -> Iterator[bytes]:
        """The document's lines."""
        texts = InstructionTexts(self.rows.names)
        step = step_for(texts.longest)
        for begin in range(0, len(self), step):
            yield _lines(self.slice(begin, begin + step), texts, clock)
        yield from self.levels.lines(clock)

    def slice(self, begin: int, end: int) -> "Full":
        """Some of the rows, and what belongs to them."""
        cut = slice(begin, end)
        arrows = self.pushes[:, cut], self.pops[:, cut]
        return Full(self.rows.take(cut), self.units[cut], self.free[cut], *arrows, self.levels)


def collect(view: View) -> Full:
    """Everything that the window shows."""
    arrows, levels = Arrows(view), Levels(view)
    shown = []
    for rows in view.stretches():
        inside = view.inside(rows)
        arrows.add(rows, inside)
        levels.add(rows)
        shown.append(rows.take(np.flatnonzero(inside)))
    rows = Rows.joined(view.source.names, shown)
    units = unit_numbers(view.source.names)[rows["kind"]]
    order = np.argsort(units, kind="stable")
    rows, units = rows.take(order), units[order]
    free = np.zeros(len(rows), np.int64)
    free[1:] = np.where(units[1:] == units[:-1], rows["end"][:-1], 0)
    pushes, pops = arrows.numbers()
    return Full(rows, units, free, pushes[:, order], pops[:, order], levels)


def _lines(shown: Full, texts: InstructionTexts, clock: Clock) -> bytes:
    """For each instruction: its stalls, itself, arrows that end in it, its wait for memory, arrows that begin in it.

    So times never go back on a track.
    """
    rows, tid = shown.rows, tracks(shown.units)
    start, end = rows["start"].astype(np.int64), rows["end"].astype(np.int64)
    parts: list[Part] = [*_stalls(shown, clock)]
    parts += slices(clock, tid, (start, end), "instruction", texts.parts(rows))
    parts += _arrows(shown, start, "f", clock)
    parts += _memory(rows, tid, clock)
    parts += _arrows(shown, np.maximum(end - 1, start), "s", clock)
    return pack(render(parts, len(rows)))


def _stalls(shown: Full, clock: Clock) -> Iterator[Part]:
    """The waits one after the other, the last up to the instruction's start; none before the unit was free."""
    rows, tid = shown.rows, tracks(shown.units)
    causes = [cause for cause in rows.names.causes if cause != MEMORY]
    start = rows["start"].astype(np.int64)
    begin = start - sum(rows[f"wait/{cause}"].astype(np.int64) for cause in causes)
    for cause in causes:
        end = begin + rows[f"wait/{cause}"]
        yield _stall(clock, tid, (np.maximum(begin, shown.free), np.maximum(end, shown.free)), cause)
        begin = end


def _memory(rows: Rows, tid: Int64, clock: Clock) -> Iterator[Part]:
    """The wait for memory, from a cycle after the start: when exactly it was, the trace does not say."""
    if MEMORY not in rows.names.causes:
        return
    start, end = rows["start"].astype(np.int64), rows["end"].astype(np.int64)
    wait = np.minimum(rows[f"wait/{MEMORY}"], end - start)
    begin = start + np.minimum(end - start - wait, 1)
    yield _stall(clock, tid, (begin, begin + wait), MEMORY)


def _stall(clock: Clock, tid: Int64, span: tuple[Int64, Int64], cause: str) -> Part:
    """A slice where it would not be empty."""
    begin, end = span

    def parts(lines: Lines) -> list[Part]:
        return slices(clock, tid[lines], (begin[lines], end[lines]), "stall", [quoted(f"wait {cause}")])

    return where(end > begin, parts)


def _arrows(shown: Full, cycle: Int64, phase: Phase, clock: Clock) -> Iterator[Part]:
    tid = tracks(shown.units)
    numbers = shown.pushes if phase == "s" else shown.pops
    for queue, number in zip(shown.rows.names.queues, numbers, strict=True):

        def ends(lines: Lines, name: str = queue.name, number: Int64 = number) -> list[Part]:
            return arrow_ends(clock, tid[lines], cycle[lines], phase, (name, number[lines]))

        yield where(number > 0, ends)
