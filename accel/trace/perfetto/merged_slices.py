"""A document with less detail: a slice for each group of neighbouring instructions of a unit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from accel.trace.perfetto.full_slices import MEMORY
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
from accel.trace.text_columns import Part, by_group, decimal, fixed, lookup, pack, render
from accel.trace.trace_names import TraceNames
from accel.trace.trace_rows import STRETCH, Rows, RowSource, batch_length, unit_numbers
from accel.util.arrays import Int64


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
        """Returns the groups with neighbours of one key merged."""
        if not len(self):
            return self
        heads = np.flatnonzero(np.diff(self.key, prepend=-1))
        tails = np.append(heads[1:], len(self)) - 1
        firsts = {name: getattr(self, name)[heads] for name in ("key", "unit", "first", "start", "lead")}
        lasts = {name: getattr(self, name)[tails] for name in ("last", "end")}
        sums = {name: np.add.reduceat(getattr(self, name), heads, axis=0) for name in ("count", "busy", "waits")}
        return Groups(**firsts, **lasts, **sums)

    def take(self, which: Int64) -> "Groups":
        """Returns the groups at ``which``."""
        return Groups(*(getattr(self, field.name)[which] for field in fields(self)))

    @staticmethod
    def joined(parts: Sequence["Groups"]) -> "Groups":
        """Returns the groups of all parts, sorted by key, with groups of one key merged."""
        every = Groups(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Groups)))
        return every.take(np.argsort(every.key, kind="stable")).merged()

    @staticmethod
    def of_rows(view: View, rows: Rows, bins: int) -> "Groups":
        """Returns the rows (n,) that run within the view in groups, one for each of the view's ``bins`` parts."""
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


@dataclass(frozen=True)
class MergedSlices:
    """The groups, the instructions of groups of one in the groups' order, and the queues' levels."""

    names: TraceNames
    groups: Groups
    singles: Rows
    levels: Levels

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def instructions(self) -> int:
        """The number of instructions shown, one by one or merged."""
        return int(self.groups.count.sum())

    def lines(self, clock: Clock) -> Iterator[bytes]:
        """Yields the document's lines."""
        texts = _Texts(self.names)
        free = freed(self.groups.unit, self.groups.end)
        step = batch_length(texts.longest)
        begins = np.concatenate([[0], np.cumsum(self.groups.count == 1)])
        for begin in range(0, len(self), step):
            lines = np.arange(begin, min(begin + step, len(self)))
            singles = self.singles.take(slice(begins[begin], begins[lines[-1] + 1]))
            yield _lines(self.groups.take(lines), free[lines], singles, texts, clock)
        yield from self.levels.lines(clock)


def merge_slices(view: View, most: int) -> MergedSlices:
    """Returns the contents of the window in at most ``most`` events.

    The window is cut into parts, each with a group and a stall for a unit, and a level for a queue.
    """
    source = view.source
    units, queues = len(source.names.units), len(source.names.queues)
    bins = max((most - queues) // (2 * units + queues), 1)
    levels = Levels(view, view.step(bins))
    parts = [Groups.of_rows(view, source.read(0, 0), bins)]
    for rows in view.stretches():
        parts.append(Groups.of_rows(view, rows, bins))
        levels.add(rows)
    groups = Groups.joined(parts)
    start, end = in_turn(groups.unit, groups.start, groups.end)
    groups = replace(groups, start=start, end=end)
    return MergedSlices(source.names, groups, _rows_at(source, groups.first[groups.count == 1]), levels)


def _rows_at(source: RowSource, places: Int64) -> Rows:
    """The rows at these places, in their order; of the source a stretch at a time is read."""
    order = np.argsort(places)
    ascending = places[order]
    found = []
    for number in np.unique(ascending // STRETCH).tolist():
        begin, end = number * STRETCH, min((number + 1) * STRETCH, len(source))
        here = ascending[(ascending >= begin) & (ascending < end)]
        found.append(source.read(begin, end).take(here - begin))
    back = np.empty(len(places), np.int64)
    back[order] = np.arange(len(places))
    return Rows.joined(source.names, found).take(back)


def _lines(groups: Groups, free: Int64, singles: Rows, texts: "_Texts", clock: Clock) -> bytes:
    """For each group in turn the stall before it, and itself."""

    def title(single: int, lines: Lines) -> list[Part]:
        return texts.parts(singles) if single else texts.group(groups.take(lines))

    alone = (groups.count == 1).astype(np.int8)
    parts = [texts.stall(groups, free, clock)]
    tid = tracks(groups.unit)
    parts += slices(clock, tid, (groups.start, groups.end), "instruction", [[by_group(alone, 2, title)]])
    return pack(render(parts, len(groups)))


class _Texts(InstructionTexts):
    """The texts that groups share, too."""

    def __init__(self, names: TraceNames) -> None:
        super().__init__(names)
        self._causes = names.causes
        self._words = [operation.name for operation in names.operations]
        self._titles = [quoted(f"{name} (")[:-1] for name in self._words]
        self._titles += [quoted(f"mostly {name} (")[:-1] for name in self._words]

    def group(self, groups: Groups) -> list[Part]:
        """Returns the name of each group, and its arguments; cycles are summed over its instructions."""
        busy = groups.busy.sum(axis=1)
        mixed = (groups.busy > 0).sum(axis=1) > 1
        share = np.rint(1000 * busy / np.maximum(groups.end - groups.start, 1)).astype(np.int64)
        return [
            lookup(self._titles, groups.busy.argmax(axis=1) + mixed * len(self._words)),
            decimal(groups.count),
            b')","args":{"instructions":',
            decimal(groups.count),
            b',"first":',
            decimal(groups.first),
            b',"last":',
            decimal(groups.last),
            b',"busy":',
            decimal(busy),
            b',"busy_share":',
            fixed(share, 3),
            *(_some(f"busy {name}", cycles) for name, cycles in zip(self._words, groups.busy.T, strict=True)),
            *self._waits(groups.waits),
            b"}",
        ]

    def stall(self, groups: Groups, free: Int64, clock: Clock) -> Part:
        """Returns a slice for what the first of a group waited for, named after the cause of most of it."""
        before = [number for number, cause in enumerate(self._causes) if cause != MEMORY]
        lead = groups.lead[:, before]
        begin = np.maximum(groups.start - lead.sum(axis=1), free)
        titles = [quoted(f"wait {self._causes[number]}") for number in before]

        def parts(lines: Lines) -> list[Part]:
            span = begin[lines], groups.start[lines]
            most = lookup(titles, lead[lines].argmax(axis=1))
            cycles = b',"args":{"cycles":', decimal(lead[lines].sum(axis=1)), *self._waits(groups.lead[lines]), b"}"
            return slices(clock, tracks(groups.unit[lines]), span, "stall", [most, *cycles])

        return where(groups.start > begin, parts)

    def _waits(self, waits: Int64) -> list[Part]:
        return [_some(f"wait {cause}", cycles) for cause, cycles in zip(self._causes, waits.T, strict=True)]


def _some(name: str, cycles: Int64) -> Part:
    """An argument where there are some."""
    return where(cycles > 0, lambda lines: [b"," + quoted(name) + b":", decimal(cycles[lines])])
