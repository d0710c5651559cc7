"""The convolution that VTA's users know: 3x3, 16 to 16 channels, 224x224, and what becomes of its pragmas."""

import numpy as np
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.isa.decode import Decoded, decode
from accel.program.program_model import Program
from accel.report.layer_report import layers_of
from accel.simulate.engine import simulate
from accel.trace.trace_builder import make_trace
from examples.conv224 import conv224
from examples.single import Conv, conv_model
from tests.helpers.models.build_models import build, lower, regions

VTA = load_accelerator("vta")
PRAGMAS = ("pragma_dma_copy", "pragma_gemm", "pragma_alu")


@pytest.fixture(scope="module")
def program() -> Program:
    return build(conv224(), VTA)


@pytest.fixture(scope="module")
def decoded(program: Program) -> Decoded:
    return decode(VTA, program.words)


def rows(decoded: Decoded, name: str) -> np.ndarray:
    return decoded.rows(VTA.instruction(name))


def test_flatten_shows_pragmas_and_inject_consumes_them() -> None:
    (flat,) = regions(lower(conv224(), VTA, "flatten"))
    assert all(f'"{pragma}"' in flat.script() for pragma in PRAGMAS)
    (injected,) = regions(lower(conv224(), VTA, "inject"))
    assert not any(f'"{pragma}"' in injected.script() for pragma in PRAGMAS)
    for call in ('"load_inp"', '"load_wgt"', '"gemm"', '"alu"', '"store_out"'):
        assert call in injected.script()


def test_no_scratchpad_is_left_in_host_memory() -> None:
    (allocated,) = regions(lower(conv224(), VTA))
    assert "alloc_buffer" not in allocated.script()


def test_loads_are_padded_and_gemms_walk_nine_microops(decoded: Decoded) -> None:
    loads = rows(decoded, "load_inp")
    pads = sum(decoded.column(f"{axis}_pad_{side}")[loads] for axis in "xy" for side in (0, 1))
    assert (pads > 0).any()
    gemms = rows(decoded, "gemm")
    multiplying = gemms[decoded.column("reset_reg")[gemms] == 0]
    lengths = decoded.column("uop_end")[multiplying] - decoded.column("uop_bgn")[multiplying]
    assert (lengths == 9).all()


def test_the_requantisation_is_add_shift_min_max(decoded: Decoded) -> None:
    alu = rows(decoded, "alu")
    assert decoded.column("use_imm")[alu].all()
    operations = VTA.instruction("alu").operations
    codes = {op.when["alu_opcode"]: op.name.removesuffix("_imm") for op in operations if op.when["use_imm"]}
    done = {
        (codes[int(code)], int(immediate))
        for code, immediate in zip(decoded.column("alu_opcode")[alu], decoded.column("imm")[alu], strict=True)
    }
    assert done == {("add", 256), ("shift_right", 9), ("max", -127), ("min", 127)}
    assert len(rows(decoded, "store_out")) > 0


def test_it_takes_well_under_a_million_cycles(program: Program) -> None:
    simulation = simulate(program, {}, function=False)
    assert simulation.cycles < 720_000


def test_loads_overlap_compute() -> None:
    layer = Conv(channels=64, filters=64, height=56, width=56)
    simulation = simulate(build(conv_model(layer), VTA), {}, function=False)
    assert layers_of(simulation, VTA)[0].load_overlap >= 0.8


def test_every_instruction_knows_its_origin(program: Program) -> None:
    simulation = simulate(program, {}, function=False)
    trace = make_trace(program, simulation)
    stages = {"load_uop": "allocate", "finish": "sync"}
    for record in trace.page(0, len(trace)):
        origin = record["origin"]
        assert origin["nodes"][0] == "conv"
        assert origin["stage"] == stages.get(record["op"], "inject")
        expected = {"gemm": "pragma_gemm", "alu": "pragma_alu", "finish": "", "load_uop": ""}
        assert origin["pragma"] == expected.get(record["op"], "pragma_dma_copy")
