"""The timeline of a trace, held in memory: slices of every unit by category, and who waited for whose tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.errors import CyclopsError
from accel.simulate.cycle_account import wait_category
from accel.trace.timeline.slices import BUSY, MEMORY, Slices, Uint32, narrow, unit_slices
from accel.trace.timeline.timeline_window import Bins, window_bytes
from accel.trace.trace_names import TraceNames
from accel.trace.trace_rows import RowSource, row_stretches, tokens_of, unit_numbers
from accel.util.arrays import Array, Int64
from accel.util.step_function import StepFunction

MOST_BINS = 8192
MOST_CYCLES = (1 << 32) - 1  # of a window, whose cycles are counted in 32 bits
IDLE = "idle"


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
    """

    names: TraceNames
    cycles: int
    tracks: tuple[dict[str, Slices], ...]
    operations: Array
    pushes: tuple[Uint32, ...]
    pops: tuple[Uint32, ...]

    @staticmethod
    def of(source: RowSource) -> "Timeline":
        """Returns the timeline of a trace, all of whose rows are read.

        Raises:
            CyclopsError: the trace has no times.
        """
        names = source.names
        if not names.timed:
            raise CyclopsError("the trace has no times, as only function was simulated", field="timeline")
        columns, pushes, pops = _read(source)
        last = max(names.cycles, int(columns["end"].max(initial=0)), int(columns["start"].max(initial=0)))
        unit = unit_numbers(names).astype(np.int32)[columns["kind"]]
        begins = np.array([launch.begin for launch in names.launches] or [0], np.int64)
        waited = [cause for cause in names.causes if cause != MEMORY]
        sent = bool(waited) and category_kind(names, waited[0]) == "fetch"
        tracks = []
        for number in range(len(names.units)):
            mine = np.flatnonzero(unit == number).astype(np.uint32)
            waits = {cause: columns[f"wait/{cause}"][mine] for cause in names.causes}
            start = columns["start"][mine]
            since = begins[np.maximum(np.searchsorted(begins, start, "right") - 1, 0)] if sent else None
            tracks.append(unit_slices(start, columns["end"][mine], waits, mine, last, since))
        return Timeline(names, last, tuple(tracks), columns["kind"].astype(np.uint16), pushes, pops)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes."""
        slices = sum(found.nbytes for track in self.tracks for found in track.values())
        return slices + self.operations.nbytes + sum(rows.nbytes for rows in (*self.pushes, *self.pops))

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
        """Returns the tokens that the instruction takes, and those that it sends, each with who is at the other end.

        The k-th pop of a queue takes the k-th token; a queue's first tokens may have been there at the start.
        """
        found = []
        for queue, pushes, pops in zip(self.names.queues, self.pushes, self.pops, strict=True):
            for role, mine, other, shift in (
                ("takes", pops, pushes, -queue.initial),
                ("sends", pushes, pops, queue.initial),
            ):
                place = int(np.searchsorted(mine, instruction))
                if place < len(mine) and mine[place] == instruction:
                    theirs = place + shift
                    known = int(other[theirs]) if 0 <= theirs < len(other) else None
                    found.append({"queue": queue.name, "role": role, "instruction": known})
        return found

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


def _read(source: RowSource) -> tuple[dict[str, Array], tuple[Uint32, ...], tuple[Uint32, ...]]:
    """The columns that slices are made of, and for each queue who pushes to it and who pops from it."""
    names = source.names
    wanted = ("kind", "start", "end", *(f"wait/{cause}" for cause in names.causes))
    columns: dict[str, list[Array]] = {name: [np.zeros(0, np.int32)] for name in wanted}
    moved: tuple[list[list[Uint32]], ...] = ([], [])
    for rows in row_stretches(source):
        for name, parts in columns.items():
            parts.append(narrow(rows[name]))
        for found, verb in zip(moved, ("push", "pop"), strict=True):
            found.append([rows.index[mask].astype(np.uint32) for mask in tokens_of(rows, verb)])  # type: ignore[arg-type]
    pushes, pops = (tuple(_joined(found, len(names.queues))) for found in moved)
    return {name: np.concatenate(parts) for name, parts in columns.items()}, pushes, pops


def _joined(found: list[list[Uint32]], queues: int) -> Iterator[Uint32]:
    for queue in range(queues):
        yield np.concatenate([np.zeros(0, np.uint32), *(part[queue] for part in found)])
