"""A document in full: a slice an instruction, a slice a stall, arrows to those that waited for another."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from accel.trace.perfetto.arrows import Arrows, CollectedArrows
from accel.trace.perfetto.slice_texts import (
    Clock,
    InstructionTexts,
    Lines,
    freed,
    in_turn,
    quoted,
    slices,
    tracks,
    where,
)
from accel.trace.perfetto.token_events import Levels
from accel.trace.perfetto.trace_window import View
from accel.trace.text_columns import Part, pack, render
from accel.trace.trace_rows import Rows, batch_length, tokens_of, unit_numbers
from accel.util.arrays import Int64

MEMORY = "memory"


def fits(view: View, most: int) -> bool:
    """Returns whether the document in full has at most ``most`` events; counting stops early."""
    names = view.source.names
    found = len(names.queues)
    for rows in view.stretches():
        inside = view.inside(rows)
        marks = [rows[f"wait/{cause}"] > 0 for cause in names.causes]
        # a level and an end of an arrow, or both ends of one
        marks += 2 * [*tokens_of(rows, "push"), *tokens_of(rows, "pop")]
        marks += 2 * [rows[f"awaited/{cause}"] != 0 for cause in names.causes_awaited]
        found += int(inside.sum()) + sum(int((mask & inside).sum()) for mask in marks)
        if found > most:
            return False
    return True


@dataclass(frozen=True)
class AllSlices:
    """The rows that are shown, unit by unit.

    ``free`` is the end of each one's predecessor; ``arrows`` are between them; ``levels`` are the queues'.
    """

    rows: Rows
    units: Int64
    start: Int64
    end: Int64
    free: Int64
    arrows: tuple[Arrows, ...]
    levels: Levels

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def instructions(self) -> int:
        """The number of instructions shown."""
        return len(self)

    def lines(self, clock: Clock) -> Iterator[bytes]:
        """Yields the document's lines."""
        texts = InstructionTexts(self.rows.names)
        step = batch_length(texts.longest)
        for begin in range(0, len(self), step):
            yield _lines(self.slice(begin, begin + step), texts, clock)
        yield from self.levels.lines(clock)

    def slice(self, begin: int, end: int) -> "AllSlices":
        """Returns the rows ``[begin, end)`` with their units, times and arrows."""
        cut = slice(begin, end)
        times = self.start[cut], self.end[cut], self.free[cut]
        arrows = tuple(each.cut(begin, end) for each in self.arrows)
        return AllSlices(self.rows.take(cut), self.units[cut], *times, arrows, self.levels)


def collect_slices(view: View) -> AllSlices:
    """Returns all instructions of the window, with their times and arrows."""
    arrows, levels = CollectedArrows(view), Levels(view)
    shown = []
    for rows in view.stretches():
        inside = view.inside(rows)
        arrows.add(rows, inside)
        levels.add(rows)
        shown.append(rows.take(np.flatnonzero(inside)))
    rows = Rows.joined(view.source.names, shown)
    units = unit_numbers(view.source.names)[rows["kind"]]
    order = np.argsort(units, kind="stable")
    found = arrows.between(rows, order)
    rows, units = rows.take(order), units[order]
    start, end = in_turn(units, rows["start"].astype(np.int64), rows["end"].astype(np.int64))
    return AllSlices(rows, units, start, end, freed(units, end), found, levels)


def _lines(shown: AllSlices, texts: InstructionTexts, clock: Clock) -> bytes:
    """For each instruction: its stalls, itself, its arrows, its wait for memory; on a track times never go back.

    Arrows begin and end at an instruction's start: an importer gives them to the slice that it opened last, and the
    viewer draws them from that slice's end all the same.
    """
    rows, tid = shown.rows, tracks(shown.units)
    parts: list[Part] = [*_stalls(shown, clock)]
    parts += slices(clock, tid, (shown.start, shown.end), "instruction", texts.parts(rows))
    for phase in ("f", "s"):
        parts += [part for each in shown.arrows for part in each.parts(phase, clock, tid, shown.start)]
    parts += _memory(shown, clock)
    return pack(render(parts, len(rows)))


def _stalls(shown: AllSlices, clock: Clock) -> Iterator[Part]:
    """The waits one after the other, the last up to the instruction's start; none before the unit was free."""
    rows = shown.rows
    waits = {cause: rows[f"wait/{cause}"].astype(np.int64) for cause in rows.names.causes if cause != MEMORY}
    begin = shown.start - sum(waits.values())
    for cause, wait in waits.items():
        span = np.maximum(begin, shown.free), np.maximum(begin + wait, shown.free)
        yield _stall(clock, tracks(shown.units), span, cause)
        begin = begin + wait


def _memory(shown: AllSlices, clock: Clock) -> Iterator[Part]:
    """The wait for memory, from a cycle after the start: when exactly it was, the trace does not say."""
    if MEMORY not in shown.rows.names.causes:
        return
    length = shown.end - shown.start
    wait = np.minimum(shown.rows[f"wait/{MEMORY}"], length)
    begin = shown.start + np.minimum(length - wait, 1)
    yield _stall(clock, tracks(shown.units), (begin, begin + wait), MEMORY)


def _stall(clock: Clock, tid: Int64, span: tuple[Int64, Int64], cause: str) -> Part:
    """A slice where it would not be empty."""
    begin, end = span

    def parts(lines: Lines) -> list[Part]:
        return slices(clock, tid[lines], (begin[lines], end[lines]), "stall", [quoted(f"wait {cause}")])

    return where(end > begin, parts)
