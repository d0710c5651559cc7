"""The rows of a trace: a run of them, where they come from, and the index by which a window of cycles is found."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from accel.trace.trace_names import TraceNames
from accel.util.arrays import Bools, Int64, Signed


@runtime_checkable
class Packs(Protocol):
    """Columns of which some are not there yet: they are written into records without being made."""

    def pack(self, records: npt.NDArray[np.void]) -> Collection[str]:
        """Write columns into the fields of their names of ``records`` (n,), which are zero; return which."""


@dataclass(frozen=True)
class Rows:
    """Instructions: their places in the trace, and a column for each of ``names.columns``, all (n,)."""

    names: TraceNames
    index: Signed
    columns: Mapping[str, Signed]

    @staticmethod
    def run(names: TraceNames, begin: int, columns: Mapping[str, Signed]) -> "Rows":
        """Returns rows that follow each other from ``begin`` on."""
        return Rows(names, np.arange(begin, begin + len(columns["kind"])), columns)

    @staticmethod
    def joined(names: TraceNames, parts: Sequence["Rows"]) -> "Rows":
        """Returns the rows of all parts, in their order."""
        empty = np.zeros(0, np.int8)
        columns = {name: np.concatenate([empty, *(part[name] for part in parts)]) for name in names.columns}
        return Rows(names, np.concatenate([np.zeros(0, np.int64), *(part.index for part in parts)]), columns)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, column: str) -> Signed:
        return self.columns[column]

    def take(self, which: Signed | slice) -> "Rows":
        """Returns the rows at ``which``; views where it is a slice."""
        return Rows(self.names, self.index[which], {name: column[which] for name, column in self.columns.items()})

    def records(self, does: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yields each row as a record of the service's JSON; ``does`` (n,) are the rows' semantics."""
        listed = [self.index.tolist(), *(column.tolist() for column in self.columns.values())]
        for text, *values in zip(does, *listed, strict=True):
            yield self._record(dict(zip(("index", *self.columns), values, strict=True)), text)

    def _record(self, row: dict[str, int], does: str) -> dict[str, Any]:
        names = self.names
        operation = names.operations[row["kind"]]
        origin = names.origins[row["origin"]] if row["origin"] >= 0 else None
        waits = {cause: row[f"wait/{cause}"] for cause in names.causes}
        queues = {queue.name for queue in names.queues}
        return {
            "index": row["index"],
            "launch": names.launches[row["launch"]].name,
            "unit": operation.unit,
            "op": operation.name,
            "does": does,
            "fields": {name: row[f"field/{name}"] for name in operation.fields},
            "start": row["start"],
            "end": row["end"],
            "waited_for": [
                {"cause": "token" if cause in queues else cause, "cycles": cycles, "on": cause}
                | ({"instruction": row["index"] - back} if (back := row.get(f"awaited/{cause}")) else {})
                for cause, cycles in waits.items()
                if cycles > 0
            ],
            "origin": origin and vars(origin) | {"nodes": list(origin.nodes)},
        }


STRETCH = 32768  # rows
_LINES = 16384
_BYTES = 1 << 24


@dataclass(frozen=True)
class Index:
    """A summary of each stretch of ``STRETCH`` rows; the last of the k stretches may be shorter.

    ``spans`` (k, 2): the first start and the last end in the stretch, cycles. ``tokens`` (k, 2, queues): tokens pushed,
    tokens popped.
    """

    spans: Int64
    tokens: Int64


class RowSource(Protocol):
    """The rows of a trace."""

    @property
    def names(self) -> TraceNames:
        """The names that the numbers of the rows stand for."""

    def __len__(self) -> int: ...

    def read(self, begin: int, end: int) -> Rows:
        """Returns rows ``[begin, end)``, which exist."""

    def runs(self, begin: int, end: int) -> Iterator[Rows]:
        """Yields rows ``[begin, end)`` in runs, as they can be had for least."""

    def limits(self) -> "Limits":
        """Returns the least and the greatest value of each column; 0 and 0 of no rows."""

    def index(self) -> Index:
        """Returns the summaries of its stretches."""


Limits = Mapping[str, tuple[int, int]]
"""The least and the greatest value of each column."""


def merged_limits(names: TraceNames, limits: Iterable[Limits]) -> Limits:
    """Returns the limits of all rows from the ``limits`` of parts that have rows; 0 and 0 if there is no part."""
    known, columns = list(limits), names.columns
    if not known:
        return dict.fromkeys(columns, (0, 0))
    parts = np.array([[each[name] for name in columns] for each in known], np.int64)  # (parts, columns, 2)
    lows, highs = parts[:, :, 0].min(axis=0).tolist(), parts[:, :, 1].max(axis=0).tolist()
    return dict(zip(columns, zip(lows, highs, strict=True), strict=True))


def limits_of(columns: Mapping[str, Signed]) -> Limits:
    """Returns the limits of columns, which have rows."""
    firsts = {name: int(column[0]) for name, column in columns.items() if column.strides == (0,)}
    return {
        name: (firsts[name], firsts[name]) if name in firsts else (int(column.min()), int(column.max()))
        for name, column in columns.items()
    }


def stretches(source: RowSource) -> Iterator[tuple[int, int]]:
    """Yields where each stretch begins and ends."""
    return ((begin, min(begin + STRETCH, len(source))) for begin in range(0, len(source), STRETCH))


def row_stretches(source: RowSource) -> Iterator[Rows]:
    """Yields all rows, a stretch at a time."""
    return (source.read(begin, end) for begin, end in stretches(source))


