"""Arrows in a document: from an instruction to one that waited for it, for its token, its addresses or the bus."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from accel.trace.perfetto.slice_texts import Clock, Lines, Phase, arrow_ends, where
from accel.trace.perfetto.trace_window import View
from accel.trace.text_columns import Part
from accel.trace.trace_rows import Rows, awaited_by, awaited_kind, tokens_of
from accel.util.arrays import Bools, Int64


@dataclass(frozen=True)
class Ends:
    """The ends of some arrows: of which row each is (k,), ascending, and the arrow's number (k,)."""

    row: Int64
    number: Int64

    @staticmethod
    def of(row: Int64, number: Int64) -> "Ends":
        """Returns the ends in the order of their rows."""
        order = np.argsort(row, kind="stable")
        return Ends(row[order], number[order])

    def cut(self, begin: int, end: int) -> "Ends":
        """Returns the ends in the rows ``[begin, end)``; their rows count from ``begin``."""
        first, last = np.searchsorted(self.row, (begin, end))
        return Ends(self.row[first:last] - begin, self.number[first:last])

    def layers(self, rows: int) -> Iterator[Int64]:
        """Yields the numbers by row (rows,), 0 for none, in as many layers as a row has ends."""
        depth = np.arange(len(self.row)) - np.searchsorted(self.row, self.row)
        for layer in range(int(depth.max(initial=-1)) + 1):
            mine = depth == layer
            numbers = np.zeros(rows, np.int64)
            numbers[self.row[mine]] = self.number[mine]
            yield numbers


@dataclass(frozen=True)
class Arrows:
    """The arrows of one token queue, or of one cause of waiting: where they begin and where they end.

    ``category`` is ``token``, ``address`` or ``bus``.
    """

    name: str
    category: str
    begins: Ends
    ends: Ends

    def cut(self, begin: int, end: int) -> "Arrows":
        """Returns their ends at the rows ``[begin, end)``, which are counted from there."""
        return Arrows(self.name, self.category, self.begins.cut(begin, end), self.ends.cut(begin, end))

    def parts(self, phase: Phase, clock: Clock, tid: Int64, start: Int64) -> Iterator[Part]:
        """Yields the lines of those that begin (phase ``s``) or end (``f``) at each row (n,), as it starts."""
        for number in (self.begins if phase == "s" else self.ends).layers(len(tid)):

            def ends(lines: Lines, number: Int64 = number) -> list[Part]:
                flow = self.name, self.category, number[lines]
                return arrow_ends(clock, tid[lines], start[lines], phase, flow)

            yield where(number > 0, ends)


class CollectedArrows:
    """The arrows between rows that are shown; one needs both of its ends in the window.

    A queue's first pops take its initial tokens, then the k-th pop takes the k-th push.
    """

    def __init__(self, view: View) -> None:
        self._names = view.source.names
        self._moved = view.moved.copy()
        self._pushes: list[Int64] = []
        self._pops: list[Int64] = []

    def add(self, rows: Rows, inside: Bools) -> None:
        """Adds the rows of the view's next stretch; the rows ``inside`` (n,) are shown."""
        self._pushes.append(self._ranks(tokens_of(rows, "push"), self._moved[0], inside))
        pops = self._ranks(tokens_of(rows, "pop"), self._moved[1], inside)
        initial = np.array([queue.initial for queue in self._names.queues], np.int64)
        self._pops.append(np.maximum(pops - initial[:, None], 0))

    def _ranks(self, moves: list[Bools], moved: Int64, inside: Bools) -> Int64:
        """Which token of its queue, from 1, each row shown moves (queues, rows shown); ``moved`` counts on."""
        ranks = np.zeros((len(moves), int(inside.sum())), np.int64)
        for queue, mask in enumerate(moves):
            count = np.cumsum(mask) + moved[queue]
            ranks[queue] = np.where(mask, count, 0)[inside]
            moved[queue] = count[-1]
        return ranks

    def between(self, rows: Rows, order: Int64) -> tuple[Arrows, ...]:
        """Returns the arrows between the ``rows`` shown, all of them in the trace's order, once put into ``order``."""
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        found, drawn = [], 0
        for name, category, begins, ends in [*self._tokens(), *_awaited(rows)]:
            number = drawn + 1 + np.arange(len(begins))
            found.append(Arrows(name, category, Ends.of(place[begins], number), Ends.of(place[ends], number)))
            drawn += len(begins)
        return tuple(found)

    def _tokens(self) -> Iterator[tuple[str, str, Int64, Int64]]:
        empty = np.zeros((len(self._names.queues), 0), np.int64)
        pushes, pops = (np.concatenate([empty, *found], axis=1) for found in (self._pushes, self._pops))
        for queue, push, pop in zip(self._names.queues, pushes, pops, strict=True):
            giving, taking = np.flatnonzero(push), np.flatnonzero(pop)
            _, begins, ends = np.intersect1d(push[giving], pop[taking], assume_unique=True, return_indices=True)
            yield queue.name, "token", giving[begins], taking[ends]


def _awaited(rows: Rows) -> Iterator[tuple[str, str, Int64, Int64]]:
    for cause in rows.names.causes_awaited:
        waiting, awaited = awaited_by(rows, cause)
        at = np.searchsorted(rows.index, awaited)
        shown = rows.index[np.minimum(at, len(rows) - 1)] == awaited if len(rows) else np.zeros(0, np.bool_)
        yield cause, awaited_kind(cause), at[shown], np.searchsorted(rows.index, waiting[shown])
