"""The trace as CSV (RFC 4180, lines end with a line feed)."""

from collections.abc import Iterator

import numpy as np

from accel.program import Origin
from accel.trace.cells import Part, decimal, encoded, lookup, pack, render
from accel.trace.names import Names
from accel.trace.rows import Rows
from accel.trace.source import Source, spread

_ORIGIN = ("nodes", "function", "site", "pragma", "stage")


def csv_form(source: Source) -> Iterator[bytes]:
    """The header, then some thousand lines at a time."""
    names = source.names
    waits = [f"wait_{cause}" for cause in names.causes]
    header = ["index", "launch", "unit", "op", "start", "end", *names.fields, *waits, *_ORIGIN]
    yield encoded(",".join(map(_quoted, header)) + "\n")
    launches = [encoded(f",{_quoted(launch.name)},") for launch in names.launches]
    operations = [encoded(f"{_quoted(o.unit)},{_quoted(o.name)},") for o in names.operations]
    origins = [b"," * len(_ORIGIN) + b"\n", *(encoded(_origin(origin)) for origin in names.origins)]
    for rows in spread(source, longest=max(map(len, [*launches, *origins]))):
        heads: list[Part] = [
            decimal(rows.index),
            lookup(launches, rows["launch"]),
            lookup(operations, rows["kind"]),
            decimal(rows["start"]),
            b",",
            decimal(rows["end"]),
        ]
        tail = lookup(origins, rows["origin"] + 1)
        yield pack(render([*heads, *_fields(names, rows), *_waits(names, rows), tail], len(rows)))


def _fields(names: Names, rows: Rows) -> Iterator[Part]:
    """Each after its comma, and empty where the operation has no such field."""
    for name in names.fields:
        yield b","
        has = np.array([name in operation.fields for operation in names.operations])
        yield decimal(rows[f"field/{name}"], None if has.all() else np.take(has, rows["kind"]))


def _waits(names: Names, rows: Rows) -> Iterator[Part]:
    for cause in names.causes:
        yield b","
        yield decimal(rows[f"wait/{cause}"])


def _origin(origin: Origin) -> str:
    cells = [" ".join(origin.nodes), *(str(getattr(origin, name)) for name in _ORIGIN[1:])]
    return "".join(f",{_quoted(cell)}" for cell in cells) + "\n"


def _quoted(value: str) -> str:
    """A cell; text that a spreadsheet would take for a formula gets an apostrophe."""
    if value[:1] in ("=", "+", "-", "@"):
        value = "'" + value
    return '"' + value.replace('"', '""') + '"' if any(c in value for c in ',"\r\n') else value
