from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.errors import SimulationError
from accel.isa.arrays import aligned_zeros
from accel.isa.decode import Decoded, decode
from accel.isa.vta import function_kernel
from accel.isa.vta.config import VtaConfig, vta_accelerator
from accel.isa.vta.function import Machine, geometry
from tests.accel.golden import FOLDER, board, board_with_acc_8bit, documents, needs_golden
from tests.reference.vta import ReferenceVta

_SMALL = {"LOG_UOP_BUFF_SIZE": 8, "LOG_INP_BUFF_SIZE": 12, "LOG_WGT_BUFF_SIZE": 14, "LOG_ACC_BUFF_SIZE": 14}
SHAPES = {  # (log2 batch, log2 block)
    (0, 3): vta_accelerator(VtaConfig(LOG_BLOCK=3, **_SMALL), name="b8", title="b8"),
    (0, 4): vta_accelerator(VtaConfig(LOG_BLOCK=4, **_SMALL), name="b16", title="b16"),
    (0, 5): vta_accelerator(VtaConfig(LOG_BLOCK=5, **_SMALL), name="b32", title="b32"),
    (2, 4): vta_accelerator(VtaConfig(LOG_BATCH=2, LOG_BLOCK=4, **_SMALL), name="b4x16", title="b4x16"),
    (1, 0): vta_accelerator(
        VtaConfig(
            LOG_BATCH=1,
            LOG_BLOCK=0,
            **_SMALL | {"LOG_WGT_BUFF_SIZE": 4, "LOG_INP_BUFF_SIZE": 8, "LOG_ACC_BUFF_SIZE": 10},
        ),
        name="b1",
        title="b1",
    ),
}
MACHINES = {shape: Machine(accelerator) for shape, accelerator in SHAPES.items()}
DRAM_BYTES = 1 << 16


def stream(accelerator: Any, instructions: list[tuple[str, dict[str, int]]]) -> Decoded:
    names = [instruction.name for instruction in accelerator.instructions]
    columns = {f.name: np.zeros(len(instructions), np.int64) for i in accelerator.instructions for f in i.fields}
    for row, (_, fields) in enumerate(instructions):
        for field, value in fields.items():
            columns[field][row] = value
    kind = np.array([names.index(name) for name, _ in instructions], np.int16)
    return Decoded(accelerator, kind, columns, np.zeros((len(instructions), 2), np.uint64))


@st.composite
def copies(draw, accelerator: Any, name: str) -> tuple[str, dict[str, int]]:
    copy = accelerator.instruction(name)
    memory = accelerator.memory(copy.memory)
    pads = {
        f"{axis}_pad_{side}": draw(st.integers(0, 2)) if name != "store_out" else 0 for axis in "yx" for side in (0, 1)
    }
    rows, columns = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    size = (rows + 4) * (columns + 4)
    sram = draw(st.integers(0, max(memory.depth - size, 0)))
    if size > memory.depth:
        rows, columns, pads = min(rows, 1), min(columns, 1), dict.fromkeys(pads, 0)
    stride = draw(st.integers(0, 5))
    last = DRAM_BYTES // (memory.element_count * np.dtype(copy.dram_dtype).itemsize) - 3 * stride - 3
    fields = {"sram_base": sram, "dram_base": draw(st.integers(0, last)), "y_size": rows, "x_size": columns}
    return name, fields | pads | {"x_stride": stride}


