"""Names that are there twice, and names of nothing."""

import json
from typing import Any

from tests.unit.accel.accelerator.refused.case import Case


def _twice(name: str) -> Any:
    return lambda old: [*old, next(item for item in old if item["name"] == name)]


def _renamed(old_name: str, name: str) -> Any:
    """An instruction with a field called otherwise, wherever it is named."""
    return lambda old: json.loads(json.dumps(old).replace(f': "{old_name}"', f': "{name}"'))


NAMES = (
    Case(
        "a memory twice", "mvin-mvout", "memories", _twice("a"), "memories/3",
        "two called a; each needs a name of its own",
    ),
    Case(
        "two memories of one scope", "vector", "memories/w/scope", "local.x", "memories/w", "two called local.x; each",
    ),
    Case("a unit twice", "vector", "units", ["load", "vector", "load"], "units/2", "two called load; each"),
    Case(
        "an instruction twice", "output-stationary", "instructions", _twice("multiply"), "instructions/6",
        "two called multiply",
    ),
    Case(
        "a field twice", "vector", "instructions/vmac/fields/w/name", "x", "instructions/vmac/fields/5", "two called x",
    ),
    Case(
        "an operation twice", "vector", "instructions/valu/operations/min/name", "max",
        "instructions/valu/operations/2", "two called max",
    ),
    Case(
        "a composite twice", "vta", "composites",
        [{"name": "c", "operators": ["conv2d"]}, {"name": "c", "operators": ["dense"]}], "composites/1", "two called c",
    ),
    Case(
        "a memory that is none", "mvin-mvout", "instructions/mvin_a/memory", "acc", "instructions/mvin_a/memory",
        "no memory acc; there are a, b, c",
    ),
    Case(
        "an operand in a memory that is none", "vector", "instructions/valu/operands/DST/memory", "y",
        "instructions/valu/operands/DST/memory", "no memory y; there are x, w, acc",
    ),
    Case(
        "a unit that is none", "output-stationary", "instructions/multiply/unit", "mesh", "instructions/multiply/unit",
        "no unit mesh; there are load, array, store",
    ),
    Case(
        "a role of a field that is none", "vector", "instructions/load_w/copy_fields/rows", "height",
        "instructions/load_w/copy_fields/rows", "no field height; there are opcode, sram",
    ),
    Case(
        "a choice by a field that is none", "vector", "instructions/vmac/operations/zero/when", {"mode": 1},
        "instructions/vmac/operations/zero/when/mode", "no field mode; there are opcode, op",
    ),
    Case(
        "a loop that steps what is no operand", "output-stationary", "instructions/multiply/loops/0/factors",
        {"A": "a_step", "D": "b_step"}, "instructions/multiply/loops/0/factors", "no operand D; there are A, B, C",
    ),
    Case(
        "a micro-op of a field that is none", "vta", "instructions/gemm/microops/operands",
        lambda old: old | {"src": "data"}, "instructions/gemm/microops/operands",
        "no field of a micro-op src; there are dst_idx",
    ),
    Case(
        "a sequence of a part that is none", "parts", "instructions/matmul/sequence", ["factors", "start"],
        "instructions/matmul/sequence/1", "no instruction of kind part start; there are factors, go",
    ),
    Case(
        "the compiler's own pragma", "vector", "instructions/vmac/pragma", "pragma_contexts",
        "instructions/vmac/pragma",
        "pragma_contexts says how many copies of a buffer there are; an instruction needs a pragma of its own",
    ),
    Case(
        "a pragma of TVM", "vector", "instructions/vmac/pragma", "pragma_unroll_explicit", "instructions/vmac/pragma",
        "pragma_unroll_explicit is one that TVM acts on; an instruction needs a pragma of its own",
    ),
    Case(
        "a field that hides the bus", "mvin-mvout", "instructions/matmul", _renamed("a_tile", "bus_bytes"),
        "instructions/matmul/fields/1/name",
        r"bus_bytes is a number that costs may name \(bus_bytes, read_latency\); the field needs another name",
    ),
    Case(
        "a field that hides what is moved", "vector", "instructions/load_w", _renamed("columns", "elements"),
        "instructions/load_w/fields/4/name", "elements is a number that costs may name",
    ),
    Case(
        "a sequence of a copy", "gemmini", "instructions/load_rows/sequence", ["config_ld0", "store_full"],
        "instructions/load_rows/sequence/1", "no instruction of kind part store_full; there are config_ld0",
    ),
    Case(
        "a part twice in a sequence", "gemmini", "instructions/load_rows/sequence", ["mvin", "mvin"],
        "instructions/load_rows/sequence/1", "two called mvin",
    ),
)  # fmt: skip
