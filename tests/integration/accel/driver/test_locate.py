"""A wrong program is traced to the launch and the instruction that stored the first wrong element."""

from dataclasses import replace

import numpy as np
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.fault_localization import locate_fault
from accel.frontend.quantize.quantize_model import quantize_model
from accel.isa.decode import decode
from accel.program.program_model import Launch
from accel.simulate.engine import simulate
from examples.resnet8 import resnet8
from tests.helpers.models.build_models import build, lower
from tests.reference.host import draw_inputs

VTA = load_accelerator("vta")
IMMEDIATE = 48  # first bit of the immediate in an ALU instruction's second word


@pytest.mark.slow
def test_the_instruction_that_stored_the_first_wrong_element() -> None:
    model = quantize_model(resnet8())
    program, packed = build(model, VTA), lower(model, VTA, "pack")
    inputs = dict(zip(program.inputs, draw_inputs(model).values(), strict=True))
    assert locate_fault(packed, program, simulate(program, inputs), inputs) is None

    victim = next(step for step in program.steps if isinstance(step, Launch) and step.name == "stack2_conv1")
    decoded = decode(VTA, program.words[victim.begin : victim.begin + victim.count])
    minimum = 0  # the operation's code
    alu = decoded.rows(VTA.instruction("alu"))
    clips = alu[(decoded.column("alu_opcode")[alu] == minimum) & (decoded.column("use_imm")[alu] == 1)]
    words = program.words.copy()
    words[victim.begin + clips[-1], 1] ^= np.uint64(127 << IMMEDIATE)  # clips to 0 instead of 127
    wrong = replace(program, words=words)

    fault = locate_fault(packed, wrong, simulate(wrong, inputs), inputs)
    assert fault is not None
    assert (fault.launch, fault.got) == ("stack2_conv1", 0)
    assert fault.expected > 0
    stores = victim.begin + decoded.rows(VTA.instruction("store_out"))
    assert fault.instruction == next(row for row in stores if row > victim.begin + clips[-1])
    assert str(fault).startswith("launch stack2_conv1 is the first to go wrong")
