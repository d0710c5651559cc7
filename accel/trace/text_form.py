"""The trace as a disassembly."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from accel.program import Origin
from accel.trace.cells import Part, by_group, decimal, encoded, lookup, pack, render
from accel.trace.does import does_of
from accel.trace.names import Names
from accel.trace.rows import Rows
from accel.trace.source import Source, spread


def text_form(source: Source) -> Iterator[bytes]:
    """Some thousand lines at a time."""
    names = source.names
    launches = [encoded(f" {launch.name} ") for launch in names.launches]
    operations = [encoded(f"{operation.unit} {operation.name} ") for operation in names.operations]
    origins = [b"\n", *(encoded(_origin(origin)) for origin in names.origins)]
    for rows in spread(source, longest=max(map(len, [*launches, *origins]))):
        parts: list[Part] = [
            decimal(rows.index),
            lookup(launches, rows["launch"]),
            lookup(operations, rows["kind"]),
            decimal(rows["start"]),
            b" ",
            decimal(rows["end"]),
            [_fields(names, rows)],
        ]
        texts, which = does_of(rows)
        does = lookup([encoded(f"  : {text}" if text else "") for text in texts], which)
        tail = lookup(origins, rows["origin"] + 1)
        yield pack(render([*parts, *_waits(names, rows), does, tail], len(rows)))


def _fields(names: Names, rows: Rows) -> npt.NDArray[np.void]:
    """`` name=value`` for every field of the operation."""

    def parts(kind: int, lines: npt.NDArray[np.intp]) -> Iterator[Part]:
        for name in names.operations[kind].fields:
            yield encoded(f" {name}=")
            yield decimal(rows[f"field/{name}"][lines])

    return by_group(rows["kind"], len(names.operations), lambda kind, lines: list(parts(kind, lines)))


def _waits(names: Names, rows: Rows) -> Iterator[Part]:
    """`` wait:cause=cycles`` where there are some."""
    for cause in names.causes:
        cycles = rows[f"wait/{cause}"]
        waited = cycles != 0
        if waited.any():
            yield lookup([b"", encoded(f" wait:{cause}=")], waited)
            yield decimal(cycles, waited)


def _origin(origin: Origin) -> str:
    text = f"  ; {origin.function}#{origin.site} {origin.pragma} {origin.stage} {' '.join(origin.nodes)}"
    return text.rstrip() + "\n"
