"""Reads of what was there before: stores of what was loaded, and passes of the ALU that come too soon."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.job_stages import check_hazards
from accel.errors import VerificationError
from accel.isa.decode import decode
from accel.isa.hazard_findings import Stale
from accel.isa.vta.vta_hazards import VtaHazardChecker
from accel.program.program_model import Launch, Program, Segment
from accel.report.provenance import Sources, provenance
from accel.report.simulation_report import make_simulation_report
from accel.simulate.engine import simulate
from accel.util.arrays import aligned_zeros
from tests.helpers.documents.vta_presets import PRESETS
from tests.helpers.marking import rest_all
from tests.helpers.models.build_models import build
from tests.helpers.programs.race_checks import STALE_CYCLES, find_stale
from tests.helpers.programs.random_programs import MICROOPS, random_loops
from tests.helpers.programs.streams import stream
from tests.integration.accel.lowering.codegen.test_region_objects import quantised_resnet8
from tests.reference.encode import encode

VTA, CHISEL = load_accelerator("vta"), load_accelerator("vta-chisel")
ONE = {"y_size": 1, "x_size": 1, "x_stride": 1}
LOAD = ("load_acc", ONE | {"sram_base": 2, "x_size": 3})
STORE = ("store_out", ONE | {"sram_base": 1, "x_size": 3, "pop_prev": 1, "push_prev": 1})
FINISH = ("finish", {"pop_next": 1})


def uop(dst: int, src: int = 0) -> int:
    return dst | src << 11


def alu(**fields: int) -> tuple[str, dict[str, int]]:
    return "alu", {"uop_end": 1, "iter_out": 1, "iter_in": 1, "alu_opcode": 2} | fields


def stale(program: list[tuple[str, Any]], microops: list[int], accelerator: Accelerator = CHISEL) -> list[Stale]:
    checker, dram = VtaHazardChecker(accelerator, {}, 1 << 16), aligned_zeros(1 << 16)
    dram.view(np.uint32)[: len(microops)] = microops
    checker.wrote(0, len(dram))
    table = ("load_uop", ONE | {"x_size": len(microops)})
    return list(checker.check(stream(accelerator, [table, *program]), dram).stale)


def last(instruction: tuple[str, dict[str, int]]) -> tuple[str, dict[str, int]]:
    """The same, with a token for the store."""
    return instruction[0], instruction[1] | {"push_next": 1}


def test_a_store_of_what_was_loaded_is_told_with_its_load() -> None:
    assert stale([last(LOAD), STORE, FINISH], [0]) == [Stale("stale-out", 2, 1, "acc", 2, 4)]
    assert stale([last(LOAD), STORE, FINISH], [0], VTA) == []


@pytest.mark.parametrize("fields", [{"use_imm": 1}, {}], ids=["with an immediate", "with two operands"])
def test_what_the_alu_wrote_is_in_the_out_memory(fields: dict[str, int]) -> None:
    some = alu(iter_in=2, dst_factor_in=1, src_factor_in=1, **fields)
    assert stale([LOAD, last(some), STORE, FINISH], [uop(2, 2)]) == []
    assert stale([LOAD, last(some), STORE, FINISH], [uop(1, 1)]) == [Stale("stale-out", 3, 1, "acc", 3, 4)]


def test_what_a_product_wrote_is_in_the_out_memory_and_what_a_reset_cleared_is_not() -> None:
    loops = {"uop_end": 1, "iter_out": 1, "iter_in": 3, "dst_factor_in": 1}
    product, reset = ("gemm", loops), ("gemm", loops | {"reset_reg": 1})
    assert stale([LOAD, last(product), STORE, FINISH], [uop(1)]) == []
    assert stale([reset, last(product), STORE, FINISH], [uop(1)]) == []
    assert stale([product, last(reset), STORE, FINISH], [uop(1)]) == [Stale("stale-out", 3, 2, "acc", 1, 4)]
    assert stale([product, last(reset), STORE, FINISH], [uop(1)], VTA) == []


def test_a_load_makes_stale_what_was_there_from_the_launch_before() -> None:
    checker, dram = VtaHazardChecker(CHISEL, {}, 1 << 16), aligned_zeros(1 << 16)
    first = stream(CHISEL, [LOAD, ("finish", {})])
    second = stream(CHISEL, [last(("load_uop", {})), STORE, FINISH])
    assert checker.check(first, dram).stale == ()
    assert checker.check(replace(second, first=2), dram).stale == (Stale("stale-out", 3, 0, "acc", 2, 4),)


@pytest.mark.parametrize(
    ("fields", "microops", "found"),
    [
        ({"use_imm": 1, "iter_in": 2}, [uop(5, 5)], (5, 5)),
        ({"use_imm": 1, "iter_in": 8, "dst_factor_in": 1, "src_factor_in": 1}, [uop(5, 5)], None),
        ({"use_imm": 1, "iter_in": 8, "dst_factor_in": 1, "src_factor_in": 1}, [uop(5, 4)], (5, 11)),
        ({"use_imm": 1, "iter_in": 8, "dst_factor_in": 1, "src_factor_in": 1}, [uop(5, 3)], (5, 10)),
        ({"use_imm": 1, "iter_in": 8, "dst_factor_in": 1, "src_factor_in": 1}, [uop(5, 2)], None),
        ({"iter_in": 2}, [uop(5, 7)], (5, 5)),
        ({"iter_in": 8, "dst_factor_in": 1, "src_factor_in": 1}, [uop(5, 4)], (5, 11)),
        ({"iter_in": 8, "dst_factor_in": 1, "src_factor_in": 1}, [uop(5, 3)], None),
        ({"iter_in": 3, "uop_end": 2}, [uop(5, 9), uop(6, 9)], None),
        ({"iter_out": 2, "uop_end": 2}, [uop(5, 9), uop(6, 5)], (5, 5)),
    ],
)
def test_passes_that_come_too_soon(fields: dict[str, int], microops: list[int], found: tuple[int, int] | None) -> None:
    wanted = [] if found is None else [Stale("stale-accumulator", 1, 1, "acc", found[0], found[1] + 1)]
    assert stale([alu(**fields)], microops) == wanted
    assert stale([alu(**fields)], microops, VTA) == []


def test_two_instructions_are_never_too_soon() -> None:
    once = alu(use_imm=1)
    assert stale([once, once, once], [uop(5, 5)]) == []


@pytest.mark.parametrize("seed", range(20))
def test_random_passes_by_the_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    microops = [uop(int(random.integers(0, 4)), int(random.integers(0, 4))) for _ in range(MICROOPS)]
    program = []
    for _ in range(20):
        name, fields = random_loops(random, CHISEL, "alu")
        factors = {
            f"{kind}_factor_{side}": int(random.integers(0, 3)) for kind in ("dst", "src") for side in ("out", "in")
        }
        program.append((name, fields | factors))
    table = ("load_uop", ONE | {"x_size": MICROOPS})
    decoded = stream(CHISEL, [table, *program])
    wanted = find_stale(decoded, np.array(microops, np.int64), STALE_CYCLES)
    assert [(one.kind, one.instruction, one.begin, one.end - 1) for one in stale(program, microops)] == wanted
    assert 0 < len(wanted) < 20


def stored(accelerator: Accelerator) -> Program:
    """A program of a user's: it loads three elements and stores them."""
    words = encode(
        stream(accelerator, [last(LOAD), ("store_out", STORE[1] | {"sram_base": 2, "dram_base": 64}), FINISH])
    )
    x, y = np.arange(48, dtype=np.int32).reshape(3, 16), np.arange(48, dtype=np.int8).reshape(3, 16)
    return Program(
        accelerator=accelerator,
        segments={"x": Segment("x", 0, (3, 16), "int32"), "y": Segment("y", 1024, (3, 16), "int8")},
        image={"x": x},
        inputs=(),
        outputs=("y",),
        steps=(Launch("copy", "copy", (), 0, 3, 0, ("x",), ("y",)),),
        words=words,
        origin=np.full(3, -1, np.int32),
        origins=(),
        dram_bytes=2048,
        expected={"y": y},
    )


