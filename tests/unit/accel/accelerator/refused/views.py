"""Views of the same bytes, dimensions of copies, and what stores read of channels, wrongly said."""

from typing import Any

from tests.unit.accel.accelerator.refused.case import REMOVED, Case

_LOAD, _WEIGHTS, _STORE = "instructions/load_data", "instructions/load_weights", "instructions/store_scaled"
_OUTER = f"{_LOAD}/dimensions/0"
_DOES = f"{_STORE}/operations/requantise/does"


def _memory(name: str, key: str, value: Any, reason: str, where: str = "", *, beyond: bool = True) -> Case:
    id_ = f"{key} of {name} that is {value}"
    path = f"memories/{name}/{key}"
    return Case(id_, "vector file", path, value, where or path, reason, beyond)


def _depths(**depths: int) -> Any:
    return lambda old: [each | {"depth": depths[each["name"]]} for each in old]


def _uneven(old: Any) -> Any:
    """96 bytes in all but one divide the bytes, and 6 do not divide 64."""
    made = _depths(v32=384, v8=384, s8=4096, f=6144)(old)
    return [each | {"shape": [6]} if each["name"] == "s8" else each for each in made]


def _idle(old: Any) -> Any:
    return [
        *old,
        old[0] | {"name": "halves", "scope": "local.halves", "dtype": "int16", "shape": [32], "view_of": "v32"},
    ]


def _thrice(old: Any) -> Any:
    """A copy with a third dimension, and fields of its own for it."""
    roles = {"extent": "planes", "dram_stride": "plane", "sram_stride": "chip_plane"}
    fields = [{"name": name, "lsb": 128 + 16 * at, "bits": 16} for at, name in enumerate(roles.values())]
    return old | {"dimensions": [*old["dimensions"], roles], "fields": [*old["fields"], *fields]}


def _field(name: str, **changes: int | str) -> tuple[str, Any]:
    return f"fields/{name}", lambda old: old | changes


def _dimension(
    id_: str, part: str, value: Any, at: str, reason: str, load: str = _LOAD, *, beyond: bool = True
) -> Case:
    return Case(id_, "vector file", f"{load}/{part}", value, f"{load}/{at}", reason, beyond)


def _stored(id_: str, text: str, reason: str) -> Case:
    return Case(id_, "channel scales", _DOES, text, _DOES, reason)


VIEWS = (
    _memory("v8", "view_of", "v9", "there is no memory v9"),
    _memory("s8", "view_of", "v8", "v8 is a view itself; a view is of a memory that has bytes of its own"),
    _memory("v32", "view_of", "v32", "v32 is a view itself"),
    _memory("v8", "view_of", 8, "valid string", beyond=False),
    _memory("v8", "depth", 511, "511 elements are 32704 bytes, and v32 has 32768; expected 512"),
    _memory("s8", "shape", [3], "no number of its elements has as many", "memories/s8/depth"),
    _memory("f", "ports", 2, "2; they are those of v32, which has 3"),
    _memory("v8", "banks", 2, "banks are of memories without"),
    _memory("v32", "dtype", "int48", "no view has numbers of 48 bits"),
    Case("views of uneven elements", "vector file", "memories", _uneven, "memories/s8/shape", "whole multiples"),
    Case("a view that nothing uses", "vector file", "memories", _idle, "memories/halves", "no instruction uses halves"),
    Case(
        "operands that do not fit together", "vector file", "memories", _depths(v32=1, v8=1, s8=16, f=16),
        "memories/v32/depth", "64 bytes; dot works on 132 of v32 at once",
    ),
    Case(
        "sums that are seen as bytes", "vector file", "instructions/ints/operands/S/memory", "v8",
        "instructions/ints/operations/add/does", "has 1 ind.*; expected 2",
    ),
    _dimension("an extent that is no field", "dimensions/0/extent", "planes", "dimensions/0/extent", "no field planes"),
    _dimension(
        "one extent for two dimensions", "dimensions/1/extent", "outer", "dimensions/1/extent",
        "outer is dimensions.0.extent already",
    ),
    Case(
        "five extents", "vector file", "instructions/load_float", _thrice, "instructions/load_float/dimensions",
        "3 dimensions; there may be 2 beside rows",
    ),
    _dimension("more than three dimensions", "dimensions", lambda old: [*old, *old], "dimensions", "3", beyond=False),
    _dimension(
        "a dimension without a stride", "dimensions/0/dram_stride", REMOVED, "dimensions/0/dram_stride",
        "the key is missing", beyond=False,
    ),
    _dimension(
        "a limit of a dimension beyond its field", "dimensions/0/limit", 1 << 16, "dimensions/0/limit",
        "holds 65535 at most",
    ),
    _dimension(
        "a stride that holds no element", *_field("outer_dram", bits=6), "dimensions/0/dram_stride",
        "a stride is 64 at least; it needs 7 bits", _WEIGHTS,
    ),
    _dimension("a stride of no bits", *_field("outer_sram", bits=0), "dimensions/0/sram_stride", "it needs 1 bit"),
    _dimension("an extent of no bits", *_field("inner", bits=0), "dimensions/1/extent", "can only be 0"),
    _dimension(
        "a stride that goes back", *_field("inner_sram", type="signed"), "dimensions/1/sram_stride", "must be unsigned"
    ),
    _dimension(
        "an extent of a million", *_field("outer", lsb=144, bits=24), "dimensions/0/extent", "24 bits; at most 20"
    ),
    _dimension(
        "a constant extent", *_field("outer", value=2), "dimensions/0/extent", "a role needs a field without a value",
    ),
    Case(
        "two operands at one field", "channel scales", f"{_STORE}/operands/S/address", "b",
        f"{_STORE}/operands/B/address", "b is operands.S.address already",
    ),
    Case(
        "shifts of one channel", "channel scales", f"{_STORE}/operands/S/memory", "x", _DOES, "axis l of .* expected",
    ),
    _stored(
        "a bias of another width",
        "dram[l] = i8(clip((i64(sram[l]) + B[l]) * i64(M[l]) >> i64(S[l]), low, high))",
        "expected equal types",
    ),
    _stored(
        "a shift at two places",
        "dram[l] = i8(clip((i64(sram[l] + B[l]) * i64(M[l]) + (i64(1) << i64(S[0]))) >> i64(S[l]), low, high))",
        "expected the same indices everywhere",
    ),
    Case(
        "a shift that no expression reads", "channel scales", _DOES,
        "dram[l] = i8(clip(i64(sram[l] + B[l]) * i64(M[l]) >> 31, low, high))",
        f"{_STORE}/operands/S", "no operation of store_scaled uses S",
    ),
)  # fmt: skip
