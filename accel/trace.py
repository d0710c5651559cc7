"""The trace: each instruction with its unit, fields, times, what it waited for, and where it came from.

It is kept as columns, one array a property, so that a page, a CSV or a text of any size needs no object an
instruction.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.program import Origin, Program

if TYPE_CHECKING:  # reading a trace needs no compiler
    from accel.simulate.engine import Simulation

Column = npt.NDArray[np.signedinteger[Any]]
Objects = npt.NDArray[np.object_]

_FILE = "trace.npz"
_CHUNK = 65536  # rows of text made at a time
_FIXED = ("launch", "kind", "start", "end", "origin")


@dataclass(frozen=True)
class Trace:
    """n instructions in program order.

    Attributes:
        columns: ``launch`` (index into ``launches``), ``kind`` (index into ``operations``), ``start`` and ``end``
            (cycles on the program's clock, -1 where timing did not run), ``origin`` (index into ``origins``, or -1),
            each (n,); loaded columns are as narrow as their values allow.
        fields: the encoded fields by name, each (n,).
        waits: the cycles lost by cause, each (n,).
        launches: the launches' names.
        operations: the names of the accelerator's instructions.
        units: the unit of each operation.
        used: the fields of each operation.
        origins: what ``page`` gives as origin.
    """

    columns: dict[str, Column]
    fields: dict[str, Column]
    waits: dict[str, Column]
    launches: tuple[str, ...]
    operations: tuple[str, ...]
    units: tuple[str, ...]
    used: tuple[tuple[str, ...], ...]
    origins: tuple[dict[str, Any], ...]

    def __len__(self) -> int:
        return len(self.columns["kind"])

    def page(self, offset: int, limit: int) -> list[dict[str, Any]]:
        """Records ``[offset, offset + limit)``; shorter at the end, empty beyond it."""
        rows = range(max(offset, 0), min(offset + limit, len(self)))
        return [self._record(row) for row in rows]

    def _record(self, row: int) -> dict[str, Any]:
        kind = int(self.columns["kind"][row])
        origin = int(self.columns["origin"][row])
        operation = self.operations[kind]
        return {
            "index": row,
            "launch": self.launches[self.columns["launch"][row]],
            "unit": self.units[kind],
            "op": operation,
            "fields": {name: int(self.fields[name][row]) for name in self.used[kind]},
            "start": int(self.columns["start"][row]),
            "end": int(self.columns["end"][row]),
            "waited_for": [
                {"cause": _cause(name), "cycles": int(cycles[row]), "on": name}
                for name, cycles in self.waits.items()
                if cycles[row] > 0
            ],
            "origin": self.origins[origin] if origin >= 0 else None,
        }

    def save(self, directory: Path) -> None:
        """Write ``trace.npz`` into ``directory``."""
        names = {name: getattr(self, name) for name in ("launches", "operations", "units", "used", "origins")}
        arrays = {f"column/{name}": _narrow(column) for name, column in self.columns.items()}
        arrays |= {f"field/{name}": _narrow(column) for name, column in self.fields.items()}
        arrays |= {f"wait/{name}": _narrow(column) for name, column in self.waits.items()}
        text = np.frombuffer(json.dumps(names).encode(), np.uint8)
        np.savez(directory / _FILE, allow_pickle=False, names=text, **arrays)

    @staticmethod
    def load(directory: Path) -> "Trace":
        """Read what :meth:`save` wrote into ``directory``; OSError if there is none."""
        with np.load(directory / _FILE, allow_pickle=False) as data:
            names = json.loads(data["names"].tobytes())
            parts: dict[str, dict[str, Column]] = {"column": {}, "field": {}, "wait": {}}
            for key in data.files:
                if "/" in key:
                    part, name = key.split("/", 1)
                    parts[part][name] = data[key]
        return Trace(
            parts["column"],
            parts["field"],
            parts["wait"],
            tuple(names["launches"]),
            tuple(names["operations"]),
            tuple(names["units"]),
            tuple(tuple(used) for used in names["used"]),
            tuple(names["origins"]),
        )

    def write_csv(self, file: TextIO) -> None:
        """One line an instruction: its columns, each field (empty where it has none), each wait, its origin."""
        waits = [f"wait_{name}" for name in self.waits]
        origin = ["nodes", "function", "site", "pragma", "stage"]
        file.write(",".join(["index", "launch", "unit", "op", "start", "end", *self.fields, *waits, *origin]) + "\n")
        origins = [",".join(_csv(_plain(o[name])) for name in origin) for o in self.origins] + ["," * (len(origin) - 1)]
        for rows in self._chunks():
            columns = self._heads(rows, _csv)
            columns += [self._where_used(name, rows) for name in self.fields]
            columns += [_texts(column[rows]) for column in self.waits.values()]
            columns.append(_objects(origins)[self.columns["origin"][rows]])
            file.writelines(",".join(row) + "\n" for row in zip(*(c.tolist() for c in columns), strict=True))

    def write_text(self, file: TextIO) -> None:
        """One line an instruction, as a disassembly: index, launch, unit, operation, times, fields, waits, origin."""
        origins = _objects([_origin_text(origin) for origin in self.origins] + [""])
        for rows in self._chunks():
            columns = self._heads(rows, str)
            columns += [self._field_text(rows), self._wait_text(rows), origins[self.columns["origin"][rows]]]
            file.writelines(" ".join(row).rstrip() + "\n" for row in zip(*(c.tolist() for c in columns), strict=True))

    def _chunks(self) -> Iterator[slice]:
        return (slice(begin, min(begin + _CHUNK, len(self))) for begin in range(0, len(self), _CHUNK))

    def _heads(self, rows: slice, quote: Callable[[str], str]) -> list[Objects]:
        kind = self.columns["kind"][rows]
        return [
            _texts(np.arange(rows.start, rows.stop)),
            _objects([quote(name) for name in self.launches])[self.columns["launch"][rows]],
            _objects(self.units)[kind],
            _objects(self.operations)[kind],
            _texts(self.columns["start"][rows]),
            _texts(self.columns["end"][rows]),
        ]

    def _where_used(self, name: str, rows: slice) -> Objects:
        uses = np.array([name in used for used in self.used])[self.columns["kind"][rows]]
        text = np.full(len(uses), "", object)
        text[uses] = _texts(self.fields[name][rows][uses])
        return text

    def _field_text(self, rows: slice) -> Objects:
        kind = self.columns["kind"][rows]
        text = np.full(len(kind), "", object)
        for index, used in enumerate(self.used):
            mine = np.flatnonzero(kind == index)
            columns = [_texts(self.fields[name][rows][mine], f"{name}=").tolist() for name in used]
            if len(mine) and columns:
                text[mine] = _objects([" ".join(row) for row in zip(*columns, strict=True)])
        return text

    def _wait_text(self, rows: slice) -> Objects:
        text = np.full(rows.stop - rows.start, "", object)
        for name, column in self.waits.items():
            mine = np.flatnonzero(column[rows])
            text[mine] = text[mine] + _texts(column[rows][mine], f"wait:{name}=") + " "
        return text


def make_trace(program: Program, simulation: "Simulation") -> Trace:
    """The trace of ``program`` as it ran."""
    accelerator = program.accelerator
    names = _field_names(accelerator)
    parts: dict[str, list[Column]] = {name: [] for name in _FIXED}
    fields: dict[str, list[Column]] = {name: [] for name in names}
    waits: dict[str, list[Column]] = {}
    for number, result in enumerate(simulation.launches):
        count, timing = len(result.decoded), result.timing
        begin = result.launch.begin
        parts["launch"].append(np.full(count, number))
        parts["kind"].append(result.decoded.kind.astype(np.int64))
        parts["start"].append(timing.start + result.first_cycle if timing else np.full(count, -1))
        parts["end"].append(timing.end + result.first_cycle if timing else np.full(count, -1))
        parts["origin"].append(program.origin[begin : begin + count].astype(np.int64))
        for name in names:
            fields[name].append(result.decoded.column(name))
        for name, column in (timing.waits if timing else {}).items():
            waits.setdefault(name, []).append(column)
    return Trace(
        _joined(parts),
        _joined(fields),
        _joined(waits),
        tuple(result.launch.name for result in simulation.launches),
        tuple(instruction.name for instruction in accelerator.instructions),
        tuple(instruction.unit for instruction in accelerator.instructions),
        tuple(tuple(f.name for f in i.fields if f.value is None) for i in accelerator.instructions),
        tuple(_origin(origin) for origin in program.origins),
    )


def _joined(parts: dict[str, list[Column]]) -> dict[str, Column]:
    empty = np.zeros(0, np.int64)
    return {name: np.concatenate([empty, *arrays]) for name, arrays in parts.items()}


def _field_names(accelerator: Accelerator) -> list[str]:
    """Fields that vary, each once, in the order of the document."""
    return list(dict.fromkeys(f.name for i in accelerator.instructions for f in i.fields if f.value is None))


def _origin(origin: Origin) -> dict[str, Any]:
    return vars(origin) | {"nodes": list(origin.nodes)}


def _cause(name: str) -> str:
    return name if name in ("fetch", "memory") else "token"


def _narrow(column: Column) -> npt.NDArray[Any]:
    """The smallest signed type that holds the column."""
    low, high = int(column.min(initial=0)), int(column.max(initial=0))
    return column.astype(np.promote_types(np.min_scalar_type(min(low, -1)), np.min_scalar_type(-high - 1)))


def _plain(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)


def _csv(value: str) -> str:
    """A CSV cell; text that a spreadsheet would take for a formula is quoted with an apostrophe."""
    if value[:1] in ("=", "+", "-", "@"):
        value = "'" + value
    return '"' + value.replace('"', '""') + '"' if any(c in value for c in ',"\r\n') else value


def _origin_text(origin: dict[str, Any]) -> str:
    return f"; {origin['function']}#{origin['site']} {origin['pragma']} {origin['stage']} {_plain(origin['nodes'])}"


def _objects(values: Sequence[str]) -> Objects:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _texts(column: npt.NDArray[Any], prefix: str = "") -> Objects:
    """Numbers as text; columns of few different values, the most, are looked up in a table."""
    low, high = int(column.min(initial=0)), int(column.max(initial=0))
    if high - low < len(column):
        table = _objects([f"{prefix}{value}" for value in range(low, high + 1)])
        return np.asarray(table[column.astype(np.int64) - low])
    return _objects([f"{prefix}{value}" for value in column.tolist()])
