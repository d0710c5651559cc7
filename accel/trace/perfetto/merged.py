"""A document with less detail: a slice a group of instructions."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from accel.trace.cells import Part, by_group, decimal, fixed, lookup, pack, render
from accel.trace.names import Names
from accel.trace.perfetto.events import Clock, Lines, quoted, slices, where
from accel.trace.perfetto.full import MEMORY
from accel.trace.perfetto.groups import Groups
from accel.trace.perfetto.instructions import InstructionTexts, freed, in_turn, tracks
from accel.trace.perfetto.tokens import Levels
from accel.trace.perfetto.view import View
from accel.trace.rows import Rows
from accel.trace.source import STRETCH, Int64, Source, step_for


@dataclass(frozen=True)
class Merged:
    """The groups; the instructions of those that have only one, in the groups' order; the queues' levels."""

    names: Names
    groups: Groups
    singles: Rows
    levels: Levels

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def instructions(self) -> int:
        """How many are shown, one by one or merged."""
        return int(self.groups.count.sum())

    def lines(self, clock: Clock) -> Iterator[bytes]:
        """The document's lines."""
        texts = _Texts(self.names)
        free = freed(self.groups.unit, self.groups.end)
        step = step_for(texts.longest)
        begins = np.concatenate([[0], np.cumsum(self.groups.count == 1)])
        for begin in range(0, len(self), step):
            lines = np.arange(begin, min(begin + step, len(self)))
            singles = self.singles.take(slice(begins[begin], begins[lines[-1] + 1]))
            yield _lines(self.groups.take(lines), free[lines], singles, texts, clock)
        yield from self.levels.lines(clock)


def merge(view: View, most: int) -> Merged:
    """What the window shows, in at most ``most`` events.

    It is cut into parts, each with a group and a stall a unit, and a level a queue.
    """
    source = view.source
    units, queues = len(source.names.units), len(source.names.queues)
    bins = max((most - queues) // (2 * units + queues), 1)
    levels = Levels(view, view.step(bins))
    parts = [Groups.of(view, source.read(0, 0), bins)]
    for rows in view.stretches():
        parts.append(Groups.of(view, rows, bins))
        levels.add(rows)
    groups = Groups.joined(parts)
    start, end = in_turn(groups.unit, groups.start, groups.end)
    groups = replace(groups, start=start, end=end)
    return Merged(source.names, groups, _rows_at(source, groups.first[groups.count == 1]), levels)


def _rows_at(source: Source, places: Int64) -> Rows:
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

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self._causes = names.causes
        self._words = [operation.name for operation in names.operations]
        self._titles = [quoted(f"{name} (")[:-1] for name in self._words]
        self._titles += [quoted(f"mostly {name} (")[:-1] for name in self._words]

    def group(self, groups: Groups) -> list[Part]:
        """The name of each group, and its arguments; cycles are those of all its instructions."""
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
        """A slice for what the first of a group waited for, named after the cause of most of it."""
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
