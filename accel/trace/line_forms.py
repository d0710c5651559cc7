"""The trace as lines: CSV (RFC 4180, lines end with a line feed) and a disassembly."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from accel.program.program_model import InstructionOrigin
from accel.trace.text_columns import Part, by_group, decimal, encoded, lookup, pack, render
from accel.trace.trace_names import TraceNames
from accel.trace.trace_rows import Rows, RowSource, row_batches
from accel.util.arrays import Signed


def row_semantics(rows: Rows) -> tuple[list[str], Signed]:
    """Returns the distinct semantics of the rows, the first of them empty, and for each row (n,) the index of its own.

    A row's are empty where the document states none, or where its fields do not decide between several.
    """
    names: TraceNames = rows.names
    texts, which = [""], np.zeros(len(rows), np.int64)
    for kind, operation in enumerate(names.operations):
        lines = np.flatnonzero(rows["kind"] == kind) if operation.does else np.zeros(0, np.int64)
        if not len(lines):
            continue
        chosen = np.zeros(len(lines), np.int64)
        for meaning in operation.does:
            fits = np.ones(len(lines), np.bool_)
            for name, value in meaning.when.items():
                fits &= rows[f"field/{name}"][lines] == value
            texts.append(meaning.text)
            # one that fits beside another leaves it open
            chosen = np.where(fits, np.where(chosen == 0, len(texts) - 1, -1), chosen)
        which[lines] = np.maximum(chosen, 0)
    return texts, which


_ORIGIN = ("nodes", "function", "site", "pragma", "stage")


def csv_form(source: RowSource) -> Iterator[bytes]:
    """Yields the trace as CSV: the header, then some thousand lines at a time."""
    names = source.names
    waits = [f"wait_{cause}" for cause in names.causes] + [f"awaited_{cause}" for cause in names.causes_awaited]
    header = ["index", "launch", "unit", "op", "start", "end", *names.fields, *waits, *_ORIGIN]
    yield encoded(",".join(map(_quoted, header)) + "\n")
    launches = [encoded(f",{_quoted(launch.name)},") for launch in names.launches]
    operations = [encoded(f"{_quoted(o.unit)},{_quoted(o.name)},") for o in names.operations]
    origins = [b"," * len(_ORIGIN) + b"\n", *(encoded(_csv_origin(origin)) for origin in names.origins)]
    for rows in row_batches(source, longest=max(map(len, [*launches, *origins]))):
        heads: list[Part] = [
            decimal(rows.index),
            lookup(launches, rows["launch"]),
            lookup(operations, rows["kind"]),
            decimal(rows["start"]),
            b",",
            decimal(rows["end"]),
        ]
        tail = lookup(origins, rows["origin"] + 1)
        yield pack(render([*heads, *_csv_fields(names, rows), *_csv_waits(names, rows), tail], len(rows)))


def _csv_fields(names: TraceNames, rows: Rows) -> Iterator[Part]:
    """Each after its comma, and empty where the operation has no such field."""
    for name in names.fields:
        yield b","
        has = np.array([name in operation.fields for operation in names.operations])
        yield decimal(rows[f"field/{name}"], None if has.all() else np.take(has, rows["kind"]))


def _csv_waits(names: TraceNames, rows: Rows) -> Iterator[Part]:
    for cause in names.causes:
        yield b","
        yield decimal(rows[f"wait/{cause}"])
    for cause in names.causes_awaited:
        back = rows[f"awaited/{cause}"]
        yield b","
        yield decimal(rows.index - back, back != 0)


def _csv_origin(origin: InstructionOrigin) -> str:
    cells = [" ".join(origin.nodes), *(str(getattr(origin, name)) for name in _ORIGIN[1:])]
    return "".join(f",{_quoted(cell)}" for cell in cells) + "\n"


def _quoted(value: str) -> str:
    """A cell; text that a spreadsheet would take for a formula gets an apostrophe."""
    if value[:1] in ("=", "+", "-", "@"):
        value = "'" + value
    return '"' + value.replace('"', '""') + '"' if any(c in value for c in ',"\r\n') else value


def text_form(source: RowSource) -> Iterator[bytes]:
    """Yields the trace as a disassembly, some thousand lines at a time."""
    names = source.names
    launches = [encoded(f" {launch.name} ") for launch in names.launches]
    operations = [encoded(f"{operation.unit} {operation.name} ") for operation in names.operations]
    origins = [b"\n", *(encoded(_text_origin(origin)) for origin in names.origins)]
    for rows in row_batches(source, longest=max(map(len, [*launches, *origins]))):
        parts: list[Part] = [
            decimal(rows.index),
            lookup(launches, rows["launch"]),
            lookup(operations, rows["kind"]),
            decimal(rows["start"]),
            b" ",
            decimal(rows["end"]),
            [_text_fields(names, rows)],
        ]
        texts, which = row_semantics(rows)
        does = lookup([encoded(f"  : {text}" if text else "") for text in texts], which)
        tail = lookup(origins, rows["origin"] + 1)
        yield pack(render([*parts, *_text_waits(names, rows), does, tail], len(rows)))


def _text_fields(names: TraceNames, rows: Rows) -> npt.NDArray[np.void]:
    """`` name=value`` for every field of the operation."""

    def parts(kind: int, lines: npt.NDArray[np.intp]) -> Iterator[Part]:
        for name in names.operations[kind].fields:
            yield encoded(f" {name}=")
            yield decimal(rows[f"field/{name}"][lines])

    return by_group(rows["kind"], len(names.operations), lambda kind, lines: list(parts(kind, lines)))


def _text_waits(names: TraceNames, rows: Rows) -> Iterator[Part]:
    """`` wait:cause=cycles`` where there are some."""
    for cause in names.causes:
        cycles = rows[f"wait/{cause}"]
        waited = cycles != 0
        if waited.any():
            yield lookup([b"", encoded(f" wait:{cause}=")], waited)
            yield decimal(cycles, waited)
        if cause in names.causes_awaited and (some := (back := rows[f"awaited/{cause}"]) != 0).any():
            yield lookup([b"", encoded(f" awaited:{cause}=")], some)
            yield decimal(rows.index - back, some)


def _text_origin(origin: InstructionOrigin) -> str:
    text = f"  ; {origin.function}#{origin.site} {origin.pragma} {origin.stage} {' '.join(origin.nodes)}"
    return text.rstrip() + "\n"