def test_a_report_says_that_right_by_luck_is_not_verified() -> None:
    program = stored(VTA)
    origin = provenance(Sources(), VTA, {})
    assert make_simulation_report(program, simulate(program, {}), "both", origin).verified
    program = stored(CHISEL)
    simulation = simulate(program, {})
    report = make_simulation_report(program, simulation, "both", origin)
    assert (report.verified, report.mismatch_count, report.race_count, report.stale_read_count) == (False, 0, 0, 1)
    (read,) = report.stale_reads
    assert (read.kind, read.instruction.index, read.since.op) == ("stale-out", 1, "load_acc")
    assert (
        "instruction 1 (store_out) stores elements 2 to 4 of acc, which instruction 0 (load_acc) loaded" in read.detail
    )
    with pytest.raises(VerificationError, match=r"by luck: they depend on what was there before: instr.* 1 ") as caught:
        check_hazards(simulation)
    assert caught.value.field == "instruction:1"


@pytest.mark.slow
@pytest.mark.parametrize("preset", rest_all(list(PRESETS), keep=2))
def test_the_compiler_makes_neither_on_any_vta(preset: str) -> None:
    accelerator = load_accelerator(preset)
    program = build(quantised_resnet8(accelerator), accelerator)
    told = CHISEL.parameters | {"immediate_pass_cycles": 1}  # the closest that passes come
    like_the_rtl = accelerator.model_copy(update={"parameters": accelerator.parameters | told})
    checker, dram = VtaHazardChecker(like_the_rtl, {}, program.dram_bytes), aligned_zeros(program.dram_bytes)
    for name, array in program.image.items():
        at = program.segments[name].address
        dram[at : at + array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
    launches = [step for step in program.steps if isinstance(step, Launch)]
    assert len(launches) > 8
    for launch in launches:
        words = program.words[launch.begin : launch.begin + launch.count]
        assert checker.check(decode(accelerator, words, launch.begin), dram).stale == (), launch.name
