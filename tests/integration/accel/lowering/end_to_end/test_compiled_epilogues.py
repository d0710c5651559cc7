"""What of a layer's epilogue stays with the accelerator, and what the host finishes."""

from typing import Any

import numpy as np
import onnx
import pytest

from accel.accelerator.document import Accelerator, Composite
from accel.catalog.load_accelerator import load_accelerator
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.lowering.ir.function_attributes import region_of
from accel.program.program_model import Launch
from accel.region.kinds import Region
from accel.simulate.engine import simulate
from examples.single import Conv, Dense, conv_model, dense_model
from tests.helpers.models.build_models import build, lower
from tests.reference.host import draw_inputs, run_relax

VTA = load_accelerator("vta")
CONV = conv_model(Conv(16, 16, 8, 8, relu=True))


def region(model: onnx.ModelProto, accelerator: Accelerator) -> Region:
    functions = lower(model, accelerator, "partition").functions.values()
    (found,) = (found for function in functions if (found := region_of(function)) is not None)
    return found


def without(accelerator: Accelerator, instruction: str, *operations: str) -> Accelerator:
    """The accelerator without some operations of one instruction."""
    whole = accelerator.instruction(instruction)
    kept = tuple(operation for operation in whole.operations if operation.name not in operations)
    less = whole.model_copy(update={"operations": kept})
    made = tuple(less if one == whole else one for one in accelerator.instructions)
    return accelerator.model_copy(update={"instructions": made})


def check(model: onnx.ModelProto, accelerator: Accelerator) -> None:
    program = build(model, accelerator)
    assert any(isinstance(step, Launch) for step in program.steps)
    inputs = draw_inputs(model)
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)), timing=False)
    expected = run_relax(import_integer_model(model), *inputs.values())
    for name, wanted in zip(program.outputs, expected, strict=True):
        np.testing.assert_array_equal(simulation.outputs[name], wanted)


def test_vta_requantises_all_of_it() -> None:
    found = region(CONV, VTA)
    assert (found.epilogue.start, found.epilogue.result, found.epilogue.planes) == ("zero", "int8", 1)
    assert found.host_reason == ""


@pytest.mark.slow
def test_without_a_maximum_the_accumulators_leave_as_they_are() -> None:
    accelerator = without(VTA, "alu", "max", "max_imm")
    found = region(CONV, accelerator)
    assert found.epilogue.planes == 4
    assert found.host_reason == "VTA 16x16 has no max by 0 on its accumulators"
    check(CONV, accelerator)


def test_without_a_shift_they_cannot_leave_at_all() -> None:
    functions = lower(CONV, without(VTA, "alu", "shift_right", "shift_right_imm"), "partition").functions.values()
    (reason,) = (str(f.attrs["cyclops.host_reason"]) for f in functions if f.attrs and "cyclops.host_reason" in f.attrs)
    no_shift, no_store = "has no shift_right by 9 on its accumulators", "cannot store its int32 accumulators"
    assert reason == f"VTA 16x16 {no_shift}; VTA 16x16 {no_store}"


COMPOSITES: dict[str, tuple[list[tuple[Any, ...]], str]] = {
    "the whole chain": ([("conv2d", "bias", "requantize", "clip")], ""),
    "another chain": ([("dense", "bias", "requantize", "clip")], "declares no composite of conv2d + bias + requantize"),
    "the contraction alone": ([("conv2d", "bias")], "declares no composite of conv2d + bias + requantize + clip"),
}


@pytest.mark.parametrize("name", COMPOSITES)
def test_a_document_may_say_what_goes_together(name: str) -> None:
    chains, reason = COMPOSITES[name]
    composites = tuple(Composite(name=f"c{number}", operators=chain) for number, chain in enumerate(chains))
    accelerator = VTA.model_copy(update={"composites": composites})
    found = region(CONV, accelerator)
    assert reason in found.host_reason
    assert (found.host_reason == "") == (reason == "")
    check(CONV, accelerator)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("preset", ["mvin-mvout", "output-stationary", "vector"])
def test_accumulators_that_begin_as_the_bias(preset: str, bias: bool) -> None:
    accelerator = load_accelerator(preset)
    model = dense_model(Dense(6, 40, 21, bias=bias))
    assert region(model, accelerator).epilogue.start == ("zero" if preset == "vector" else "bias")
    program = build(model, accelerator)
    inputs = draw_inputs(model)
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)), timing=False)
    mode = "scale" if preset == "output-stationary" else "shift"
    (expected,) = run_relax(import_integer_model(model, requantize=mode), *inputs.values())
    np.testing.assert_array_equal(simulation.outputs[program.outputs[0]], expected)
