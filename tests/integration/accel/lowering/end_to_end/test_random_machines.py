"""Whatever machine a check takes: layers compiled for it are right, and the order of its units is no luck."""

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import parse_accelerator
from accel.errors import InvalidAccelerator
from accel.lowering.ir.function_attributes import HOST_REASON, region_of
from accel.program.program_model import Launch
from accel.simulate.engine import simulate
from examples.single import Conv, Dense, conv_model, dense_model
from tests.helpers.documents.random_machines import random_machine
from tests.helpers.marking import others_all
from tests.helpers.models.additions import addition
from tests.helpers.models.build_models import build, imported, lower
from tests.helpers.models.onnxruntime_layers import Kind, conv
from tests.integration.accel.lowering.end_to_end.test_compiled_additions import addition as scaled_addition
from tests.reference.host import draw_inputs, run_relax

MODELS: dict[str, onnx.ModelProto] = {
    "conv": conv_model(Conv(5, 9, 6, 5, relu=True)),
    "conv without bias": conv_model(Conv(8, 8, 4, 4, kernel=(1, 1), pads=(0, 0, 0, 0), bias=False)),
    "strided": conv_model(Conv(4, 6, 7, 6, strides=(2, 2), limit=60)),
    "dense": dense_model(Dense(3, 20, 18)),
    "addition": addition(),
    "any scales": conv(Kind(y_zero=9), 8, 8),
    "addition of any scales": scaled_addition((0.031, 0.047, 0.06), (3, 99, 200), shape=(1, 8, 4, 3)),
}


def made(seed: int) -> Accelerator | None:
    """The machine of a seed, or None where a check refuses it."""
    try:
        return parse_accelerator(random_machine(seed))
    except InvalidAccelerator:
        return None


def check(name: str, accelerator: Accelerator) -> None:
    """The model is right on the machine, or the host has it for a reason."""
    model = MODELS[name]
    program = build(model, accelerator)
    if not any(isinstance(step, Launch) for step in program.steps):
        functions: list[Any] = list(lower(model, accelerator, "partition").functions.values())
        marked = [f for f in functions if f.attrs is not None and "op" in f.attrs]
        assert all(region_of(f) is None and str(f.attrs[HOST_REASON]) for f in marked)
    inputs = draw_inputs(model)
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)))
    expected = run_relax(imported(model, accelerator), *inputs.values())
    for output, wanted in zip(program.outputs, expected, strict=True):
        np.testing.assert_array_equal(simulation.outputs[output], wanted)
    assert simulation.hazards is None or not simulation.hazards.races


# a machine in the order of the program, one of hazards and one of tokens first
FEW = [
    (3, "dense"),
    (2, "strided"),
    (5, "any scales"),
    (0, "conv"),
    (1, "conv without bias"),
    (4, "addition"),
    (6, "addition of any scales"),
    (40, "any scales"),  # sums of 64 bits, to which constants of 32 are added
    (35, "conv"),  # of 48
]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "name"), others_all(FEW, FEW[1:3]))
def test_a_few_machines(seed: int, name: str) -> None:
    accelerator = made(seed)
    assert accelerator is not None
    check(name, accelerator)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 30), st.sampled_from(list(MODELS)))
def test_many_machines(seed: int, name: str) -> None:
    accelerator = made(seed)
    assume(accelerator is not None)
    assert accelerator is not None
    check(name, accelerator)
