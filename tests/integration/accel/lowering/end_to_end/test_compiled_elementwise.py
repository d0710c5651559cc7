"""Elementwise operators on int8, compiled and simulated, against numpy."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.quantisation_scheme import requantisation
from accel.isa.vta.document.vta_configuration import Variant, VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.lowering.ir.function_attributes import HOST_REASON
from accel.program.program_model import Launch
from accel.simulate.engine import simulate
from tests.helpers.marking import share
from tests.helpers.models.build_models import linked, lower
from tests.helpers.models.elementwise_models import BINARY, MANY, UNARY, Work, expected, work_model
from tests.helpers.programs.race_checks import assert_ordered
from tests.reference.host import draw_inputs

_BATCHED = vta_accelerator(
    VtaConfig(LOG_BATCH=1, LOG_BLOCK=3, LOG_INP_BUFF_SIZE=10, LOG_WGT_BUFF_SIZE=12, LOG_ACC_BUFF_SIZE=12),
    name="batched",
    title="Two rows a tile",
)
_BARE = vta_accelerator(
    VtaConfig(), Variant(acc_8bit=False, multiply=False, immediate_with="src"), name="bare", title="As built"
)
_PRESETS = ("vta", "vta-small", "vector", "gemmini", "output-stationary")
ACCELERATORS = {name: load_accelerator(name) for name in _PRESETS} | {"batched": _BATCHED, "bare": _BARE}


def check(work: Work, accelerator: Accelerator) -> str:
    """The result is right wherever it is made; returns why it is the host's, or nothing."""
    module = lower(work_model(work), accelerator)
    program = linked(module, accelerator)
    inputs = draw_inputs(work_model(work))
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)))
    assert not any(simulation.tokens.values()), "a token is left over"
    if accelerator.family == "vta":
        assert_ordered(program)
    assert simulation.hazards is None or not simulation.hazards.races
    half_to_even = requantisation(Target(accelerator))[0] == "scale"
    wanted, result = expected(work, inputs), simulation.outputs[program.outputs[0]]
    rounded = [wanted["even"]] if half_to_even else [wanted["up"], wanted["down"]]  # each in half of the channels
    np.testing.assert_array_equal(result, rounded[0] if len(rounded) == 1 else np.clip(result, *reversed(rounded)))
    launches = [step for step in program.steps if isinstance(step, Launch)]
    reasons = [str(f.attrs[HOST_REASON]) for f in module.functions.values() if HOST_REASON in (f.attrs or {})]
    assert len(launches) + len(reasons) == 1
    return reasons[0] if reasons else ""


@st.composite
def works(draw: st.DrawFn) -> Work:
    op = draw(st.sampled_from([*UNARY, *BINARY, *MANY]))
    count = 1 if op in UNARY else 2 if op in BINARY or op == "Add" else draw(st.integers(2, 4))
    exponents = tuple(draw(st.integers(-7, -3)) for _ in range(count))
    finest = sum(exponents) if op == "Mul" else min(exponents)
    image = st.tuples(st.sampled_from([1, 1, 3]), st.integers(1, 70), st.integers(1, 14), st.integers(1, 14))
    matrix = st.tuples(st.integers(1, 9), st.integers(1, 90))
    return Work(
        op,
        draw(st.one_of(image, matrix)),
        exponents,
        finest + draw(st.integers(-1, 9 if op == "Mul" else 4)),
        relu=draw(st.booleans()),
        constant=op in ("Add", "Sub", "Mul", "Max") and draw(st.booleans()),
    )


@pytest.mark.slow
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(work=works(), name=st.sampled_from(sorted(ACCELERATORS)))
def test_elementwise_operators(work: Work, name: str) -> None:
    check(work, ACCELERATORS[name])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=share(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(work=works(), name=st.sampled_from(sorted(ACCELERATORS)))
def test_many_elementwise_operators(work: Work, name: str) -> None:
    check(work, ACCELERATORS[name])


IMAGE = (1, 20, 6, 7)


@pytest.mark.parametrize("op", [*UNARY, *BINARY, *MANY])
def test_vta_runs_every_one(op: str) -> None:
    exponents = (-5,) if op in UNARY else (-5, -4)
    assert check(Work(op, IMAGE, exponents, -3), ACCELERATORS["vta"]) == ""


@pytest.mark.parametrize(
    ("name", "work", "reason"),
    [
        ("bare", Work("Mul", IMAGE, (-5, -5), -6), "VTA as built has no product of two accumulators"),
        ("gemmini", Work("Max", IMAGE, (-5, -5), -5), "Gemmini 16x16 has no maximum of two accumulators"),
        ("vector", Work("Sub", IMAGE, (-5, -5), -5), "but cannot negate it there"),
        ("output-stationary", Work("Relu", IMAGE, (-5,), -5), "no load widens them, and its tiles are 8x1, not square"),
        ("vta", Work("Sum", IMAGE, (-14, -5, -5), -5), "the operands' scales lie more than a factor 64 apart"),
    ],
)
def test_what_a_machine_lacks_is_said(name: str, work: Work, reason: str) -> None:
    assert reason.replace("VTA as built", ACCELERATORS[name].title) in check(work, ACCELERATORS[name])
