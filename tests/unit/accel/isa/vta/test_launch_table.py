"""The table that VTA's kernel runs, and the ranges that it checks, against the fields as they are decoded."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.errors import SimulationError
from accel.isa.vta.document.vta_configuration import Variant, VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.isa.vta.function import functional_table as f
from accel.isa.vta.function.launch_table import checked_table
from tests.helpers.programs.streams import stream

DOCUMENTS = {
    "vta": load_accelerator("vta"),
    "vta-8": load_accelerator("vta-8"),
    "immediate with src": vta_accelerator(VtaConfig(), Variant(immediate_with="src")),
}
COPIES = {"load_uop": 1, "load_inp": 2, "load_wgt": 3, "load_acc": 4, "load_acc_8bit": 5, "store_out": 6}
ALU = ("min", "max", "add", "shift_right", "multiply")
FAR = (1 << 63) - 1

Fields = Mapping[str, int]


def random_launch(accelerator: Accelerator, random: np.random.Generator) -> list[tuple[str, dict[str, int]]]:
    """Instructions with small numbers, few of them beyond what there is."""
    launch = []
    for index in random.integers(0, len(accelerator.instructions), int(random.integers(1, 9))):
        instruction = accelerator.instructions[index]
        fields = {}
        for field in instruction.fields:
            bits = int(random.integers(0, min(field.bits, 13) + 1))
            if field.value is None and random.integers(0, 3):
                fields[field.name] = int(random.integers(0, 1 << bits) >> (field.type == "signed"))
        launch.append((instruction.name, fields))
    return launch


def copy_row(accelerator: Accelerator, name: str, g: Fields, dram_bytes: int) -> dict[int, int] | str:
    """The columns of a copy that are not zero, or what is wrong with it."""
    rows, columns = g["y_size"], g["x_size"]
    if not rows * columns:
        return {}
    copy = accelerator.instruction(name)
    memory = accelerator.memory(copy.memory)
    pads = [g.get(f"{axis}_pad_{side}", 0) for axis in "yx" for side in (0, 1)]
    height, width = pads[0] + rows + pads[1], pads[2] + columns + pads[3]
    if (g["dram_base"] + (rows - 1) * g["x_stride"] + columns) * copy.dram_bytes(memory) > dram_bytes:
        return "dram-range"
    if name == "store_out" and any(pads):
        height, width = rows, columns  # it has none; that is wrong too, but a range comes first
    if g["sram_base"] + height * width > memory.depth:
        return "memory-range"
    if name == "store_out" and any(pads):
        return "padding"
    place = {f.SRAM: g["sram_base"], f.DRAM: g["dram_base"], f.ROWS: rows, f.COLUMNS: columns, f.STRIDE: g["x_stride"]}
    return place | {f.OP: COPIES[name], f.TOP: pads[0], f.LEFT: pads[2], f.HEIGHT: height, f.WIDTH: width}


def compute_row(accelerator: Accelerator, name: str, g: Fields) -> dict[int, int] | str:
    """The columns of a computing instruction, or what is wrong with it."""
    if not g["uop_bgn"] <= g["uop_end"] <= accelerator.memory("uop").depth:
        return "microop-range"
    count = (g["uop_end"] - g["uop_bgn"]) * (g["iter_out"] * g["iter_in"] > 0)
    row = {f.BEGIN: g["uop_bgn"], f.COUNT: count, f.OUTER: g["iter_out"], f.INNER: g["iter_in"], f.WGT_LIMIT: FAR}
    memories = {"dst": "acc", "src": "inp" if name == "gemm" else "acc"} | ({"wgt": "wgt"} if name == "gemm" else {})
    columns = {"dst": (f.DST_OUT, f.DST_LIMIT), "src": (f.SRC_OUT, f.SRC_LIMIT), "wgt": (f.WGT_OUT, f.WGT_LIMIT)}
    for kind, memory in memories.items():
        step, limit = columns[kind]
        row[step], row[step + 1] = g[f"{kind}_factor_out"], g[f"{kind}_factor_in"]
        reach = (g["iter_out"] - 1) * row[step] + (g["iter_in"] - 1) * row[step + 1]
        row[limit] = accelerator.memory(memory).depth - 1 - reach
    if name == "gemm":
        far = {f.SRC_LIMIT: FAR, f.WGT_LIMIT: FAR} if g["reset_reg"] else {}
        return row | {f.OP: f.RESET if g["reset_reg"] else f.GEMM} | far
    known = {operation.when["alu_opcode"]: operation.name for operation in accelerator.instruction("alu").operations}
    if g["alu_opcode"] not in known:
        return "undefined-opcode"
    row |= {f.OP: f.ALU, f.CODE: ALU.index(known[g["alu_opcode"]].removesuffix("_imm")), f.IMM: g["imm"]}
    if g["use_imm"]:
        operations = accelerator.instruction("alu").operations
        with_src = any(operation.when["use_imm"] and "src[" in operation.does for operation in operations)
        row |= {f.USE_IMM: f.WITH_SRC} if with_src else {f.USE_IMM: f.WITH_DST, f.SRC_LIMIT: FAR}
    return row


@pytest.mark.parametrize("document", DOCUMENTS)
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_row_says_what_the_fields_say(document: str, seed: int) -> None:
    accelerator, random = DOCUMENTS[document], np.random.default_rng(seed)
    launch, dram_bytes = random_launch(accelerator, random), int(random.integers(1, 1 << 20))
    decoded = stream(accelerator, launch)
    wanted = np.zeros((len(launch), f.TABLE), np.int64)
    wrong: list[tuple[bool, int, str]] = []
    for at, (name, _) in enumerate(launch):
        fields = {field: int(column[at]) for field, column in decoded.columns.items()}
        row: dict[int, int] | str = {}
        if name in COPIES:
            row = copy_row(accelerator, name, fields, dram_bytes)
        elif name in ("gemm", "alu"):
            row = compute_row(accelerator, name, fields)
        if isinstance(row, str):
            wrong.append((row == "undefined-opcode", at, row))
        else:
            wanted[at, list(row)] = list(row.values())
    if not wrong:
        assert np.array_equal(checked_table(decoded, dram_bytes), wanted)
        return
    _, at, kind = min(wrong)  # ranges come before operations
    with pytest.raises(SimulationError) as caught:
        checked_table(decoded, dram_bytes)
    assert (caught.value.instruction, caught.value.kind) == (at, kind)
