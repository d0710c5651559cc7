"""The timeline of a trace, held in memory: slices of every unit by category, and who waited for whom."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from accel.errors import CyclopsError
from accel.simulate.cycle_account import wait_category
from accel.trace.timeline.slices import BUSY, MEMORY, Slices, Uint32, narrow, unit_slices
from accel.trace.timeline.timeline_window import Bins, window_bytes
from accel.trace.trace_names import TraceNames
from accel.trace.trace_rows import RowSource, awaited_by, awaited_kind, row_stretches, tokens_of, unit_numbers
from accel.util.arrays import Array, Int64
from accel.util.step_function import StepFunction

MOST_BINS = 8192
MOST_CYCLES = (1 << 32) - 1  # of a window, whose cycles are counted in 32 bits
IDLE = "idle"
MOST_WAITING = 100  # instructions that are told of one cause and one that they waited for
_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


@dataclass(frozen=True)
class Awaited:
    """Who waited for whom by one cause, k times: ``waiting`` (k,), ascending, and for each the one ``awaited`` (k,).

    ``held`` and ``holding`` (k,) are the same in the order of those that were waited for, which are ``holding``.
    """

    waiting: Uint32
    awaited: Uint32
    held: Uint32
    holding: Uint32

    @staticmethod
    def of(waiting: Uint32, awaited: Uint32) -> "Awaited":
        """Returns both ways to look."""
        order = np.argsort(awaited, kind="stable")
        return Awaited(waiting, awaited, waiting[order], awaited[order])

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes."""
        return sum(each.nbytes for each in (self.waiting, self.awaited, self.held, self.holding))

    def waits_for(self, instruction: int) -> int | None:
        """Returns the instruction that this one waited for, if it did for one."""
        place = int(np.searchsorted(self.waiting, np.uint32(instruction)))  # of another type it would copy the array
        there = place < len(self.waiting) and self.waiting[place] == instruction
        return int(self.awaited[place]) if there else None

    def waited_for_by(self, instruction: int) -> list[int]:
        """Returns the first ``MOST_WAITING`` instructions that waited for this one."""
        first, last = (int(np.searchsorted(self.holding, np.uint32(instruction), side)) for side in _SIDES)
        found: list[int] = self.held[first : min(last, first + MOST_WAITING)].tolist()
        return found


