"""The fields in which implementations of VTA differ, and what each changes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.errors import SimulationError
from accel.isa.vta.document.instruction_view import instructions_of
from accel.isa.vta.document.vta_configuration import CHISEL, SPECIFICATION, Variant, VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.isa.vta.document.vta_parameters import VtaParameters
from accel.isa.vta.function.vta_machine import VtaMachine
from accel.isa.vta.timing.vta_timing import time_launch, token_state
from accel.isa.vta.timing.vta_work import work_of
from accel.util.arrays import aligned_zeros
from tests.helpers.programs.random_programs import by_reference, random_dram, random_program
from tests.helpers.programs.streams import stream

SMALL = {"LOG_UOP_BUFF_SIZE": 9, "LOG_INP_BUFF_SIZE": 12, "LOG_WGT_BUFF_SIZE": 14, "LOG_ACC_BUFF_SIZE": 14}
DRAM_BYTES = 1 << 16


def vta(**variant: object) -> Accelerator:
    return vta_accelerator(VtaConfig(), Variant.model_validate(variant))


@pytest.fixture(scope="module", params=["dst", "src"])
def accelerator(request: pytest.FixtureRequest) -> Accelerator:
    return vta_accelerator(VtaConfig(**SMALL), Variant(immediate_with=request.param))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_an_immediate_meets_the_operand_that_the_document_names(accelerator: Accelerator, seed: int) -> None:
    program = random_program(seed, accelerator, 16, DRAM_BYTES)
    dram = random_dram(accelerator, seed, DRAM_BYTES)
    reference = by_reference(accelerator, program, dram.copy())
    machine = VtaMachine(accelerator)
    machine.run(stream(accelerator, program), dram)
    assert np.array_equal(machine.accumulators(), reference.memories["acc"])
    assert np.array_equal(dram, reference.dram)


@pytest.mark.parametrize(("immediate_with", "wanted"), [("dst", 0 + 5), ("src", 7 + 5)])
def test_where_dst_and_src_differ_the_implementations_do(immediate_with: str, wanted: int) -> None:
    target = vta(immediate_with=immediate_with)
    dram = aligned_zeros(256)
    dram.view(np.int32)[0] = 1 << 11  # a micro-op: dst 0, src 1
    dram.view(np.int32)[32:48] = 7
    machine = VtaMachine(target)
    one = {"y_size": 1, "x_size": 1, "x_stride": 1}
    program = [
        ("load_uop", one),
        ("load_acc", one | {"dram_base": 2, "sram_base": 1}),
        ("alu", {"uop_end": 1, "iter_out": 1, "iter_in": 1, "alu_opcode": 2, "use_imm": 1, "imm": 5}),
    ]
    machine.run(stream(target, program), dram)
    assert (machine.accumulators()[0] == wanted).all()


def test_src_beyond_the_memory_matters_only_where_it_is_read() -> None:
    alu = {"uop_end": 1, "iter_out": 1, "iter_in": 2, "src_factor_in": 2047, "use_imm": 1, "alu_opcode": 2}
    alu |= {"iter_out": 2, "src_factor_out": 2047}
    for target in (vta(), vta(immediate_with="src")):
        machine, decoded = VtaMachine(target), stream(target, [("alu", alu)])
        if instructions_of(target).alu.immediate_with == "dst":
            machine.run(decoded, aligned_zeros(64))
        else:
            with pytest.raises(SimulationError, match="beyond its 2048 elements"):
                machine.run(decoded, aligned_zeros(64))


def test_multiply_wraps_and_is_undefined_where_there_is_none() -> None:
    alu = {"uop_end": 1, "iter_out": 1, "iter_in": 1, "alu_opcode": 4, "use_imm": 1, "imm": -3}
    dram = aligned_zeros(128)
    dram.view(np.int32)[16:32] = 1 << 30
    one = {"y_size": 1, "x_size": 1, "x_stride": 1}
    machine = VtaMachine(vta())
    machine.run(stream(vta(), [("load_acc", one | {"dram_base": 1}), ("alu", alu)]), dram)
    assert (machine.accumulators()[0] == 1 << 30).all()  # -3 x 2^30 modulo 2^32
    without = vta(multiply=False)
    with pytest.raises(SimulationError, match="operation 4 is undefined; there are min 0, max 1") as caught:
        VtaMachine(without).run(stream(without, [("alu", alu)]), dram)
    assert caught.value.kind == "undefined-opcode"


@pytest.mark.parametrize("cycles", [1, 2, 5])
@pytest.mark.parametrize(("use_immediate", "key"), [(1, "immediate_pass_cycles"), (0, "two_operand_pass_cycles")])
def test_an_alu_pass_takes_the_cycles_of_the_document(use_immediate: int, key: str, cycles: int) -> None:
    alu = {"uop_end": 4, "iter_out": 5, "iter_in": 7, "use_imm": use_immediate}
    decoded = stream(vta(**{key: cycles}), [("alu", alu)])
    timing = time_launch(decoded, {})
    assert timing.end[0] - timing.start[0] == 7 + 140 * cycles
    assert work_of(decoded).compute_cycles == 140 * cycles


COPY = {"y_size": 1, "x_size": 100, "x_stride": 100}
BUSY = {"load": ("load_inp", COPY), "compute": ("gemm", {"uop_end": 1, "iter_out": 10, "iter_in": 10})}
BUSY["store"] = ("store_out", COPY)


@pytest.mark.parametrize("unit", BUSY)
def test_a_short_queue_of_one_unit_stalls_the_fetch(unit: str) -> None:
    """With a queue of one, an instruction comes when its unit has been free for some cycles."""
    program = [BUSY[unit]] * 6
    queued = {short: time_launch(stream(vta(queue_depths={short: 1}), program), {}) for short in BUSY}
    deep = time_launch(stream(vta(), program), {})
    for short, timing in queued.items():
        fetched = np.concatenate([[0], timing.end[:-1]]) < timing.start  # it was not there when its unit was free
        assert (timing.cycles > deep.cycles) == (short == unit)
        assert fetched[1:].any() == (short == unit)


def test_a_token_counter_stops_at_the_documents_limit() -> None:
    push = ("load_inp", {"push_next": 1})
    for limit in (1, 3):
        target = vta(token_limit=limit)
        assert time_launch(stream(target, [push] * 5), {}).tokens["load_to_compute"] == limit
        with pytest.raises(SimulationError, match=f"its counter holds 0 to {limit}"):
            token_state(target, {"load_to_compute": limit + 1})


@pytest.mark.parametrize(("bus_bytes", "beats"), [(4, 4), (8, 2), (16, 1), (32, 1)])
def test_an_instruction_has_sixteen_bytes_on_any_bus(bus_bytes: int, beats: int) -> None:
    timing = time_launch(stream(vta(bus_bytes=bus_bytes), [("finish", {})]), {})
    assert timing.start[0] == 5 + 16 + beats


def test_the_rtls_micro_op_memory_is_shallower_than_its_fields() -> None:
    target = vta_accelerator(VtaConfig(), CHISEL)
    assert target.memory("uop").depth == 2048
    assert target.bits(target.instruction("gemm"), "uop_bgn") == 13
    with pytest.raises(SimulationError, match="index 2048 of uop is out of range; it has 2048"):
        VtaMachine(target).run(stream(target, [("gemm", {"uop_bgn": 2048, "uop_end": 2049})]), aligned_zeros(64))


def test_every_field_has_a_description_and_the_defaults_are_the_specifications() -> None:
    assert Variant() == SPECIFICATION
    assert all(field.description and not field.is_required() for field in Variant.model_fields.values())
    for model in (VtaParameters, type(vta().dram), type(vta().synchronisation)):
        assert all(field.description for field in model.model_fields.values())
