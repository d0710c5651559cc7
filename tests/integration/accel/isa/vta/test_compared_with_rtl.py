"""What was compared with the RTL is what the recordings have, and a program that asks for more is told so."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from accel.accelerator.instructions import Copy
from accel.catalog.load_accelerator import load_accelerator
from accel.isa.decode import Decoded, decode
from accel.isa.vta.document.instruction_view import instructions_of
from accel.isa.vta.timing import vta_calibration
from accel.isa.vta.timing.vta_calibration import timing_model
from accel.program.program_model import Program
from accel.report.simulation_report import timing_model_of
from accel.simulate.engine import simulate
from tests.helpers.models.build_models import build
from tests.helpers.models.onnxruntime_layers import Kind, conv
from tests.helpers.programs.golden import FOLDER, board, documents, needs_golden, words
from tests.helpers.programs.streams import small_program, stream

VTA = load_accelerator("vta")
KNOWN = "exact on 59 of 59 RTL programs and 95 of 95 micro-benchmarks; worst 0.00%"
ONE = {"y_size": 1, "x_size": 1, "x_stride": 1}
LOOPS = {"uop_end": 1, "iter_out": 1, "iter_in": 1}
HANGS = "which the compared RTL does not have: it hangs"
NEVER = "which no recording has"
TURNS = "of no turns or no micro-ops, of which the RTL makes 16,384 turns"
MANY = "micro-ops beyond the 2,048 that the compared RTL holds"
AROUND = {"y_pad_0": 1, "y_pad_1": 1}

INSIDE = [
    ("load_inp", ONE | {"y_pad_0": 1, "x_pad_0": 2}),
    ("load_acc", ONE | {"x_pad_1": 1}),
    ("load_wgt", ONE | {"x_size": 9}),
    ("load_uop", ONE | {"x_size": 2048}),
    ("load_uop", {}),
    ("gemm", LOOPS | {"uop_end": 2048}),
    ("alu", LOOPS | {"alu_opcode": 3, "use_imm": 1}),
    ("alu", LOOPS | {"alu_opcode": 1}),
    ("store_out", ONE),
    ("store_sync", {}),
    ("finish", {}),
]
BEYOND = {
    "a product": (("alu", LOOPS | {"alu_opcode": 4, "use_imm": 1}), f"the ALU operation MUL, {HANGS}"),
    "a product of two": (("alu", LOOPS | {"alu_opcode": 4}), f"the ALU operation MUL, {HANGS}"),
    "a minimum of two": (("alu", LOOPS), f"the ALU operation min with two operands, {NEVER}"),
    "bytes": (("load_acc_8bit", ONE), f"load_acc_8bit (memory type acc_8bit), {HANGS}"),
    "padded bytes": (("load_acc_8bit", ONE | {"y_pad_0": 1}), f"load_acc_8bit (memory type acc_8bit), {HANGS}"),
    "padded weights": (("load_wgt", ONE | {"x_pad_0": 1}), f"load_wgt with padding at left, {NEVER}"),
    "padded micro-ops": (("load_uop", ONE | {"y_pad_1": 1}), f"load_uop with padding at bottom, {NEVER}"),
    "above and below": (("load_inp", ONE | AROUND), f"load_inp with padding at top and bottom, {NEVER}"),
    "no rows": (("load_inp", ONE | {"y_size": 0}), f"load_inp with one of its sizes 0 and not the other, {NEVER}"),
    "no turns": (("gemm", LOOPS | {"iter_in": 0}), f"gemm {TURNS}"),
    "no micro-ops": (("alu", LOOPS | {"uop_bgn": 1, "use_imm": 1}), f"alu {TURNS}"),
    "many micro-ops": (("gemm", LOOPS | {"uop_end": 2049}), MANY),
    "a far micro-op": (("load_uop", ONE | {"sram_base": 2048}), MANY),
}  # fmt: skip


def test_what_was_compared_is_exact() -> None:
    model = timing_model(VTA, [stream(VTA, INSIDE)])
    assert (model.statement, model.calibrated, model.exact, model.outside) == (KNOWN, True, 59, [])


@pytest.mark.parametrize("what", BEYOND)
def test_what_was_not_compared_is_named_and_nothing_is_exact(what: str) -> None:
    instruction, named = BEYOND[what]
    launches = [stream(VTA, INSIDE), stream(VTA, [instruction, instruction, *INSIDE])]
    model = timing_model(VTA, launches)
    assert (model.calibrated, model.exact, model.of, model.worst_percent) == (False, 0, 0, None)
    assert model.outside == [named]
    assert (
        model.statement == f"modelled: the program uses {named}. The rest follows the rules of the Chisel RTL ({KNOWN})"
    )


def test_a_launch_without_finish_is_named() -> None:
    assert timing_model(VTA, [stream(VTA, INSIDE[:-1])]).outside == [
        "a launch without FINISH, which never ends on the RTL"
    ]


def test_a_whole_load_is_exact_where_its_first_beat_is_back_in_time() -> None:
    whole = [("load_inp", ONE | {"y_size": 32, "x_size": 64}), ("finish", {})]
    for latency, calibrated in ((16, True), (64, False)):
        accelerator = VTA.model_copy(update={"dram": VTA.dram.model_copy(update={"read_latency": latency})})
        model = timing_model(accelerator, [stream(accelerator, whole)])
        assert model.calibrated is calibrated
        assert "load_inp of 2,048 elements at once" in "".join(model.outside) or calibrated


def test_both_the_document_and_the_program_are_named() -> None:
    accelerator = load_accelerator("vta-8")
    model = timing_model(accelerator, [stream(accelerator, [BEYOND["a product"][0], ("finish", {})])])
    assert model.outside[-1] == f"the ALU operation MUL, {HANGS}"
    assert (
        model.statement.startswith("not compared with any hardware: element of uop")
        or "element of wgt" in model.statement
    )
    assert model.statement.endswith(f"It is modelled: the program uses the ALU operation MUL, {HANGS}")


@pytest.mark.slow
def test_a_report_says_it_of_a_compiled_program() -> None:
    multiplying = build(conv(Kind(y_zero=90), 16, 16), VTA)
    assert reported(multiplying) == [f"the ALU operation MUL, {HANGS}"]
    assert reported(build(conv(Kind(y_zero=90), 16, 16), load_accelerator("vta-chisel"))) == []
    assert reported(replace(small_program(), accelerator=VTA)) == []


def reported(program: Program) -> list[str]:
    return timing_model_of(program, simulate(program, {}, function=False)).outside


def recorded() -> Iterator[Decoded]:
    """The instructions of every recording that has cycles of the RTL."""
    accelerator, streams = board(), words("streams.npz")
    for name, entry in documents("streams.json").items():
        if entry.get("rtl_cycles") is not None or entry.get("rtl_cycles_by_dram_latency"):
            yield decode(accelerator, streams[name])
    for entry in documents("runs/index.json"):
        yield decode(accelerator, np.load(FOLDER / "runs" / f"{entry['name']}.npz")["insn"].view(np.uint64))
    for instructions in words("microbenchmarks.npz").values():
        yield decode(accelerator, instructions)


@pytest.mark.slow
@needs_golden
def test_the_recordings_have_what_the_tables_say_and_nothing_beyond() -> None:
    vta, operations, padding = instructions_of(board()), set(), defaultdict(set)
    roles = dict(zip(vta.memories, ("microops", "data", "weights", "results"), strict=True))
    for decoded in recorded():
        rows = decoded.rows(vta.alu.instruction)
        codes = decoded.column(vta.alu.opcode)[rows].tolist()
        immediate = (decoded.column(vta.alu.use_immediate)[rows] != 0).tolist()
        operations |= {(vta.alu.codes[code], use) for code, use in set(zip(codes, immediate, strict=True))}
        for copy in decoded.accelerator.instructions:
            if isinstance(copy, Copy) and copy.direction == "load":
                rows, names = decoded.rows(copy), copy.copy_fields
                pads = (names.pad_top, names.pad_bottom, names.pad_left, names.pad_right)
                columns = [(decoded.column(name)[rows] > 0).tolist() for name in pads]
                for sides in set(zip(*columns, strict=True)):
                    there = tuple(side for side, is_there in zip(vta_calibration.SIDES, sides, strict=True) if is_there)
                    padding[roles[copy.memory]] |= {there} if there else set()
        assert vta_calibration.not_compared([decoded]) == []
    assert operations == vta_calibration.OPERATIONS
    assert {role: frozenset(padding[role]) for role in roles.values()} == vta_calibration.PADDING