@dataclass(frozen=True)
class Timeline:
    """The timeline of n instructions.

    Attributes:
        names: the trace's.
        cycles: when all has ended.
        tracks: for each unit its slices, by category: work, then the causes of waiting.
        operations: the operation of each instruction (n,), by its place in ``names.operations``.
        pushes: for each token queue, in the order of ``names.queues``, the instructions that push to it.
        pops: for each token queue the instructions that pop from it.
        awaited: by cause who waited for whom, where the trace says so.
    """

    names: TraceNames
    cycles: int
    tracks: tuple[dict[str, Slices], ...]
    operations: Array
    pushes: tuple[Uint32, ...]
    pops: tuple[Uint32, ...]
    awaited: dict[str, Awaited]

    @staticmethod
    def of(source: RowSource) -> "Timeline":
        """Returns the timeline of a trace, all of whose rows are read.

        Raises:
            CyclopsError: the trace has no times.
        """
        names = source.names
        if not names.timed:
            raise CyclopsError("the trace has no times, as only function was simulated", field="timeline")
        columns, pushes, pops, awaited = _read(source)
        last = max(names.cycles, int(columns["end"].max(initial=0)), int(columns["start"].max(initial=0)))
        unit = unit_numbers(names).astype(np.int32)[columns["kind"]]
        begins = np.array([launch.begin for launch in names.launches if not launch.joined] or [0], np.int64)
        waited = [cause for cause in names.causes if cause != MEMORY]
        sent = bool(waited) and category_kind(names, waited[0]) == "fetch"
        tracks = []
        for number in range(len(names.units)):
            mine = np.flatnonzero(unit == number).astype(np.uint32)
            waits = {cause: columns[f"wait/{cause}"][mine] for cause in names.causes}
            start = columns["start"][mine]
            since = begins[np.maximum(np.searchsorted(begins, start, "right") - 1, 0)] if sent else None
            tracks.append(unit_slices(start, columns["end"][mine], waits, mine, last, since))
        return Timeline(names, last, tuple(tracks), columns["kind"].astype(np.uint16), pushes, pops, awaited)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes."""
        slices = sum(found.nbytes for track in self.tracks for found in track.values())
        awaited = sum(each.nbytes for each in self.awaited.values())
        return slices + self.operations.nbytes + awaited + sum(rows.nbytes for rows in (*self.pushes, *self.pops))

    def document(self) -> dict[str, Any]:
        """Returns what the numbers of a window stand for, and the sums of every track, as JSON."""
        names = self.names
        return {
            "accelerator": names.accelerator,
            "clock_mhz": names.clock_mhz,
            "cycles": self.cycles,
            "instructions": len(self.operations),
            "categories": [{"name": name, "kind": category_kind(names, name)} for name in (BUSY, *names.causes)],
            "tracks": [
                {"unit": unit, "cycles": _sums(track, self.cycles)}
                for unit, track in zip(names.units, self.tracks, strict=True)
            ],
            "operations": [{"name": operation.name, "unit": operation.unit} for operation in names.operations],
            "launches": [launch.model_dump() for launch in names.launches],
            "hosts": [host.model_dump() for host in names.hosts],
        }

    def window(
        self, begin: int = 0, end: int | None = None, bins: int = 1024, counters: Sequence[StepFunction] = ()
    ) -> bytes:
        """Returns cycles ``[begin, end)``, at most to the timeline's end, in at most ``bins`` bins, as bytes.

        The most of each of ``counters`` in each bin comes with it.

        Raises:
            CyclopsError: the window is empty, or longer than ``MOST_CYCLES``.
        """
        last = self.cycles if end is None else min(end, self.cycles)
        if begin >= last:
            raise CyclopsError(f"the window begins at cycle {begin}; expected one before {last}", field="begin")
        if last - begin > MOST_CYCLES:
            raise CyclopsError(f"a window of {last - begin} cycles; expected at most {MOST_CYCLES}", field="end")
        tracks = [[track[category] for category in (BUSY, *self.names.causes)] for track in self.tracks]
        return window_bytes(Bins.cut(begin, last, bins), tracks, self.operations, counters)

    def profile(self, bins: int) -> tuple[Int64, list[dict[str, Int64]]]:
        """Returns the edges of at most ``bins`` equal parts (k + 1,), and for each unit by category its cycles in each.

        They are sums (k,), exact also where a part has many slices; what they lack of a part's cycles is idle.
        """
        edges = np.unique(np.linspace(0, self.cycles, bins + 1).astype(np.int64))
        return edges, [
            {name: np.diff(slices.until(edges, slices.places(edges))) for name, slices in track.items()}
            for track in self.tracks
        ]

    def dependences(self, instruction: int) -> list[dict[str, Any]]:
        """Returns whom the instruction waits for, and who waits for it: by tokens, by addresses, and for the bus.

        The k-th pop of a queue takes the k-th token; a queue's first tokens may have been there at the start, and have
        no ``instruction``. By addresses and for the bus there are those that cost cycles.
        """
        return [*self._tokens(instruction), *self._awaited(instruction)]

    def _awaited(self, instruction: int) -> Iterator[dict[str, Any]]:
        for cause, awaited in self.awaited.items():
            kind = awaited_kind(cause)
            other = awaited.waits_for(instruction)
            if other is not None:
                yield {"kind": kind, "on": cause, "role": "waits_for", "instruction": other}
            for other in awaited.waited_for_by(instruction):
                yield {"kind": kind, "on": cause, "role": "waited_for_by", "instruction": other}

    def _tokens(self, instruction: int) -> Iterator[dict[str, Any]]:
        for queue, pushes, pops in zip(self.names.queues, self.pushes, self.pops, strict=True):
            for role, mine, other, shift in (
                ("waits_for", pops, pushes, -queue.initial),
                ("waited_for_by", pushes, pops, queue.initial),
            ):
                place = int(np.searchsorted(mine, np.uint32(instruction)))
                if place < len(mine) and mine[place] == instruction:
                    theirs = place + shift
                    known = int(other[theirs]) if 0 <= theirs < len(other) else None
                    yield {"kind": "token", "on": queue.name, "role": role, "instruction": known}

    def neighbours(self, instruction: int) -> tuple[int | None, int | None]:
        """Returns the instructions before and after this one in its unit's part of the program; None at its ends."""
        unit = unit_numbers(self.names)
        mine = np.flatnonzero((unit == unit[self.operations[instruction]])[self.operations])
        place = int(np.searchsorted(mine, instruction))
        before = int(mine[place - 1]) if place else None
        return before, int(mine[place + 1]) if place + 1 < len(mine) else None


def category_kind(names: TraceNames, category: str) -> str:
    """Returns what a category is of: ``busy``, or a wait for ``memory``, ``token``, ``fetch`` or ``other``."""
    return category if category == BUSY else wait_category(category, {queue.name for queue in names.queues})


def _sums(track: dict[str, Slices], cycles: int) -> dict[str, int]:
    sums = {category: slices.cycles for category, slices in track.items()}
    return {**sums, IDLE: cycles - sum(sums.values())}


def _read(
    source: RowSource,
) -> tuple[dict[str, Array], tuple[Uint32, ...], tuple[Uint32, ...], dict[str, Awaited]]:
    """The columns that slices are made of, who pushes to and pops from each queue, and by cause who waited for whom."""
    names = source.names
    wanted = ("kind", "start", "end", *(f"wait/{cause}" for cause in names.causes))
    columns: dict[str, list[Array]] = {name: [np.zeros(0, np.int32)] for name in wanted}
    moved: tuple[list[list[Uint32]], ...] = ([], [])
    pairs = {cause: [np.zeros((2, 0), np.uint32)] for cause in names.causes_awaited}
    for rows in row_stretches(source):
        for name, parts in columns.items():
            parts.append(narrow(rows[name]))
        for found, verb in zip(moved, ("push", "pop"), strict=True):
            found.append([rows.index[mask].astype(np.uint32) for mask in tokens_of(rows, verb)])  # type: ignore[arg-type]
        for cause, joined in pairs.items():
            joined.append(np.stack(awaited_by(rows, cause)).astype(np.uint32))
    awaited = {cause: Awaited.of(*np.concatenate(joined, axis=1)) for cause, joined in pairs.items()}
    pushes, pops = (tuple(_joined(found, len(names.queues))) for found in moved)
    return {name: np.concatenate(parts) for name, parts in columns.items()}, pushes, pops, awaited


def _joined(found: list[list[Uint32]], queues: int) -> Iterator[Uint32]:
    for queue in range(queues):
        yield np.concatenate([np.zeros(0, np.uint32), *(part[queue] for part in found)])
