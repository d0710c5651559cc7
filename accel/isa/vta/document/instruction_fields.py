"""VTA's instruction words and what they compute, as its documents say it.

Fields stand in the order of tvm-vta ``include/vta/hw_spec.h``, packed as its compiler packs them.
"""

from typing import Literal, NamedTuple

from accel.accelerator.instructions import BitField, Tokens

UNITS = ("load", "compute", "store")
WORD_BITS = 128
MICROOP_BITS = 32
LOAD, STORE, GEMM, FINISH, ALU = range(5)
SRAM_BITS = 16


class F(NamedTuple):
    """A field to be placed; ``value`` where it is constant."""

    name: str
    bits: int
    value: int | None = None


def pack(fields: list[F]) -> tuple[BitField, ...]:
    """Lay fields out from bit 0; whether they end within the instruction is for the caller."""
    placed, lsb = [], 0
    for name, bits, value in fields:
        if lsb % 64 + bits > 64:
            lsb += -lsb % 64
        kind: Literal["signed", "unsigned"] = "signed" if name == "imm" else "unsigned"
        placed.append(BitField(name=name, lsb=lsb, bits=bits, type=kind, value=value))
        lsb += bits
    return tuple(placed)


def head(opcode: int) -> list[F]:
    """What every instruction begins with."""
    return [F("opcode", 3, opcode), *(F(f"{act}_{side}", 1) for act in ("pop", "push") for side in ("prev", "next"))]


def tokens(unit: str) -> Tokens:
    """Prev is the unit before this one in load -> compute -> store, next the unit after it."""
    index = UNITS.index(unit)
    sides = {UNITS[at]: side for at, side in ((index - 1, "prev"), (index + 1, "next")) if 0 <= at < len(UNITS)}
    return Tokens(
        pop={other: f"pop_{side}" for other, side in sides.items()},
        push={other: f"push_{side}" for other, side in sides.items()},
    )


def copy_fields(opcode: int, memory_type: int, columns: int | None = None) -> tuple[BitField, ...]:
    """A LOAD's or STORE's fields; ``columns`` where the number of columns is constant."""
    places = [*head(opcode), F("memory_type", 3, memory_type), F("sram_base", SRAM_BITS), F("dram_base", 32)]
    sizes = [F("y_size", 16), F("x_size", 16, columns), F("x_stride", 16)]
    pads = [F(f"{axis}_pad_{side}", 4) for axis in "yx" for side in (0, 1)] if columns is None else []
    return pack([*places, *sizes, *pads])


def gemm_fields(bits: dict[str, int]) -> tuple[BitField, ...]:
    """GEMM's fields; ``bits`` are the index bits of each memory."""
    return pack([*_walk(GEMM, bits), *_steps(dst=bits["acc"], src=bits["inp"], wgt=bits["wgt"])])


def alu_fields(bits: dict[str, int]) -> tuple[BitField, ...]:
    """ALU's fields; ``bits`` are the index bits of each memory."""
    operation = [F("alu_opcode", 3), F("use_imm", 1), F("imm", 16)]
    return pack([*_walk(ALU, bits), *_steps(dst=bits["acc"], src=bits["acc"]), *operation])


def _walk(opcode: int, bits: dict[str, int]) -> list[F]:
    """What GEMM and ALU begin with: which micro-ops, and how often."""
    table = [F("uop_bgn", bits["uop"]), F("uop_end", bits["uop"] + 1)]
    return [*head(opcode), F("reset_reg", 1), *table, F("iter_out", 14), F("iter_in", 14)]


def _steps(**operands: int) -> list[F]:
    """The address steps of the two loops, for operands of so many index bits."""
    return [F(f"{operand}_factor_{side}", count) for operand, count in operands.items() for side in ("out", "in")]


def microop_fields(bits: dict[str, int]) -> tuple[BitField, ...]:
    """The three indices of a micro-op; src is an index of inp in GEMM, of acc in ALU."""
    sizes = {"dst_idx": bits["acc"], "src_idx": max(bits["acc"], bits["inp"]), "wgt_idx": bits["wgt"]}
    return pack([F(name, size) for name, size in sizes.items()])


ImmediateWith = Literal["dst", "src"]

ACCUMULATE = "dst[b, o] += i32(data[b, i]) * i32(weights[o, i])"
ZERO = "dst[b, o] = 0"

# a shift takes five bits of its count, and a negative count shifts left
_ALU = {
    "min": "min({x}, {y})",
    "max": "max({x}, {y})",
    "add": "{x} + {y}",
    "shift_right": "{x} >> select({y} < 0, -(-{y} & 31), {y} & 31)",
    "multiply": "{x} * {y}",
}
ALU_OPERATIONS = tuple(_ALU)


def two_operands(operation: str) -> str:
    """``dst = operation(dst, src)``."""
    return "dst[b, o] = " + _ALU[operation].format(x="dst[b, o]", y="src[b, o]")


def with_immediate(operation: str, first: ImmediateWith) -> str:
    """``dst = operation(first, imm)``."""
    return "dst[b, o] = " + _ALU[operation].format(x=f"{first}[b, o]", y="imm")
