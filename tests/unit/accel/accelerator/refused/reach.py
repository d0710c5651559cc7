"""What nothing reaches: units, memories, operands and instructions that no program can use; ways that lead nowhere."""

from typing import Any

from tests.unit.accel.accelerator.refused.case import REMOVED, Case


def _more(**changes: Any) -> Any:
    """A list with a copy of its last item, changed."""
    return lambda old: [*old, old[-1] | changes]


def _without(*names: str) -> Any:
    return lambda old: [item for item in old if item["name"] not in names]


def again(of: str, name: str, opcode: int, dram: int = 32, **changes: Any) -> Any:
    """The instructions with one more, which does what ``of`` does under another opcode; ``dram`` is a field's width."""

    def more(old: Any) -> Any:
        like = next(item for item in old if item["name"] == of)
        other = {"opcode": {"value": opcode}, "dram": {"bits": dram}}
        fields = [field | other.get(field["name"], {}) for field in like["fields"]]
        return [*old, like | {"name": name, "fields": fields} | changes]

    return more


def _and_d(old: Any) -> Any:
    """The instruction with one more operand."""
    operands = old["operands"] | {"D": {"memory": "c", "address": "d_tile"}}
    return old | {"operands": operands, "fields": [*old["fields"], {"name": "d_tile", "lsb": 64, "bits": 16}]}


def _ends(*names: str) -> Any:
    """The instructions with some that end a launch."""
    opcode = {"name": "opcode", "lsb": 0, "bits": 8}
    ends = [
        {"name": name, "kind": "finish", "unit": "store", "fields": [opcode | {"value": 90 + at}]}
        for at, name in enumerate(names)
    ]
    return lambda old: [*old, *ends]


def _all_stores(memory: str) -> Any:
    return lambda old: [one | {"memory": memory} if one.get("direction") == "store" else one for one in old]


_OPCODE = {"name": "opcode", "lsb": 0, "bits": 8, "value": 9}
_PART = {"name": "idle", "kind": "part", "unit": "array", "fields": [_OPCODE]}
_BIAS, _TO_BYTES = ["conv2d", "bias"], ["conv2d", "requantize", "bias"]

