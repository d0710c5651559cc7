import collections
import itertools
from dataclasses import replace

import numpy as np
import pytest

from accel.errors import SimulationError
from accel.isa.decode import Decoded, decode
from accel.isa.hazard_findings import Hazards, Race, Unwritten
from accel.isa.vta.document.vta_configuration import Variant, VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.isa.vta.function.vta_machine import VtaMachine
from accel.isa.vta.vta_hazards import VtaHazardChecker
from accel.program.program_model import Program
from accel.simulate.engine import simulate
from accel.util.arrays import aligned_zeros
from tests.helpers.marking import others_all
from tests.helpers.programs.golden import FOLDER, board, documents, needs_golden
from tests.helpers.programs.streams import small_program, stream
from tests.reference.encode import of_columns
from tests.reference.interleave import at_finish, dram_copy

VTA = board()
RUNS = [entry["name"] for entry in documents("runs/index.json")]
# without virtual threads, whose tokens are many
FEW_TOKENS = [name for name in RUNS if name.startswith(("conv8x8", "conv14x14_16_16"))]
ONE = {"y_size": 1, "x_size": 1, "x_stride": 1}


X = {"x": np.zeros((4, 16), np.int8)}


def check(decoded: Decoded, dram: np.ndarray, tokens: dict | None = None) -> tuple[Race, ...]:
    checker = VtaHazardChecker(decoded.accelerator, tokens or {}, len(dram))
    checker.wrote(0, len(dram))
    return checker.check(decoded, dram).races


def races(program: list, tokens: dict | None = None, *, dram: int = 1 << 16) -> list[Race]:
    return list(check(stream(VTA, program), aligned_zeros(dram), tokens))


def golden_run(name: str) -> tuple[Decoded, np.ndarray]:
    run = np.load(FOLDER / "runs" / f"{name}.npz")
    page = int(run["page_bytes"])
    dram = aligned_zeros((int(max(run["pre_idx"].max(), run["post_idx"].max())) + 2) * page)
    dram.reshape(-1, page)[run["pre_idx"] + 1] = run["pre_pages"]
    return decode(VTA, run["insn"].view(np.uint64)), dram


@needs_golden
@pytest.mark.parametrize("variant", [Variant(), Variant(out_memory=True, alu_stale_cycles=3)], ids=["vta", "rtl"])
def test_no_golden_run_is_accused(variant):
    accelerator = vta_accelerator(VtaConfig(), variant)
    for entry in documents("runs/index.json"):
        decoded, dram = golden_run(entry["name"])
        if entry["name"].endswith("_r0"):
            checker, first = VtaHazardChecker(accelerator, {}, 1 << 28), 0
            checker.wrote(0, 1 << 28)
        hazards = checker.check(replace(decoded, first=first), dram)
        assert hazards == Hazards((), ()), entry["name"]
        first += len(decoded)


def test_a_small_program_of_two_launches_has_none():
    assert simulate(small_program(), X).hazards.races == ()


LOAD = ("load_inp", ONE | {"sram_base": 3, "y_size": 2, "push_next": 1})
GEMM = ("gemm", {"pop_prev": 1, "uop_end": 1, "iter_out": 5, "iter_in": 1, "src_factor_out": 1})


def test_a_load_and_a_gemm_are_ordered_by_a_token():
    assert races([LOAD, GEMM]) == []


def test_without_the_token_the_elements_that_both_touch_are_named():
    load, gemm = (LOAD[0], LOAD[1] | {"push_next": 0}), (GEMM[0], GEMM[1] | {"pop_prev": 0})
    assert races([load, gemm]) == [Race(0, 1, "inp", 3, 5)]


def test_elements_beside_each_other_do_not_conflict():
    load = ("load_inp", ONE | {"sram_base": 5})
    assert races([load, (GEMM[0], GEMM[1] | {"pop_prev": 0})]) == []


def test_reads_by_two_units_do_not_conflict():
    accumulate = ("alu", {"uop_end": 1, "iter_out": 1, "iter_in": 1, "dst_factor_out": 1, "alu_opcode": 2})
    store = ("store_out", ONE | {"sram_base": 1})
    assert races([store, accumulate]) == []
    assert races([("store_out", ONE), accumulate]) == [Race(1, 0, "acc", 0, 1)]


def test_a_token_that_was_there_before_orders_nothing():
    assert races([LOAD, GEMM], {"load_to_compute": 1}) == [Race(0, 1, "inp", 3, 5)]


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


