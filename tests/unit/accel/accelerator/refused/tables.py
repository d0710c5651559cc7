"""Tables that hold what they cannot, or that nothing looks anything up in."""

from typing import Any

from tests.unit.accel.accelerator.refused.case import REMOVED, Case

_LOOK, _LOAD = "instructions/look/operations/curve/does", "instructions/load_v8/operations/widen/does"


def _with(place: int, value: Any) -> Any:
    """The numbers with one changed."""
    return lambda old: [*old[:place], value, *old[place + 1 :]]


def _renamed(name: str) -> Any:
    return lambda old: [old[0], old[1] | {"name": name}]


TABLES = (
    Case(
        "a table of 255 bytes", "tables", "tables/gelu/values", lambda old: old[1:], "tables/gelu/values",
        "at least 256|found 255", beyond_types=False,
    ),
    Case(
        "a table of 257 bytes", "tables", "tables/gelu/values", lambda old: [*old, 0], "tables/gelu/values",
        "at most 256|found 257", beyond_types=False,
    ),
    Case(
        "a number that its type cannot hold", "tables", "tables/gelu/values", _with(7, 40000), "tables/gelu/values/7",
        "40000; gelu has numbers of int16, -32768 to 32767",
    ),
    Case(
        "a fraction among integers", "tables", "tables/gelu/values", _with(0, 0.5), "tables/gelu/values/0",
        "0.5; gelu has numbers of int16",
    ),
    Case(
        "a point beyond float32", "tables", "tables/curve/values", _with(2, 1e39), "tables/curve/values/2",
        "a float32 is 3.40282e.38 at most",
    ),
    Case(
        "a point that is no number", "tables", "tables/curve/values", _with(1, "one"), "tables/curve/values/1",
        "number", beyond_types=False,
    ),
    Case(
        "a curve of one point", "tables", "tables/curve/values", [1.0], "tables/curve/values", "at least 2|found 1",
        beyond_types=False,
    ),
    Case(
        "a curve that ends where it begins", "tables", "tables/curve/high", -8, "tables/curve/high",
        "-8; it is above low, -8",
    ),
    Case(
        "a curve the wrong way round", "tables", "tables/curve/low", 4.5, "tables/curve/high",
        "0; it is above low, 4.5",
    ),
    Case(
        "a table of 16-bit numbers", "tables", "tables/gelu/of", "int16", "tables/gelu/of", "int8", beyond_types=False
    ),
    Case(
        "a table of no kind", "tables", "tables/gelu/kind", "function", "tables/gelu", "bytes.*interpolated",
        beyond_types=False,
    ),
    Case(
        "a curve with a type", "tables", "tables/curve", lambda old: old | {"dtype": "int8"}, "tables/curve/dtype",
        "no key 'dtype' here", beyond_types=False,
    ),
    Case("two tables of one name", "tables", "tables", _renamed("gelu"), "tables/1", "there are two called gelu"),
    Case(
        "a table that nobody looks into", "tables", _LOOK, "Y[0] = exp(A[0])", "tables/curve",
        "no expression looks anything up in curve; use it, or leave it out",
    ),
    Case("a table that is not there", "tables", "tables", REMOVED, _LOAD, "found the table gelu; expected none"),
    Case(
        "a table by another name", "tables", _LOOK, "Y[0] = lut(curves, A[0])", _LOOK,
        "found the table curves; expected one of gelu, curve",
    ),
    Case(
        "a float where a byte is due", "tables", _LOOK, "Y[0] = f32(lut(gelu, A[0]))", _LOOK,
        r"A\[0\] is float32; expected int8",
    ),
    Case(
        "a byte where a float is due", "tables", _LOAD, "sram[l] = lut(curve, dram[l])", _LOAD,
        r"dram\[l\] is int8; expected float32",
    ),
    Case(
        "a table as a scalar", "tables", _LOOK, "Y[0] = A[0] * curve", _LOOK, "found the scalar curve; expected one of",
    ),
    Case(
        "a lookup by a float", "tables", _LOOK, "Y[0] = lut(A[0], A[0])", _LOOK,
        r"A\[0\] is float32; A\[0\] is by integers: cast it",
    ),
    Case(
        "a lookup in an operand of one number", "tables", _LOOK, "Y[0] = lut(A[0], i8(A[0]))", _LOOK,
        r"int8 from A\[0\] on goes from -128 to 127; expected at least 0 and at most 0",
    ),
    Case(
        "a lookup in an operand without a place for 0", "tables", _LOOK, "Y[0] = lut(A[n], i8(A[n]))", _LOOK,
        r"the last index of a table is where its number of 0 is, an integer",
    ),
)  # fmt: skip