REACH = (
    Case(
        "a unit without instructions", "vector", "units", ["load", "vector", "store", "scalar"], "units/3",
        "no instruction is of unit scalar; name it in one, or leave it out",
    ),
    Case(
        "a memory that nothing uses", "mvin-mvout", "memories", _more(name="d", scope="local.d"), "memories/d",
        "no instruction uses d; one must, or leave it out",
    ),
    Case(
        "a memory that nothing loads", "mvin-mvout", "instructions", _without("mvin_b"), "memories/b",
        "nothing fills b; a copy must load it, or a compute write it",
    ),
    Case(
        "weights that are loaded into the results", "mvin-mvout", "instructions/mvin_b/memory", "c", "memories/b",
        r"nothing fills b; .*; mvin_b \(instructions.1.memory\) and mvin_c \(instructions.2.memory\) load c",
    ),
    Case(
        "a memory that nothing reads", "output-stationary", "instructions/multiply/operands/B/memory", "a",
        "memories/b", "nothing uses what is in b; a copy must store it, or a compute read it",
    ),
    Case(
        "results that nothing stores", "mvin-mvout", "instructions/mvout/memory", "a", "memories/c",
        "nothing uses what is in c; a copy must store it, or a compute read it",
    ),
    Case(
        "stores of another memory", "vector", "instructions", _all_stores("x"), "instructions",
        "no copy stores acc; the results of vmac are in it",
    ),
    Case(
        "sums that nothing begins", "mvin-mvout", "instructions", _without("mvin_c"), "instructions",
        r"nothing begins the sums of matmul: it must also do C\[...\] = 0, or a copy must load int32 into c",
    ),
    Case(
        "weights that come as int16", "vector", "instructions/load_w/dram_dtype", "int16", "instructions",
        "no copy loads int8 into w; vmac reads it there",
    ),
    Case(
        "a machine that multiplies nothing", "mvin-mvout", "instructions/matmul/operations/multiply/does",
        "C[i, j] = i32(A[i, 0]) + i32(B[0, j])", "instructions",
        r"none multiplies and accumulates; one must do something like 'C\[i, j\] \+= ",
    ),
    Case(
        "data that are int16", "mvin-mvout", "memories/a/dtype", "int16", "memories/a/dtype",
        "int16; A of matmul must be int8 or uint8: models are quantised to int8",
    ),
    Case(
        "weights without a sign", "mvin-mvout", "memories/b/dtype", "uint8", "memories/b/dtype",
        "uint8; B of matmul must be int8",
    ),
    Case(
        "an operand that no operation uses", "mvin-mvout", "instructions/matmul", _and_d,
        "instructions/matmul/operands/D", "no operation of matmul uses D; name it in one, or leave it out",
    ),
    Case(
        "an instruction that another does already", "mvin-mvout", "instructions", again("matmul", "matmul2", 6),
        "instructions/matmul2/operations/0/does",
        "matmul2.multiply is never chosen: under pragma_matmul, matmul.multiply before it does the same .*with fields "
        "as wide; it needs another expression, or a pragma of its own",
    ),
    Case(
        "a copy that another does already", "vector", "instructions", again("store_acc8", "store_fast", 9, cycles="1"),
        "instructions/store_fast/pragma",
        "store_fast is never chosen: under pragma_store, store_acc8 before it does the same",
    ),
    Case(
        "an operation that another does already", "vector", "instructions/valu/operations/shift_right_immediate/does",
        "DST[l] = DST[l] << imm", "instructions/valu/operations/shift_left_immediate/does",
        "valu.shift_left_immediate is never chosen: under pragma_valu, valu.shift_right_immediate before it does the "
        "same",
    ),
    Case(
        "one operation in other words", "vector", "instructions/valu/operations/min/does",
        "DST[k] = max(DST[k], SRC[k])", "instructions/valu/operations/min/does",
        "valu.min is never chosen: under pragma_valu, valu.max before it",
    ),
    Case(
        "a part that no sequence names", "mvin-mvout", "instructions", lambda old: [*old, _PART], "instructions/idle",
        "no sequence names idle, and a part does nothing by itself; name it in one, or leave it out",
    ),
    Case(
        "two ends of a launch", "vector", "instructions", _ends("end", "stop"), "instructions/stop/kind",
        "stop ends a launch, as end does; there may be one such instruction",
    ),
    Case(
        "a VTA without a finish", "vta", "instructions", _without("finish"), "instructions",
        "there must be one finish; there are 0",
    ),
    Case(
        "a VTA without a load of weights", "vta", "instructions", _without("load_wgt"), "instructions",
        "there is no load of wgt as int8; compute needs it",
    ),
    Case(
        "a VTA that does not clear", "vta", "instructions/gemm/operations", _without("zero"),
        "instructions/gemm/operations", "when a field is 0, and .* when it is 1",
    ),
    Case(
        "a VTA's ALU under the pragma of its loads", "vta", "instructions/alu/pragma", "pragma_dma_copy",
        "instructions", "must have pragmas of their own",
    ),
    Case(
        "a Gemmini without a preload", "gemmini", "instructions/preload/name", "preload2",
        "instructions/matmul/sequence/1", "no instruction of kind part preload; there are config_ld0",
    ),
    Case(
        "a composite that begins with requantize", "vta", "composites",
        [{"name": "c", "operators": ["requantize", "clip"]}], "composites/c/operators/0",
        "requantize; the first is conv2d, dense or add",
    ),
    Case(
        "a composite of two contractions", "vta", "composites",
        [{"name": "c", "operators": ["conv2d", "bias", "dense"]}], "composites/c/operators/2",
        "dense is no operator that follows another; bias, requantize and clip are",
    ),
    Case(
        "a bias behind the requantisation", "vta", "composites", [{"name": "c", "operators": _TO_BYTES}],
        "composites/c/operators",
        "requantize, bias after conv2d; what may follow is nothing, or: bias; requantize, clip; bias, requantize, clip",
    ),
    Case(
        "a composite in two names", "vector", "composites", [{"name": name, "operators": _BIAS} for name in ("c", "d")],
        "composites/d/operators", "these are the operators of c; each composite needs others",
    ),
    Case(
        "an operand's address nowhere", "mvin-mvout", "instructions/matmul/operands/C/address", REMOVED,
        "instructions/matmul/operands/C",
        r"its address must come from a field \(address\) or from the micro-ops, not both",
    ),
)  # fmt: skip
