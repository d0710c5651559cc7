"""Programs for the implementations of VTA: none needs what hardware lacks, nor depends on what an immediate reads."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx
import pytest

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.read.load_model import load_model
from accel.isa.decode import decode
from accel.isa.vta.document.vta_configuration import Variant, VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.program.program_model import Program
from accel.simulate.engine import simulate
from examples.conv224 import conv224
from examples.resnet8 import resnet8
from examples.single import Conv, Dense, conv_model, dense_model
from tests.helpers.marking import rest_all
from tests.helpers.models.build_models import build
from tests.helpers.programs.race_checks import assert_ordered
from tests.reference import dyadic
from tests.reference.host import draw_inputs

VTA, CHISEL = load_accelerator("vta"), load_accelerator("vta-chisel")
PLAIN = vta_accelerator(VtaConfig(), Variant(acc_8bit=False, multiply=False), name="vta", title=VTA.title)
LAYERS = {
    "wide": conv_model(Conv(64, 64, 28, 28)),
    "strided": conv_model(Conv(40, 24, 17, 9, kernel=(5, 3), strides=(2, 2))),
    "large kernel": conv_model(Conv(16, 32, 30, 30, kernel=(7, 7), pads=(3, 3, 3, 3))),
    "dense": dense_model(Dense(1, 300, 70)),
}


@pytest.fixture(scope="module")
def networks() -> dict[str, onnx.ModelProto]:
    resnet = quantize_model(load_model(resnet8().SerializeToString()).model, None, seed=0)
    return {"conv224": conv224(), "resnet8": resnet}


def run(program: Program, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)), timing=False).outputs


@pytest.mark.parametrize("network", rest_all(["conv224", "resnet8"]))
def test_the_narrow_load_and_mul_change_no_program(networks: dict[str, onnx.ModelProto], network: str) -> None:
    program = build(networks[network], VTA)
    kinds = decode(VTA, program.words).kind
    assert "load_acc_8bit" not in {VTA.instructions[kind].name for kind in kinds}
    np.testing.assert_array_equal(program.words, build(networks[network], PLAIN).words)


@pytest.mark.parametrize("name", LAYERS)
def test_the_rtl_runs_what_is_compiled_for_it(name: str) -> None:
    """2,048 micro-ops hold it, and the same words are right where an immediate reads dst."""
    model = LAYERS[name]
    program = build(model, CHISEL)
    inputs = draw_inputs(model)
    wanted = dyadic.run(model, inputs, balances=True)[model.graph.output[0].name]
    (output,) = program.outputs
    np.testing.assert_array_equal(run(program, inputs)[output], wanted)
    np.testing.assert_array_equal(run(replace(program, accelerator=reading_dst(CHISEL)), inputs)[output], wanted)
    assert_ordered(program)


def reading_dst(accelerator: Accelerator) -> Accelerator:
    like = load_accelerator("vta").instruction("alu")
    alu = accelerator.instruction("alu")
    known = {operation.name for operation in alu.operations}
    same = alu.model_copy(update={"operations": tuple(op for op in like.operations if op.name in known)})
    others = [same if i == alu else i for i in accelerator.instructions]
    return accelerator.model_copy(update={"instructions": tuple(others)})


def test_an_immediates_two_operands_are_one(networks: dict[str, onnx.ModelProto]) -> None:
    program = build(networks["conv224"], CHISEL)
    decoded = decode(CHISEL, program.words)
    alu = np.flatnonzero(
        (decoded.column("use_imm") != 0) & (decoded.kind == CHISEL.instructions.index(CHISEL.instruction("alu")))
    )
    assert len(alu)
    for side in ("out", "in"):
        same = decoded.column(f"dst_factor_{side}")[alu] == decoded.column(f"src_factor_{side}")[alu]
        assert same.all()


@pytest.mark.parametrize("preset", ["vta-pynq", "vta-ultra96"])
def test_the_hls_designs_take_the_same_programs(preset: str) -> None:
    accelerator = load_accelerator(preset)
    program = build(LAYERS["strided"], accelerator)
    inputs = draw_inputs(LAYERS["strided"])
    (output,) = program.outputs
    wanted = dyadic.run(LAYERS["strided"], inputs, balances=True)[LAYERS["strided"].graph.output[0].name]
    np.testing.assert_array_equal(run(program, inputs)[output], wanted)
