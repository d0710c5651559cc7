"""Copies that the compiler has no use for: what is loaded is changed, or what is stored is no result."""

from typing import Any

from tests.unit.accel.accelerator.refused.case import Case


def _doing(does: str, **fields: Any) -> Any:
    """A copy with an expression, and with fields that it names."""
    operation = {"name": "copy", "does": does}
    return lambda old: old | {"operations": [operation], "fields": [*old["fields"], *fields.values()]}


def _only(store: str, **changes: Any) -> Any:
    """The instructions with one store, changed."""

    def left(old: Any) -> Any:
        kept = [one for one in old if one["name"] == store or one.get("direction") != "store"]
        return [one | changes if one["name"] == store else one for one in kept]

    return left


def _plainly(*names: str) -> Any:
    """The instructions without those of these names, and stores without expressions."""
    return lambda old: [
        {key: value for key, value in one.items() if key != "operations" or one["kind"] != "copy"}
        for one in old
        if one["name"] not in names
    ]


def _store(does: str) -> list[dict[str, str]]:
    return [{"name": "store", "does": does}]


_LOAD, _C = "instructions/load_w", "instructions/load_c"
_WORD = "instructions/load_w/operations/0/does"

COPIES = (
    Case(
        "weights that are doubled on the way", "vector", _LOAD, _doing("sram[l] = dram[l] << 1"), _WORD,
        r"load_w does sram\[l\] = dram\[l\] << 1, and vmac needs a load .* as it is; expected sram\[l\] = dram\[l\]",
    ),
    Case(
        "a load that clears", "vector", _LOAD, _doing("sram[l] = 0"), _WORD, r"load_w does sram\[l\] = 0, and vmac",
    ),
    Case(
        "a load that adds", "vector", _LOAD, _doing("sram[l] += dram[l]"), _WORD,
        r"load_w does sram\[l\] \+= dram\[l\], and vmac",
    ),
    Case(
        "accumulators that begin as half the bias", "mvin-mvout", "instructions/mvin_c",
        _doing("sram[i, j] = dram[i, j] >> 1"), "instructions/mvin_c/operations/0/does",
        r"mvin_c does .* >> 1, so nothing begins the sums of matmul: it must also do C\[...\] = 0, or a copy must load",
    ),
    Case(
        "a load that transposes", "output-stationary", _C, _doing("sram[m, n] = dram[n, m]"),
        "instructions/load_c/operations/0/does",
        "moves scalars within an element; a load has the same indices on both sides",
    ),
    Case(
        "a store of one row for all", "output-stationary", "instructions/store_scaled/operations/scale/does",
        "dram[m, n] = i8(clip(rint(f32(sram[0, n]) * scale), -128, 127))",
        "instructions/store_scaled/operations/scale/does", "moves scalars within an element; a store has",
    ),
    Case(
        "results of 16 bits", "mvin-mvout", "instructions/mvout/dram_dtype", "int16", "instructions/mvout/dram_dtype",
        "mvout stores int16: no store brings results of matmul to the host; results leave as int32 as they are",
    ),
    Case(
        "results that are shifted and cut", "output-stationary", "instructions",
        _only("store_scaled", operations=_store("dram[m, n] = i8(sram[m, n] >> 4)")),
        "instructions/store_scaled/operations/0/does",
        r"store_scaled stores int8 by dram\[m, n\] = i8\(sram\[m, n\] >> 4\): no store brings results of multiply",
    ),
    Case(
        "results that are scaled and not rounded", "output-stationary", "instructions",
        _only("store_scaled", operations=_store("dram[m, n] = i8(clip(f32(sram[m, n]) * scale, -128, 127))")),
        "instructions/store_scaled/operations/0/does", r"no store brings results .*rint\(f32\(sram\) \* scale",
    ),
    Case(
        "low bits that nothing shifts before", "output-stationary", "instructions", _plainly("store_c"),
        "instructions/store_scaled/dram_dtype", "stores int8: no store brings .*beside operations that shift",
    ),
)  # fmt: skip
