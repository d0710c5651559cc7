from dataclasses import replace

import numpy as np
import pytest

from accel.errors import SimulationError
from accel.isa.arrays import aligned_zeros
from accel.isa.decode import Decoded, decode
from accel.isa.vta.config import VtaConfig, vta_accelerator
from accel.simulate.races import Race, RaceChecker, find_races
from tests.accel.golden import FOLDER, board, documents, needs_golden
from tests.accel.streams import small_program, stream

VTA = board()
ONE = {"y_size": 1, "x_size": 1, "x_stride": 1}


def races(program: list, tokens: dict | None = None, *, dram: int = 1 << 16) -> list[Race]:
    return RaceChecker(VTA, tokens or {}).check("l", stream(VTA, program), aligned_zeros(dram))


def golden_run(name: str) -> tuple[Decoded, np.ndarray]:
    run = np.load(FOLDER / "runs" / f"{name}.npz")
    page = int(run["page_bytes"])
    dram = aligned_zeros((int(max(run["pre_idx"].max(), run["post_idx"].max())) + 2) * page)
    dram.reshape(-1, page)[run["pre_idx"] + 1] = run["pre_pages"]
    return decode(VTA, run["insn"].view(np.uint64)), dram


@needs_golden
def test_no_golden_run_is_accused():
    checker = RaceChecker(VTA, {})
    for entry in documents("runs/index.json"):
        if entry["name"].endswith("_r0"):
            checker = RaceChecker(VTA, {})
        assert checker.check(entry["name"], *golden_run(entry["name"])) == [], entry["name"]


def test_a_small_program_of_two_launches_has_none():
    assert find_races(small_program()) == []


LOAD = ("load_inp", ONE | {"sram_base": 3, "y_size": 2, "push_next": 1})
GEMM = ("gemm", {"pop_prev": 1, "uop_end": 1, "iter_out": 5, "iter_in": 1, "src_factor_out": 1})


def test_a_load_and_a_gemm_are_ordered_by_a_token():
    assert races([LOAD, GEMM]) == []


def test_without_the_token_the_elements_that_both_touch_are_named():
    load, gemm = (LOAD[0], LOAD[1] | {"push_next": 0}), (GEMM[0], GEMM[1] | {"pop_prev": 0})
    assert races([load, gemm]) == [Race("l", 0, 1, "inp", 3, 5)]


def test_elements_beside_each_other_do_not_conflict():
    load = ("load_inp", ONE | {"sram_base": 5})
    assert races([load, (GEMM[0], GEMM[1] | {"pop_prev": 0})]) == []


def test_reads_by_two_units_do_not_conflict():
    accumulate = ("alu", {"uop_end": 1, "iter_out": 1, "iter_in": 1, "dst_factor_out": 1, "alu_opcode": 2})
    store = ("store_out", ONE | {"sram_base": 1})
    assert races([store, accumulate]) == []
    assert races([("store_out", ONE), accumulate]) == [Race("l", 1, 0, "acc", 0, 1)]


def test_a_token_that_was_there_before_orders_nothing():
    assert races([LOAD, GEMM], {"load_to_compute": 1}) == [Race("l", 0, 1, "inp", 3, 5)]


def test_order_passes_on_through_a_third_unit():
    load = ("load_inp", ONE | {"dram_base": 7, "pop_next": 1})
    relay = ("load_uop", {"pop_next": 1, "push_prev": 1})
    store = ("store_out", ONE | {"dram_base": 7, "push_prev": 1})
    assert races([store, relay, load]) == []
    unordered = [("store_out", ONE | {"dram_base": 7}), ("load_inp", ONE | {"dram_base": 7})]
    (race,) = races(unordered)
    assert (race.memory, race.begin, race.end) == ("dram", 112, 128)


def test_the_program_order_of_the_stream_is_not_what_counts():
    assert races([GEMM, LOAD]) == []


def test_a_deadlock_is_an_error():
    with pytest.raises(SimulationError, match="launch l: deadlock after 0 instructions"):
        races([GEMM])


@needs_golden
@pytest.mark.parametrize("name", ["conv14x14_16_16_3x3_r0", "conv8x8_16_32_1x1_s2_r0", "conv14x14_32_32_3x3_vt_r0"])
def test_a_convolution_without_the_tokens_of_one_queue_is_caught(name):
    for unit, push, pop in (("load", "push_next", "pop_prev"), ("compute", "push_next", "pop_prev")):
        decoded, dram = golden_run(name)
        units = np.array([i.unit for i in VTA.instructions])[decoded.kind]
        receiver = {"load": "compute", "compute": "store"}[unit]
        decoded.columns[push][units == unit] = 0
        decoded.columns[pop][units == receiver] = 0
        found = RaceChecker(VTA, {}).check(name, decoded, dram)
        assert found
        assert {race.memory for race in found} <= {"inp", "wgt", "acc"}


@needs_golden
def test_deleting_any_token_between_loads_and_compute_is_caught():
    name = "conv14x14_32_32_3x3_vt_r0"
    decoded, _ = golden_run(name)
    units = np.array([i.unit for i in VTA.instructions])[decoded.kind]
    caught = total = 0
    pushes = np.flatnonzero((units == "load") & (decoded.columns["push_next"] == 1))
    pops = np.flatnonzero((units == "compute") & (decoded.columns["pop_prev"] == 1))
    assert VTA.instructions[decoded.kind[pops[-1] + 1]].name == "finish"  # the last token only delays the end
    for push, pop in zip(pushes[:-1], pops[:-1], strict=True):
        decoded, dram = golden_run(name)
        decoded.columns["push_next"][push] = decoded.columns["pop_prev"][pop] = 0
        caught += bool(RaceChecker(VTA, {}).check(name, decoded, dram))
        total += 1
    assert total > 0
    assert caught == total


def test_the_block_may_be_smaller_than_a_word():
    accelerator = vta_accelerator(
        VtaConfig(LOG_BLOCK=0, LOG_INP_BUFF_SIZE=8, LOG_WGT_BUFF_SIZE=8, LOG_ACC_BUFF_SIZE=10), name="b1", title="b1"
    )
    program = stream(accelerator, [("store_out", ONE | {"dram_base": 1}), ("load_inp", ONE | {"dram_base": 2})])
    assert RaceChecker(accelerator, {}).check("l", program, aligned_zeros(64)) == []


def test_micro_ops_of_the_image_are_followed():
    program = small_program()
    odd = replace(program, image={"microops": np.array([5], np.uint32)})
    words = program.words.copy()
    words[3, 0] &= ~np.uint64(1 << 3)  # the store waits for the addition no more
    words[2, 0] &= ~np.uint64(1 << 6)
    found = {(race.memory, race.begin) for race in find_races(replace(odd, words=words)) if race.launch == "first"}
    assert ("acc", 0) in found


def test_a_launch_that_ends_before_its_stores_is_caught():
    program = small_program()
    words = program.words.copy()
    words[3, 0] &= ~np.uint64(1 << 5)  # the store tells nobody
    words[4, 0] &= ~np.uint64(1 << 4)  # and nobody waits for it
    assert find_races(replace(program, words=words)) == [Race("first", 3, 5, "dram", 512, 576)]