def test_a_deadlock_names_unit_instruction_and_token():
    with pytest.raises(SimulationError, match=r"compute waits at instruction 0 \(gemm\) for a token of load_to"):
        races([GEMM])


def test_a_deadlock_in_a_later_launch_counts_from_the_first_instruction_of_the_program():
    checker = VtaHazardChecker(VTA, {}, 1 << 16)
    checker.check(stream(VTA, [LOAD, GEMM]), aligned_zeros(1 << 16))
    with pytest.raises(SimulationError, match="compute waits at instruction 3 ") as caught:
        checker.check(
            replace(stream(VTA, [LOAD, (GEMM[0], GEMM[1] | {"pop_next": 1})]), first=2), aligned_zeros(1 << 16)
        )
    assert (caught.value.kind, caught.value.instruction) == ("deadlock", 3)


def in_launches(*launches: list) -> tuple[Race, ...]:
    checker = VtaHazardChecker(VTA, {}, 1 << 16)
    checker.wrote(0, 1 << 16)
    found, first = [], 0
    for program in launches:
        found += checker.check(replace(stream(VTA, program), first=first), aligned_zeros(1 << 16)).races
        first += len(program)
    return tuple(found)


STORE = ("store_out", ONE | {"dram_base": 9})
FINISH = ("finish", {})
LATE = Race(0, 1, "dram", 144, 160)


def test_a_store_that_finish_does_not_wait_for_races_with_the_next_launch_too():
    read = ("load_inp", ONE | {"dram_base": 9})
    assert in_launches([STORE, FINISH], [read, FINISH]) == (LATE, Race(0, 2, "dram", 144, 160))
    waited = [(STORE[0], STORE[1] | {"push_prev": 1}), (FINISH[0], {"pop_next": 1})]
    assert in_launches(waited, [read, FINISH]) == ()


def test_a_token_left_over_orders_the_launch_that_takes_it():
    left = [(STORE[0], STORE[1] | {"push_prev": 1}), FINISH]
    again = ("load_acc", ONE | {"dram_base": 3})
    assert in_launches(left, [again, FINISH]) == (LATE, Race(0, 2, "acc", 0, 1))
    assert in_launches(left, [(again[0], again[1] | {"pop_next": 1}), FINISH]) == (LATE,)


def test_a_unit_runs_its_instructions_in_order_also_over_launches():
    late = ("load_inp", ONE | {"sram_base": 3})
    assert in_launches([late, FINISH], [late, FINISH]) == ()
    use = (GEMM[0], GEMM[1] | {"pop_prev": 0})
    assert in_launches([late, FINISH], [use, FINISH]) == (Race(0, 2, "inp", 3, 4),)


def test_reading_what_nobody_wrote_is_told():
    checker = VtaHazardChecker(VTA, {}, 1 << 16)
    checker.wrote(0, 32)
    load = ("load_acc", ONE | {"sram_base": 4, "x_size": 1})
    add = ("alu", {"uop_end": 1, "iter_out": 1, "iter_in": 6, "dst_factor_in": 1, "use_imm": 1, "alu_opcode": 2})
    hazards = checker.check(stream(VTA, [load, add]), aligned_zeros(1 << 16))
    assert hazards.races == ()
    assert hazards.unwritten == (
        Unwritten(0, "dram", 32, 64),
        Unwritten(1, "uop", 0, 1),
        Unwritten(1, "acc", 0, 6),
    )  # fmt: skip  element 4 lies within the span


def test_what_a_launch_wrote_is_known_to_the_next():
    checker = VtaHazardChecker(VTA, {}, 1 << 16)
    zero = ("gemm", {"reset_reg": 1, "uop_end": 1, "iter_out": 1, "iter_in": 1})
    load = ("load_uop", ONE)
    checker.wrote(0, 64)
    assert checker.check(stream(VTA, [load, zero]), aligned_zeros(1 << 16)).unwritten == ()
    assert checker.check(stream(VTA, [STORE, FINISH]), aligned_zeros(1 << 16)).unwritten == ()


UNIT_OF = np.array([VTA.units.index(i.unit) for i in VTA.instructions])
TOKENS = ("pop_prev", "pop_next", "push_prev", "push_next")


