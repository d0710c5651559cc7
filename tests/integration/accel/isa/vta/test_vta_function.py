import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.errors import SimulationError
from accel.isa.decode import decode
from accel.isa.vta.document.vta_configuration import VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.isa.vta.function.dot_product import DotProduct
from accel.isa.vta.function.vta_machine import VtaMachine
from accel.util.arrays import aligned_zeros
from tests.helpers.marking import rest_all
from tests.helpers.programs.golden import FOLDER, board, documents, needs_golden
from tests.helpers.programs.random_programs import by_reference, random_dram, random_program
from tests.helpers.programs.streams import stream

_SMALL = {"LOG_UOP_BUFF_SIZE": 8, "LOG_INP_BUFF_SIZE": 12, "LOG_WGT_BUFF_SIZE": 14, "LOG_ACC_BUFF_SIZE": 14}
_TINY = _SMALL | {"LOG_WGT_BUFF_SIZE": 8, "LOG_INP_BUFF_SIZE": 8, "LOG_ACC_BUFF_SIZE": 10}
SHAPES = {  # (log2 batch, log2 block)
    (0, 3): vta_accelerator(VtaConfig(LOG_BLOCK=3, **_SMALL), name="b8", title="b8"),
    (0, 4): vta_accelerator(VtaConfig(LOG_BLOCK=4, **_SMALL), name="b16", title="b16"),
    (0, 5): vta_accelerator(VtaConfig(LOG_BLOCK=5, **_SMALL), name="b32", title="b32"),
    (0, 1): vta_accelerator(VtaConfig(LOG_BLOCK=1, **_TINY), name="b2", title="b2"),
    (0, 2): vta_accelerator(VtaConfig(LOG_BLOCK=2, **_TINY), name="b4", title="b4"),
    (2, 4): vta_accelerator(VtaConfig(LOG_BATCH=2, LOG_BLOCK=4, **_SMALL), name="b4x16", title="b4x16"),
    (1, 0): vta_accelerator(
        VtaConfig(LOG_BATCH=1, LOG_BLOCK=0, **_TINY | {"LOG_WGT_BUFF_SIZE": 4}), name="b1", title="b1"
    ),
}
DRAM_BYTES = 1 << 16


@functools.cache
def machine_of(shape: tuple[int, int]) -> VtaMachine:
    """The machine of a shape, whose kernel is compiled when a test first asks for it."""
    return VtaMachine(SHAPES[shape])


@pytest.mark.parametrize("name", rest_all(["b16", "b1", "b8", "b4x16", "b32", "b2", "b4"]))
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), length=st.integers(1, 40))
def test_random_programs_do_what_numpy_does(name, seed, length):
    (shape,) = (shape for shape, accelerator in SHAPES.items() if accelerator.name == name)
    accelerator, machine = SHAPES[shape], machine_of(shape)
    dram = random_dram(accelerator, seed, DRAM_BYTES)
    program = random_program(seed, accelerator, length, DRAM_BYTES)
    reference = by_reference(accelerator, program, dram.copy())
    machine.reset()
    machine.run(stream(accelerator, program), dram)
    assert np.array_equal(machine.accumulators(), reference.memories["acc"])
    assert np.array_equal(dram, reference.dram)


@needs_golden
def test_golden_runs_leave_the_same_dram_byte_for_byte():
    machine = VtaMachine(board())
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


@pytest.mark.slow
def test_plain_arithmetic_gives_the_bits_of_the_dot_product_instructions():
    accelerator = SHAPES[0, 4]
    with_instruction, without = VtaMachine(accelerator), VtaMachine(accelerator, dot=DotProduct(16, None))
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


def test_an_8_bit_load_extends_the_sign():
    accelerator = board()
    machine = VtaMachine(accelerator)
    dram = aligned_zeros(64)
    dram[:16] = np.arange(-8, 8).astype(np.int8).view(np.uint8)
    machine.run(stream(accelerator, [("load_acc_8bit", {"y_size": 1, "x_size": 1, "x_pad_0": 1, "x_stride": 1})]), dram)
    assert np.array_equal(machine.accumulators()[1, 0], np.arange(-8, 8))


ONE = {"y_size": 1, "x_size": 1, "x_stride": 1}
BAD = {
    "sram": ([("load_inp", ONE | {"sram_base": 256})], "instruction 0 .load_inp.: index 256 of inp is out of range"),
    "padding": ([("load_acc", ONE | {"sram_base": 250, "y_pad_1": 6})], "index 256 of acc is out of range"),
    "store": ([("store_out", ONE | {"sram_base": 300})], "index 300 of acc is out of range"),
    "dram": ([("load_wgt", ONE | {"dram_base": 16})], "DRAM byte 4351 is out of range; the program's DRAM has 4096"),
    "store dram": ([("store_out", ONE | {"dram_base": 1 << 31})], "DRAM byte 34359738383 is out of range"),
    "stride": ([("load_inp", ONE | {"y_size": 2, "x_stride": 65535})], "DRAM byte 1048575 is out of range"),
    "microops": ([("gemm", {"uop_bgn": 60, "uop_end": 65})], "index 64 of uop is out of range; it has 64"),
    "order": ([("gemm", {"uop_bgn": 3, "uop_end": 2})], "its micro-ops begin at 3, after their end 2"),
    "first": ([("finish", {}),("store_out", ONE | {"sram_base": 300}), ("load_inp", ONE | {"sram_base": 999})], "on 1"),
    "opcode": ([("alu", {"alu_opcode": 6})], "instruction 0 .alu.: operation 6 is undefined; there are min 0, max 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_instruction_is_named(name):
    program, message = BAD[name]
    with pytest.raises(SimulationError, match=message):
        machine_of((0, 4)).run(stream(SHAPES[0, 4], program), aligned_zeros(4096))


@pytest.mark.parametrize(("operand", "memory", "place"), [("dst", "acc", 0), ("src", "inp", 8), ("wgt", "wgt", 16)])
def test_loops_that_step_beyond_a_memory_are_stopped(operand, memory, place):
    accelerator, machine = SHAPES[0, 4], machine_of((0, 4))
    depth = accelerator.memory(memory).depth
    (field,) = [f for f in accelerator.instruction("gemm").microops.fields if f.name == f"{operand}_idx"]
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
