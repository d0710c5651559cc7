"""A lookup in a table as TIR for the host, which has the same bits on every processor."""

from typing import Any

from tvm import tirx

from accel.expression.float_functions import constant, fenced, named
from accel.expression.lookup_tables import LookupTable

Value = Any  # a tirx.Expr; TVM's operators are untyped


def lookup(table: LookupTable, buffer: Any, x: Value, index_type: str) -> Value:
    """Returns the number of ``x`` in a table, whose numbers are in ``buffer``.

    Between points it is computed in float64, each operation rounded by itself, and rounded once more at the end.
    """
    if not table.interpolates:
        least = 128 if table.of == "int8" else 0
        return tirx.BufferLoad(buffer, [tirx.Cast(index_type, x) + tirx.const(least, index_type)])
    lines = len(table.values) - 1
    # as min and max of the language, of which a NaN becomes the second: it is taken for the first point
    low, high = constant(table.low), constant(table.high)
    wide = tirx.Cast("float64", x)

    def between(held: Value) -> Value:
        return named(fenced(fenced(held - low) * constant(lines / (table.high - table.low))), along)

    def along(place: Value) -> Value:
        first = tirx.min(tirx.Cast(index_type, place), tirx.const(lines - 1, index_type))
        return named(first, lambda k: line(place, k))

    def line(place: Value, k: Value) -> Value:
        begin, end = (tirx.BufferLoad(buffer, [k + tirx.const(at, index_type)]) for at in (0, 1))
        part = fenced(fenced(place - tirx.Cast("float64", k)) * fenced(end - begin))
        return tirx.Cast("float32", fenced(begin + part))

    raised = tirx.Select(wide > low, wide, low)
    return named(raised, lambda above: named(tirx.Select(above < high, above, high), between))