def deletions(decoded: Decoded) -> list[list[tuple[str, int]]]:
    """Every token bit alone, and every push with the pop that takes its token."""
    single = [(field, int(row)) for field in TOKENS for row in np.flatnonzero(decoded.columns[field])]
    pairs = []
    for producer, push in ((u, p) for u in range(3) for p in ("push_prev", "push_next")):
        consumer = producer + (1 if push == "push_next" else -1)
        pop = "pop_prev" if push == "push_next" else "pop_next"
        unit = UNIT_OF[decoded.kind]
        pushes = np.flatnonzero((unit == producer) & (decoded.columns[push] != 0))
        pops = np.flatnonzero((unit == consumer) & (decoded.columns[pop] != 0))
        pairs += [[(push, int(a)), (pop, int(b))] for a, b in zip(pushes, pops, strict=False)]
    return [[one] for one in single] + pairs


def without(decoded: Decoded, bits: list[tuple[str, int]]) -> Decoded:
    columns = {name: column.copy() for name, column in decoded.columns.items()}
    for field, row in bits:
        columns[field][row] = 0
    return replace(of_columns(decoded.accelerator, decoded.kind, columns, decoded.rest), context=decoded.context)


def verdict(decoded: Decoded, dram: np.ndarray) -> str:
    try:
        return "race" if check(decoded, dram) else "none"
    except SimulationError as error:
        return error.kind


def harmless(decoded: Decoded, dram: np.ndarray, expected: np.ndarray, orders: int) -> bool:
    """Whether DRAM is right at FINISH for every fixed order of the units, and for some changing ones."""
    machine = VtaMachine(decoded.accelerator)
    for order in itertools.permutations(range(3)):
        machine.reset()
        if not np.array_equal(at_finish(decoded, machine, dram, {}, order, None), expected):
            return False
    for seed in range(orders):
        machine.reset()
        if not np.array_equal(at_finish(decoded, machine, dram, {}, (), seed), expected):
            return False
    return True


@needs_golden
@pytest.mark.slow
@pytest.mark.parametrize("name", others_all([n for n in RUNS if n.startswith("conv")], FEW_TOKENS))
def test_every_deletion_of_a_token_is_caught_or_harmless(name):
    decoded, dram = golden_run(name)
    expected = dram_copy(dram)
    VtaMachine(VTA).run(decoded, expected)
    assert harmless(decoded, dram, expected, 2)
    verdicts = collections.Counter()
    for bits in deletions(decoded):
        changed = without(decoded, bits)
        told = verdict(changed, dram)
        verdicts[told] += 1
        if told == "none":
            assert harmless(changed, dram, expected, 2), bits
    assert verdicts["race"] >= 5
    assert verdicts["deadlock"] >= 5


@pytest.mark.slow
@needs_golden
def test_a_deletion_that_some_order_turns_into_a_wrong_result_is_always_caught():
    decoded, dram = golden_run("conv8x8_16_32_1x1_s2_r0")
    expected = dram_copy(dram)
    VtaMachine(VTA).run(decoded, expected)
    harmful = [bits for bits in deletions(decoded) if len(bits) == 2]
    harmful = [bits for bits in harmful if not harmless(without(decoded, bits), dram, expected, 0)]
    assert len(harmful) > 3
    assert {verdict(without(decoded, bits), dram) for bits in harmful} <= {"race", "deadlock"}


def test_the_block_may_be_smaller_than_a_word():
    accelerator = vta_accelerator(
        VtaConfig(LOG_BLOCK=0, LOG_INP_BUFF_SIZE=8, LOG_WGT_BUFF_SIZE=8, LOG_ACC_BUFF_SIZE=10), name="b1", title="b1"
    )
    program = stream(accelerator, [("store_out", ONE | {"dram_base": 1}), ("load_inp", ONE | {"dram_base": 2})])
    assert check(program, aligned_zeros(64)) == ()


def test_micro_ops_of_the_image_are_followed():
    program = small_program()
    odd = replace(program, image={"microops": np.array([5], np.uint32)})
    words = program.words.copy()
    words[3, 0] &= ~np.uint64(1 << 3)  # the store waits for the addition no more
    words[2, 0] &= ~np.uint64(1 << 6)
    found = {(race.memory, race.begin) for race in found_in(replace(odd, words=words)) if race.second < 6}
    assert ("acc", 0) in found


def found_in(program: Program) -> tuple[Race, ...]:
    return simulate(program, X).hazards.races


def test_a_launch_that_ends_before_its_stores_is_caught():
    program = small_program()
    words = program.words.copy()
    words[3, 0] &= ~np.uint64(1 << 5)  # the store tells nobody
    words[4, 0] &= ~np.uint64(1 << 4)  # and nobody waits for it
    assert Race(3, 5, "dram", 512, 576) in found_in(replace(program, words=words))
