"""Tokens in a document: how many each queue holds, and which push serves which pop."""

from collections.abc import Iterator

import numpy as np

from accel.trace.perfetto.slice_texts import Clock, counters
from accel.trace.perfetto.trace_window import View
from accel.trace.text_columns import pack, render
from accel.trace.trace_rows import Rows, tokens_of
from accel.util.arrays import Bools, Int64


class Levels:
    """The tokens of each queue over the window: pushed at an instruction's end, taken at its start.

    Times are rounded up to a multiple of ``step`` cycles from the window's begin, so that there are at most one level
    a queue and step. Levels at these times are exact.
    """

    def __init__(self, view: View, step: int = 1) -> None:
        self._view = view
        self._step = step
        none = np.zeros(1, np.int64)
        self._moves: list[list[tuple[Int64, Int64]]] = [[(none, none)] for _ in view.source.names.queues]

    def add(self, rows: Rows) -> None:
        """Count the tokens of these rows; every row of the view's stretches must be given once."""
        for moves, mask in zip(self._moves, tokens_of(rows, "push"), strict=True):
            moves.append(self._summed(rows["end"][mask].astype(np.int64), 1))
        for moves, mask in zip(self._moves, tokens_of(rows, "pop"), strict=True):
            moves.append(self._summed(rows["start"][mask].astype(np.int64), -1))

    def _summed(self, times: Int64, change: int) -> tuple[Int64, Int64]:
        """Steps, ascending, and how the level changes in each: by ``change`` for each of the times."""
        times = times[times <= self._view.end]
        steps = np.maximum(-((self._view.begin - times) // self._step), 0)
        found, place = np.unique(steps, return_inverse=True)
        return found, np.bincount(place, minlength=len(found)) * change

    def lines(self, clock: Clock) -> Iterator[bytes]:
        """A counter a queue, with its level at the window's begin and whenever it has changed."""
        for queue, moves, moved in zip(
            self._view.source.names.queues, self._moves, self._view.moved.T.tolist(), strict=True
        ):
            steps, changes = (np.concatenate(part) for part in zip(*moves, strict=True))
            found, place = np.unique(steps, return_inverse=True)
            change = np.zeros(len(found), np.int64)
            np.add.at(change, place, changes)
            level = queue.initial + moved[0] - moved[1] + np.cumsum(change)
            new = np.flatnonzero(np.diff(level, prepend=level[0] - 1))
            cycle = np.minimum(self._view.begin + found[new] * self._step, self._view.end)
            yield pack(render(counters(clock, queue.name, cycle, level[new]), len(new)))


class Arrows:
    """Which push serves which pop: of a queue's pops, first those of its initial tokens, then the k-th the k-th push.

    An arrow needs both of its ends in the window.
    """

    def __init__(self, view: View) -> None:
        self._queues = view.source.names.queues
        self._moved = view.moved.copy()
        self._pushes: list[Int64] = []
        self._pops: list[Int64] = []

    def add(self, rows: Rows, inside: Bools) -> None:
        """Take in the rows of the view's next stretch, of which those ``inside`` are shown."""
        self._pushes.append(self._ranks(tokens_of(rows, "push"), self._moved[0], inside))
        pops = self._ranks(tokens_of(rows, "pop"), self._moved[1], inside)
        initial = np.array([queue.initial for queue in self._queues], np.int64)
        self._pops.append(np.maximum(pops - initial[:, None], 0))

    def _ranks(self, moves: list[Bools], moved: Int64, inside: Bools) -> Int64:
        """Which token of its queue, from 1, each row shown moves (queues, rows shown); ``moved`` counts on."""
        ranks = np.zeros((len(moves), int(inside.sum())), np.int64)
        for queue, mask in enumerate(moves):
            count = np.cumsum(mask) + moved[queue]
            ranks[queue] = np.where(mask, count, 0)[inside]
            moved[queue] = count[-1]
        return ranks

    def numbers(self) -> tuple[Int64, Int64]:
        """The arrow that each row begins, and that it ends, in each queue (queues, rows shown), from 1; 0 of none."""
        empty = np.zeros((len(self._queues), 0), np.int64)
        pushes, pops = (np.concatenate([empty, *found], axis=1) for found in (self._pushes, self._pops))
        drawn = 0
        for push, pop in zip(pushes, pops, strict=True):
            both = np.intersect1d(push[push > 0], pop[pop > 0])
            for ends in (push, pop):
                shown = np.isin(ends, both)
                ends[...] = np.where(shown, drawn + 1 + np.searchsorted(both, ends), 0)
            drawn += len(both)
        return pushes, pops
