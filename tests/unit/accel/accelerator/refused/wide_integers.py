"""Integers of 48 and 64 bits, and what a store reads beside, wrongly said."""

from typing import Any

from tests.unit.accel.accelerator.refused.case import REMOVED, Case

_MULTIPLY = "instructions/matmul/operations/multiply/does"
_STORE = "instructions/store_acc8"
_DOES = f"{_STORE}/operations/requantise/does"


def _product(name: str, text: str, reason: str) -> Case:
    return Case(name, "mvin-mvout", _MULTIPLY, text, _MULTIPLY, reason)


def _stored(name: str, text: str, reason: str) -> Case:
    return Case(name, "channel stores", _DOES, text, _DOES, reason)


def _operand(name: str, operands: dict[str, Any], field: str, reason: str) -> Case:
    return Case(name, "channel stores", f"{_STORE}/operands", operands, f"{_STORE}/operands/{field}", reason)


def _reading_beside(old: Any) -> Any:
    fields = {role: field for role, field in old["copy_fields"].items() if role != "columns"}
    return old | {"copy_fields": fields, "operands": {"M": {"memory": "scales", "address": "columns"}}}


_M = {"memory": "scales", "address": "m"}

WIDE_INTEGERS = (
    Case(
        "48 bits in DRAM",
        "mvin-mvout",
        "instructions/mvin_c/dram_dtype",
        "int48",
        "instructions/mvin_c/dram_dtype",
        "int48",
        beyond_types=False,
    ),
    Case(
        "a memory of 40 bits",
        "mvin-mvout",
        "memories/c/dtype",
        "int40",
        "memories/c/dtype",
        "int40",
        beyond_types=False,
    ),
    Case("data of 48 bits", "mvin-mvout", "memories/a/dtype", "int48", "memories/a/dtype", "int8 or uint8"),
    Case(
        "sums that are wider than their product",
        "mvin-mvout",
        "memories/c/dtype",
        "int48",
        _MULTIPLY,
        "is int32; expected int48: cast",
    ),
    _product(
        "a product that is wider than its sum",
        "C[i, j] += i48(A[i, k]) * i48(B[k, j])",
        "is int48; expected int32",
    ),
    _product(
        "factors of two widths",
        "C[i, j] += i32(i48(A[i, k]) * i64(B[k, j]))",
        "is int48 and .* is int64; expected equal types",
    ),
    _product("a cast to 40 bits", "C[i, j] += i40(A[i, k]) * i32(B[k, j])", "i40"),
    _product(
        "an operand with a cast's name", "C[i, j] += i32(i48[i, k]) * i32(B[k, j])", "found '\\['; expected '\\('"
    ),
    _product(
        "a number beyond 48 bits",
        "C[i, j] += i32(i48(A[i, k]) + 140737488355328) * i32(B[k, j])",
        "expected an integer from -140737488355328 to 140737488355327",
    ),
    _product("a function of 64 bits", "C[i, j] += i32(exp(i64(A[i, k]))) * i32(B[k, j])", "is int64; expected float32"),
    _stored("a product that nothing narrows", "dram[l] = i64(sram[l]) * i64(M[l]) >> down", "int64; expected int8"),
    _stored(
        "an element that is no operand",
        "dram[l] = i8(i64(sram[l]) * i64(N[l]) >> down)",
        "a store writes dram and reads sram, M",
    ),
    _stored("an operand that a store writes", "M[l] = i32(sram[l])", "a store writes dram and reads sram, M"),
    _stored(
        "an operand of another rank", "dram[l] = i8(i64(sram[l]) * i64(M[0, l]) >> down)", "has 2 indices; expected 1"
    ),
    _stored("an operand at two places", "dram[l] = i8(sram[l] * M[l] + M[0])", "expected the same indices everywhere"),
    _operand("an operand of a memory that is not there", {"M": _M | {"memory": "scale"}}, "M/memory", "scale"),
    _operand("an operand without an address", {"M": {"memory": "scales"}}, "M/address", "it needs an address"),
    _operand("an operand at no field", {"M": _M | {"address": "at"}}, "M/address", "no field at"),
    _operand("an operand of several elements", {"M": _M | {"shape": [2, 64]}}, "M/shape", "leave the shape out"),
    _operand("an operand that stays", {"M": _M | {"stays": True}}, "M/stays", "keeps nothing"),
    _operand(
        "an operand with the name of an end",
        {"M": _M, "sram": _M | {"address": "down"}},
        "sram",
        "is an end of the copy",
    ),
    _operand(
        "an operand that no expression reads",
        {"M": _M, "N": _M | {"address": "down"}},
        "N",
        "no operation of store_acc8 uses N",
    ),
    Case(
        "an address that does not reach",
        "channel stores",
        "memories/scales/depth",
        1 << 17,
        "instructions/store_acc8/operands/M/address",
        "reaches 65536 of the 131072 elements of scales",
    ),
    Case(
        "a load that reads beside",
        "channel stores",
        "instructions/load_acc",
        _reading_beside,
        "instructions/load_acc/operands/M",
        "a load reads DRAM alone",
    ),
    Case(
        "multipliers that nothing loads",
        "channel stores",
        "instructions/load_scales",
        REMOVED,
        "memories/scales",
        "nothing fills scales",
    ),
)
