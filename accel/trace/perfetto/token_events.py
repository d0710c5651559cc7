"""Tokens in a document: the level of each queue."""

from collections.abc import Iterator

import numpy as np

from accel.trace.perfetto.slice_texts import Clock, counters
from accel.trace.perfetto.trace_window import View
from accel.trace.text_columns import pack, render
from accel.trace.trace_rows import Rows, tokens_of
from accel.util.arrays import Int64


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
        """Counts the tokens of ``rows``; it must be called with each row of the view's stretches once."""
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
        """Yields a counter a queue, with its level at the window's begin and whenever it has changed."""
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
