"""Neighbouring instructions of a unit, merged: the level of detail of a document."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from accel.trace.perfetto.instructions import unit_numbers
from accel.trace.perfetto.view import View
from accel.trace.rows import Rows
from accel.trace.source import Int64


@dataclass(frozen=True)
class Groups:
    """g groups, unit by unit and in order; instructions whose ``key`` is the same are in one group.

    Attributes:
        key: unit * bins + bin (g,).
        unit: the unit (g,).
        first, last: places of the first and last member in the trace (g,).
        start, end: of the first, and of the last (g,), cycles.
        count: members (g,).
        busy: their cycles, by operation (g, operations).
        waits: what they waited, by cause (g, causes), cycles.
        lead: what the first of them waited, by cause (g, causes).
    """

    key: Int64
    unit: Int64
    first: Int64
    last: Int64
    start: Int64
    end: Int64
    count: Int64
    busy: Int64
    waits: Int64
    lead: Int64

    def __len__(self) -> int:
        return len(self.key)

    def merged(self) -> "Groups":
        """Neighbours of one key as one."""
        if not len(self):
            return self
        heads = np.flatnonzero(np.diff(self.key, prepend=-1))
        tails = np.append(heads[1:], len(self)) - 1
        firsts = {name: getattr(self, name)[heads] for name in ("key", "unit", "first", "start", "lead")}
        lasts = {name: getattr(self, name)[tails] for name in ("last", "end")}
        sums = {name: np.add.reduceat(getattr(self, name), heads, axis=0) for name in ("count", "busy", "waits")}
        return Groups(**firsts, **lasts, **sums)

    def take(self, which: Int64) -> "Groups":
        """Some of them."""
        return Groups(*(getattr(self, field.name)[which] for field in fields(self)))

    @staticmethod
    def joined(parts: Sequence["Groups"]) -> "Groups":
        """The groups of all parts, sorted by key; those of one key as one."""
        every = Groups(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Groups)))
        return every.take(np.argsort(every.key, kind="stable")).merged()

    @staticmethod
    def of(view: View, rows: Rows, bins: int) -> "Groups":
        """Those of the rows (n,) that run within the view, merged where they start in one of its ``bins`` parts."""
        shown = rows.take(np.flatnonzero(view.inside(rows)))
        unit = unit_numbers(rows.names)[shown["kind"]]
        order = np.argsort(unit, kind="stable")
        shown, unit = shown.take(order), unit[order]
        start, end = shown["start"].astype(np.int64), shown["end"].astype(np.int64)
        place = np.maximum(start - view.begin, 0) // view.step(bins)
        busy = np.zeros((len(shown), len(rows.names.operations)), np.int64)
        busy[np.arange(len(shown)), shown["kind"]] = end - start
        waits = np.zeros((len(shown), len(rows.names.causes)), np.int64)
        for number, cause in enumerate(rows.names.causes):
            waits[:, number] = shown[f"wait/{cause}"]
        one = np.ones(len(shown), np.int64)
        places = shown.index, shown.index, start, end
        return Groups(unit * bins + place, unit, *places, one, busy, waits, waits).merged()