def row_batches(source: RowSource, *, longest: int = 0) -> Iterator[Rows]:
    """Yields all rows, some thousand at a time; fewer where a line's ``longest`` text (bytes) takes much memory."""
    step = batch_length(longest)
    for begin in range(0, len(source), step):
        yield source.read(begin, min(begin + step, len(source)))


def batch_length(longest: int) -> int:
    """Returns the number of lines to format at a time where one of their texts has ``longest`` bytes."""
    return max(min(_LINES, _BYTES // (longest + 1)), 1)


@dataclass(frozen=True)
class OriginUse:
    """The instructions of an origin in a launch: how many, the first of them, and its operation.

    ``origin``, ``launch`` and ``kind`` are places in the trace's names.
    """

    origin: int
    launch: int
    instructions: int
    first: int
    kind: int


def origin_uses(source: RowSource) -> list[OriginUse]:
    """Returns the uses of all origins, in the order of their first instructions."""
    found: dict[tuple[int, int], OriginUse] = {}
    for rows in row_stretches(source):
        known = rows.take(np.flatnonzero(rows["origin"] >= 0))
        pairs = np.stack([known["origin"].astype(np.int64), known["launch"].astype(np.int64)], axis=1)
        unique, first, count = np.unique(pairs, axis=0, return_index=True, return_counts=True)
        for (origin, launch), at, instructions in zip(unique.tolist(), first.tolist(), count.tolist(), strict=True):
            before = found.get((origin, launch))
            if before is None:
                before = OriginUse(origin, launch, 0, int(known.index[at]), int(known["kind"][at]))
            found[origin, launch] = replace(before, instructions=before.instructions + instructions)
    return sorted(found.values(), key=lambda use: use.first)


def make_index(source: RowSource) -> Index:
    """Returns the index of all rows."""
    index = IndexBuilder(source.names)
    for begin, end in stretches(source):
        index.add(source.runs(begin, end))
    return index.index()


class IndexBuilder:
    """An index that is made of one stretch after the other."""

    def __init__(self, names: TraceNames) -> None:
        self._queues = len(names.queues)
        self._spans: list[tuple[int, int]] = []
        self._tokens: list[Int64] = []

    def add(self, runs: Iterable[Rows]) -> None:
        """Adds the stretch whose rows these are."""
        starts, ends, tokens = list[int](), list[int](), np.zeros((2, self._queues), np.int64)
        for rows in runs:
            starts.append(int(rows["start"].min()))
            ends.append(int(end_cycles(rows).max()))
            moved = [[int(which.sum()) for which in tokens_of(rows, verb)] for verb in ("push", "pop")]
            tokens += np.array(moved, np.int64)
        self._spans.append((min(starts), max(ends)))
        self._tokens.append(tokens)

    def index(self) -> Index:
        """Returns the index of the stretches so far."""
        count = len(self._spans)
        tokens = np.array(self._tokens, np.int64).reshape(count, 2, self._queues)
        return Index(np.array(self._spans, np.int64).reshape(count, 2), tokens)


def unit_numbers(names: TraceNames) -> Int64:
    """Returns the unit of each operation, by its place in ``names.units``."""
    return np.array([names.units.index(operation.unit) for operation in names.operations], np.int64)


def awaited_by(rows: Rows, cause: str) -> tuple[Int64, Int64]:
    """Returns the places in the trace of rows that waited for an instruction by ``cause`` (k,), and of these (k,)."""
    back = rows[f"awaited/{cause}"]
    waiting = np.flatnonzero(back)
    index = rows.index[waiting].astype(np.int64)
    return index, index - back[waiting]


def awaited_kind(cause: str) -> Literal["address", "bus"]:
    """Returns what an instruction waited for another one for by ``cause``: its addresses, or the bus that it was on."""
    return "bus" if cause == "memory" else "address"


def end_cycles(rows: Rows) -> Int64:
    """Returns the cycle before which each row has ended (n,); a row that takes no cycles still has its own."""
    return np.maximum(rows["end"], rows["start"].astype(np.int64) + 1)


def tokens_of(rows: Rows, verb: Literal["push", "pop"]) -> list[Bools]:
    """Returns for each queue which rows (n,) push a token to it, or pop one from it."""
    return [_moved(rows, getattr(queue, verb)) for queue in rows.names.queues]


def _moved(rows: Rows, fields: tuple[str | None, ...]) -> Bools:
    """``fields`` are those of the operations, which mostly share one."""
    moved = np.zeros(len(rows), np.bool_)
    for field in dict.fromkeys(field for field in fields if field is not None):
        has = np.array([name == field for name in fields])
        moved |= (rows[f"field/{field}"] != 0) & np.take(has, rows["kind"])
    return moved


def first_match(source: RowSource, text: str, begin: int, end: int) -> int | None:
    """Returns the first of rows ``[begin, end)`` to which a name with ``text`` in it belongs, or None.

    The names are those of the row's operation, launch and function, and of the nodes that it comes from; upper and
    lower case are one.
    """
    names, wanted = source.names, text.casefold()

    def having(lists: Iterable[Iterable[str]]) -> Bools:
        return np.array([any(wanted in name.casefold() for name in found) for found in lists], np.bool_)

    operations = having([operation.name] for operation in names.operations)
    launches = having([launch.name] for launch in names.launches)
    # the last is that of rows without an origin, whose number is -1
    origins = having([*((origin.function, *origin.nodes) for origin in names.origins), ()])
    if not (operations.any() or launches.any() or origins.any()):
        return None
    for at in range(begin, end, STRETCH):
        rows = source.read(at, min(at + STRETCH, end))
        found = np.flatnonzero(operations[rows["kind"]] | launches[rows["launch"]] | origins[rows["origin"]])
        if len(found):
            return at + int(found[0])
    return None
