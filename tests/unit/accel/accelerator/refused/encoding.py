"""Fields that lie wrong, or that are too narrow or too wide for what they hold."""

from typing import Any

from tests.unit.accel.accelerator.refused.case import REMOVED, Case


def _with(**more: Any) -> Any:
    return lambda old: old | more


def _moved(**fields: Any) -> Any:
    """The fields, with those of these names changed."""
    return lambda old: [field | fields.get(field["name"], {}) for field in old]


def _lacking(*roles: str) -> Any:
    return lambda old: {role: field for role, field in old.items() if role not in roles}


ENCODING = (
    Case(
        "a field beyond the word", "mvin-mvout", "instructions/mvout/fields/dram/lsb", 100,
        "instructions/mvout/fields/dram", "dram ends at bit 132; the last bit is 127",
    ),
    Case(
        "a field across words", "vector", "instructions/vmac/fields/w/lsb", 56, "instructions/vmac/fields/w",
        "w has bits 56 to 71; it must lie in one 64-bit word",
    ),
    Case(
        "fields that share bits", "output-stationary", "instructions/multiply/fields/a/bits", 20,
        "instructions/multiply/fields/b", "b shares bits with a, which ends before bit 36",
    ),
    Case(
        "a field over the opcode", "mvin-mvout", "instructions/mvin_b/fields/tile/lsb", 4,
        "instructions/mvin_b/fields/tile", "tile shares bits with opcode, which ends before bit 8",
    ),
    Case(
        "an opcode twice", "mvin-mvout", "instructions/mvin_b/fields/opcode/value", 1, "instructions/mvin_b/fields",
        "mvin_b cannot be told from mvin_a: some bits must be constant in both and differ",
    ),
    Case(
        "an instruction without an opcode", "vector", "instructions/store_acc8/fields/opcode/value", REMOVED,
        "instructions/store_acc8/fields", "store_acc8 cannot be told from load_x",
    ),
    Case(
        "opcodes of two widths that are one", "vector", "instructions/vmac/fields/opcode/value", 7,
        "instructions/store_acc/fields", "store_acc cannot be told from vmac",
    ),
    Case(
        "a part that is encoded as another", "parts", "instructions/factors/fields/opcode/value", 4,
        "instructions/go/fields", "go cannot be told from factors",
    ),
    Case(
        "an opcode too large", "mvin-mvout", "instructions/mvout/fields/opcode/value", 256,
        "instructions/mvout/fields/opcode", "256 does not fit the 8 bits of opcode, which hold up to 255",
    ),
    Case(
        "a scale of 31 bits", "output-stationary", "instructions/store_scaled/fields/scale/bits", 31,
        "instructions/store_scaled/fields/scale", "scale is float32 and has 31 bits; it must have 32",
    ),
    Case(
        "a constant that is signed", "vector", "instructions/valu/fields/opcode/type", "signed",
        "instructions/valu/fields/opcode", "opcode is constant and signed; it must be unsigned",
    ),
    Case(
        "an immediate without bits", "vector", "instructions/valu/fields/imm/bits", 0, "instructions/valu/fields/imm",
        "imm is signed and has no bits; it needs 1",
    ),
    Case(
        "an immediate of 40 bits", "vector", "instructions/valu/fields",
        _moved(imm={"lsb": 88, "bits": 40}, src_step={"lsb": 48}), "instructions/valu/operations/add_immediate/does",
        "imm has 40 bits; a number in an expression has 32 at most",
    ),
    Case(
        "an address too narrow for its memory", "output-stationary", "instructions/load_a/fields/sram/bits", 8,
        "instructions/load_a/copy_fields/sram",
        "sram has 8 bits and reaches 256 of the 4096 elements of a; 12 bits reach all",
    ),
    Case(
        "an operand's address too narrow", "vector", "instructions/vmac/fields/x/bits", 12,
        "instructions/vmac/operands/X/address",
        "x has 12 bits and reaches 4096 of the 8192 elements of x; 13 bits reach all",
    ),
    Case(
        "a result's address too narrow", "parts", "instructions/go/fields/c_tile/bits", 6,
        "instructions/matmul/operands/C/address",
        "c_tile has 6 bits and reaches 64 of the 128 elements of c; 7 bits reach all",
    ),
    Case(
        "a memory deeper than its addresses", "mvin-mvout", "memories/b/depth", 1 << 17,
        "instructions/mvin_b/copy_fields/sram", "reaches 65536 of the 131072 elements of b; 17 bits reach all",
    ),
    Case(
        "a DRAM address of one tensor", "mvin-mvout", "instructions/mvin_a/fields/dram/bits", 6,
        "instructions/mvin_a/copy_fields/dram",
        "counts bytes: it reaches 64 bytes of DRAM, .* 64 bytes apart; 7 bits reach two",
    ),
    Case(
        "a DRAM address of less than the memory", "vector", "instructions/load_x/fields/dram/bits", 10,
        "instructions/load_x/copy_fields/dram",
        "dram has 10 bits .*: it reaches 1024 bytes of DRAM, less than the 8192 that fill x; 13 bits do",
    ),
    Case(
        "padded rows, one at a time", "vector", "instructions/load_x/fields/rows/bits", 1,
        "instructions/load_x/copy_fields/rows",
        "rows has 1 bits and holds 1, and the copy pads rows: two at least; it needs 2 bits",
    ),
    Case(
        "padded columns, one at a time", "vector", "instructions/load_x/fields/columns/bits", 1,
        "instructions/load_x/copy_fields/columns", "and the copy pads columns: two at least; it needs 2 bits",
    ),
    Case(
        "padded rows, one beside the other", "vector", "instructions/load_x/fields/row_stride/bits", 1,
        "instructions/load_x/copy_fields/row_stride",
        "row_stride has 1 bits, and the copy pads rows, which lie 2 elements apart at least; it needs 2 bits",
    ),
    Case(
        "a DRAM address of 60 bits", "mvin-mvout", "instructions/mvin_a/fields/dram/bits", 60,
        "instructions/mvin_a/copy_fields/dram", "dram has 60 bits; at most 48",
    ),
    Case(
        "an extent without bits", "output-stationary", "instructions/multiply/fields/k/bits", 0,
        "instructions/multiply/loops/0/extent", "k has 0 bits and can only be 0; it needs 1 bit at least",
    ),
    Case(
        "an extent of 32 bits", "output-stationary", "instructions/multiply/fields",
        _moved(k={"bits": 32}, a_step={"lsb": 48}), "instructions/multiply/loops/0/extent", "k has 32 bits; at most 20",
    ),
    Case(
        "rows without bits", "vector", "instructions/store_acc/fields/rows/bits", 0,
        "instructions/store_acc/copy_fields/rows", "rows has 0 bits and can only be 0",
    ),
    Case(
        "a step of 40 bits", "vector", "instructions/vmac/fields", _moved(w_step={"lsb": 128, "bits": 40}),
        "instructions/vmac/fields/w_step", "ends at bit 168; the last bit is 127",
    ),
    Case(
        "a stride too narrow for an element", "output-stationary", "instructions/store_c/fields/row_stride/bits", 8,
        "instructions/store_c/copy_fields/row_stride",
        "row_stride has 8 bits, and a stride is 256 bytes at least; it needs 9 bits",
    ),
    Case(
        "a limit beyond its field", "output-stationary", "instructions/multiply/loops/0", _with(limit=1 << 16),
        "instructions/multiply/loops/0/limit", "65536; its field of 16 bits holds 65535 at most",
    ),
    Case(
        "most rows beyond their field", "vector", "instructions/load_x", _with(max_rows=1 << 16),
        "instructions/load_x/max_rows", "65536; its field of 16 bits holds 65535 at most",
    ),
    Case(
        "an address that is signed", "mvin-mvout", "instructions/mvin_a/fields/tile/type", "signed",
        "instructions/mvin_a/copy_fields/sram", "tile is signed; it must be unsigned",
    ),
    Case(
        "an address that is constant", "mvin-mvout", "instructions/matmul/fields/a_tile", _with(value=0),
        "instructions/matmul/operands/A/address", "a_tile is constant; a role needs a field without a value",
    ),
    Case(
        "one field for two addresses", "mvin-mvout", "instructions/matmul/operands/B/address", "a_tile",
        "instructions/matmul/operands/B/address",
        "a_tile is operands.A.address already; each role needs a field of its own",
    ),
    Case(
        "an extent that also chooses", "vector", "instructions/vmac/operations/zero/when", {"count": 1},
        "instructions/vmac/operations/zero/when/count",
        "count is loops.0.extent too; what chooses an operation must be another field",
    ),
    Case(
        "a choice that does not fit", "vector", "instructions/vmac/operations/zero/when", {"op": 4},
        "instructions/vmac/operations/zero/when/op", "4; op of 2 bits holds 0 to 3",
    ),
    Case(
        "a choice against a constant", "vector", "instructions/vmac/operations/zero/when", {"opcode": 6},
        "instructions/vmac/operations/zero/when/opcode", "6; opcode is constant and 5",
    ),
    Case(
        "operations that nothing tells apart", "output-stationary",
        "instructions/store_scaled/operations/scale_relu/when", {"relu": 0},
        "instructions/store_scaled/operations/scale_relu/when",
        "scale_relu cannot be told from scale: no field has another value in both",
    ),
    Case(
        "a micro-op too narrow for its memory", "vta", "instructions/gemm/microops/fields/wgt_idx/bits", 9,
        "instructions/gemm/microops/fields", "9 bits do not address the 1024 elements of wgt",
    ),
    Case(
        "an immediate of one bit", "vta", "instructions/alu/fields/imm/bits", 1, "instructions/alu/operations",
        "imm must be signed, of 2 to 32 bits",
    ),
    Case(
        "a field of a part by its own name", "parts", "instructions/matmul/operands/C/address", "c_tile",
        "instructions/matmul/operands/C/address", "no field c_tile; there are factors.opcode",
    ),
    Case(
        "fields beside those of the parts", "parts", "instructions/matmul",
        _with(fields=[{"name": "extra", "lsb": 0, "bits": 1}]), "instructions/matmul/fields",
        "matmul has its fields in its parts, and none of its own",
    ),
    Case(
        "a last part that may be left out", "parts", "instructions/go", _with(sticky=True),
        "instructions/matmul/sequence/1",
        "go is sticky; the last part is where matmul is executed, and is never left out",
    ),
    Case(
        "a field for the rows of padding alone", "vector", "instructions/load_x/copy_fields/pad_bottom", None,
        "instructions/load_x/copy_fields/pad_top",
        "pad_top without pad_bottom; a copy pads on both sides, or on neither",
    ),
    Case(
        "padding of rows that it has not", "vector", "instructions/load_x/copy_fields", _lacking("rows", "row_stride"),
        "instructions/load_x/copy_fields/pad_top", "the copy has no field of rows; padding needs one",
    ),
    Case(
        "a stride of rows that it has not", "output-stationary", "instructions/load_b/copy_fields/rows", REMOVED,
        "instructions/load_b/copy_fields/row_stride",
        "a stride of rows, and the copy has no field of rows; it needs one, or no row_stride",
    ),
    Case(
        "rows without a stride", "output-stationary", "instructions/load_b/copy_fields/row_stride", REMOVED,
        "instructions/load_b/copy_fields/row_stride",
        "rows lie a byte apart in DRAM, and an element has 8; it needs the field",
    ),
    Case(
        "a store that pads", "vector", "instructions/store_acc/copy_fields", _with(pad_top="opcode"),
        "instructions/store_acc/copy_fields/pad_top", "opcode is constant; a role needs a field without a value",
    ),
)  # fmt: skip