@st.composite
def loops(draw, accelerator: Any, name: str) -> tuple[str, dict[str, int]]:
    fields = {field: draw(st.integers(0, 2)) for field in ("iter_out", "iter_in")}
    begin = draw(st.integers(0, 31))
    fields |= {"uop_bgn": begin, "uop_end": begin + draw(st.integers(0, 4))}
    kinds = {"dst": "acc", "src": "inp" if name == "gemm" else "acc"} | ({"wgt": "wgt"} if name == "gemm" else {})
    for kind, memory in kinds.items():
        for side in ("out", "in"):
            fields[f"{kind}_factor_{side}"] = draw(st.integers(0, min(3, accelerator.memory(memory).depth // 4 - 1)))
    if name == "gemm":
        return name, fields | {"reset_reg": draw(st.sampled_from([0, 0, 0, 1]))}
    imm = st.one_of(st.integers(-(1 << 15), (1 << 15) - 1), st.integers(-33, 33))
    return name, fields | {
        "alu_opcode": draw(st.integers(0, 3)),
        "use_imm": draw(st.integers(0, 1)),
        "imm": draw(imm),
    }


def random_dram(accelerator: Any, seed: int) -> np.ndarray:
    """Random bytes; the first half is micro-ops whose indices leave the loops room to step."""
    random = np.random.default_rng(seed)
    dram = aligned_zeros(DRAM_BYTES)
    dram[:] = random.integers(0, 256, DRAM_BYTES)
    words = np.zeros(64, np.uint32)
    depths = {"dst_idx": "acc", "src_idx": "inp", "wgt_idx": "wgt"}
    for field in accelerator.contraction.microops.fields:
        depth = accelerator.memory(depths[field.name]).depth
        depth = min(depth, accelerator.memory("acc").depth) if field.name == "src_idx" else depth
        room = 2 * min(3, depth // 4 - 1)
        words |= (random.integers(0, depth - room, 64) << field.lsb).astype(np.uint32)
    dram[:256] = words.view(np.uint8)
    return dram


@settings(max_examples=120, deadline=None)
@given(data=st.data(), shape=st.sampled_from(sorted(SHAPES)), seed=st.integers(0, 2**32 - 1))
def test_random_programs_do_what_numpy_does(data, shape, seed):
    accelerator, machine = SHAPES[shape], MACHINES[shape]
    dram = random_dram(accelerator, seed)
    reference = ReferenceVta(accelerator, dram.copy())
    all_microops = {"sram_base": 0, "dram_base": 0, "y_size": 1, "x_size": 64, "x_stride": 64}
    kinds = [copies(accelerator, name) for name in ("load_inp", "load_wgt", "load_acc", "store_out")]
    kinds += [loops(accelerator, name) for name in ("gemm", "gemm", "alu", "alu")]
    program = data.draw(st.lists(st.one_of(kinds), min_size=1, max_size=12))
    program = [("load_uop", all_microops), *program, ("store_out", {"y_size": 1, "x_size": 8, "x_stride": 8})]
    decoded = stream(accelerator, program)
    machine.reset()
    machine.run(decoded, dram)
    for row, (name, _) in enumerate(program):
        fields = {field: int(column[row]) for field, column in decoded.columns.items()}
        if name.startswith("load"):
            reference.load(name.removeprefix("load_"), fields)
        else:
            getattr(reference, name.removesuffix("_out"))(fields)
    assert np.array_equal(machine.accumulators(), reference.memories["acc"])
    assert np.array_equal(dram, reference.dram)


@needs_golden
def test_golden_runs_leave_the_same_dram_byte_for_byte():
    machine = Machine(board())
    for entry in documents("runs/index.json"):
        run = np.load(FOLDER / "runs" / f"{entry['name']}.npz")
        if entry["name"].endswith("_r0"):
            machine.reset()
        page = int(run["page_bytes"])
        pages = int(max(run["pre_idx"].max(), run["post_idx"].max())) + 2
        dram = aligned_zeros(pages * page)
        dram.reshape(-1, page)[run["pre_idx"] + 1] = run["pre_pages"]
        expected = dram.reshape(-1, page).copy()
        expected[run["post_idx"] + 1] = run["post_pages"]
        machine.run(decode(machine.accelerator, run["insn"].view(np.uint64)), dram)
        assert np.array_equal(dram.reshape(-1, page), expected), entry["name"]


def test_plain_arithmetic_gives_the_bits_of_the_dot_product_instructions():
    accelerator = SHAPES[0, 4]
    with_instruction, without = Machine(accelerator), Machine(accelerator, dot=function_kernel.DotProduct(16, None))
    extremes = np.array([-128, 127, -1, 0], np.int8)
    program = [
        ("load_uop", {"y_size": 1, "x_size": 1, "x_stride": 1}),
        ("load_inp", {"dram_base": 16, "y_size": 1, "x_size": 16, "x_stride": 16}),
        ("load_wgt", {"dram_base": 2, "y_size": 1, "x_size": 4, "x_stride": 4}),
        (
            "gemm",
            {"uop_end": 1, "iter_out": 16, "iter_in": 4, "dst_factor_out": 4, "dst_factor_in": 1}
            | {"src_factor_out": 1, "wgt_factor_in": 1},
        ),
    ]
    for seed in range(4):
        dram = aligned_zeros(4096)
        dram[4:] = extremes[np.random.default_rng(seed).integers(0, 4, 4092)].view(np.uint8)
        for machine in (with_instruction, without):
            machine.reset()
            machine.run(stream(accelerator, program), dram)
        assert np.array_equal(with_instruction.accumulators(), without.accumulators())
        assert with_instruction.accumulators().any()
    assert geometry(accelerator).pairs == 8


def test_an_8_bit_load_extends_the_sign():
    accelerator = board_with_acc_8bit()
    machine = Machine(accelerator)
    dram = aligned_zeros(64)
    dram[:16] = np.arange(-8, 8).astype(np.int8).view(np.uint8)
    machine.run(stream(accelerator, [("load_acc_8bit", {"y_size": 1, "x_size": 1, "x_pad_0": 1, "x_stride": 1})]), dram)
    assert np.array_equal(machine.accumulators()[1, 0], np.arange(-8, 8))


ONE = {"y_size": 1, "x_size": 1, "x_stride": 1}
BAD = {
    "sram": ([("load_inp", ONE | {"sram_base": 256})], "instruction 0 .load_inp.: index 256 of inp is out of range; it has 256"),
    "padding": ([("load_acc", ONE | {"sram_base": 250, "y_pad_1": 6})], "index 256 of acc is out of range"),
    "store": ([("store_out", ONE | {"sram_base": 300})], "index 300 of acc is out of range"),
    "dram": ([("load_wgt", ONE | {"dram_base": 16})], "DRAM byte 4351 is out of range; the program's DRAM has 4096"),
    "store dram": ([("store_out", ONE | {"dram_base": 1 << 31})], "DRAM byte 34359738383 is out of range"),
    "stride": ([("load_inp", ONE | {"y_size": 2, "x_stride": 65535})], "DRAM byte 1048575 is out of range"),
    "microops": ([("gemm", {"uop_bgn": 60, "uop_end": 65})], "index 64 of uop is out of range; it has 64"),
    "order": ([("gemm", {"uop_bgn": 3, "uop_end": 2})], "its micro-ops begin at 3, after their end 2"),
    "first": ([("load_inp", ONE), ("store_out", ONE | {"sram_base": 300}), ("load_inp", ONE | {"sram_base": 256})], "instruction 1"),
    "opcode": ([("alu", {"alu_opcode": 6})], "instruction 0 .alu.: operation 6 is undefined; there are min 0, max 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_instruction_is_named(name):
    program, message = BAD[name]
    with pytest.raises(SimulationError, match=message):
        MACHINES[0, 4].run(stream(SHAPES[0, 4], program), aligned_zeros(4096))


@pytest.mark.parametrize(("operand", "memory", "place"), [("dst", "acc", 0), ("src", "inp", 8), ("wgt", "wgt", 16)])
def test_loops_that_step_beyond_a_memory_are_stopped(operand, memory, place):
    accelerator, machine = SHAPES[0, 4], MACHINES[0, 4]
    depth = accelerator.memory(memory).depth
    (field,) = [f for f in accelerator.contraction.microops.fields if f.name == f"{operand}_idx"]
    assert field.lsb == place
    dram = aligned_zeros(4096)
    dram.view(np.uint32)[1] = depth - 3 << field.lsb
    program = [("load_uop", ONE | {"x_size": 2})]
    gemm = {"uop_end": 2, "iter_out": 2, "iter_in": 1, f"{operand}_factor_out": 2}
    machine.reset()
    machine.run(stream(accelerator, [*program, ("gemm", gemm)]), dram)
    gemm["iter_in"], gemm[f"{operand}_factor_in"] = 2, 1
    with pytest.raises(
        SimulationError, match=f"instruction 1 .gemm.: micro-op 1 starts at index {depth - 3} of {memory}"
    ):
        machine.run(stream(accelerator, [*program, ("gemm", gemm)]), dram)
