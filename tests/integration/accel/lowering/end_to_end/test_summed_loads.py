"""Sums that a Gemmini's loads make in its accumulators, several blocks of a row at once, against numpy."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.catalog.load_accelerator import load_accelerator
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.program.program_model import Program
from accel.simulate.engine import simulate
from tests.helpers.marking import share
from tests.helpers.models.build_models import build
from tests.integration.accel.lowering.end_to_end.test_compiled_additions import SYMMETRIC, addition
from tests.reference.host import draw_inputs

PRESETS = ("gemmini", "gemmini-8", "gemmini-lean", "gemmini-2025", "gemmini-rocket")


def summed(shape: tuple[int, ...], times: int, halvings: int, *, relu: bool, name: str) -> Program:
    """Compile ``(a + times * b) / 2 ** halvings``, and compare what it gives with numpy."""
    model = addition((2.0**-5, times * 2.0**-5, 2.0 ** (halvings - 5)), SYMMETRIC, "int8", shape, relu=relu)
    accelerator, inputs = load_accelerator(name), draw_inputs(model)
    program = build(model, accelerator)
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)))
    assert simulation.hazards is None or not (simulation.hazards.races or simulation.hazards.errata)
    a, b = (inputs[each].astype(np.float64) for each in "ab")
    wanted = np.rint((a + times * b) / 2**halvings)
    wanted = np.clip(wanted, 0 if relu else -128, 127).astype(np.int8)
    np.testing.assert_array_equal(simulation.outputs[program.outputs[0]], wanted)
    return program


def counts(program: Program) -> tuple[int, int, int]:
    """Products, loads that accumulate, and the most blocks of a store."""
    words = program.words
    products = np.isin(words[:, 0], (rocc.COMPUTE_PRELOADED, rocc.COMPUTE_ACCUMULATED)).sum()
    onto = (words[:, 0] == rocc.MVIN2) & (words[:, 2] >> np.uint64(30) & np.uint64(3) == 3)
    stores = words[words[:, 0] == rocc.MVOUT, 2] >> np.uint64(32) & np.uint64(0xFFFF)
    return int(products), int(onto.sum()), int(stores.max(initial=0)) // 16


@pytest.mark.parametrize(("times", "loads"), [(1, 14), (2, 28)])
def test_operands_are_loaded_onto_each_other(times: int, loads: int) -> None:
    """14 columns are no 16: blocks lie 16 accumulators apart all the same."""
    program = summed((1, 64, 14, 14), times, 1, relu=True, name="gemmini")
    assert counts(program) == (0, loads, 4)


def test_what_no_loads_sum_is_a_product() -> None:
    products, onto, _ = counts(summed((1, 64, 1, 14), 4, 1, relu=False, name="gemmini"))
    assert products
    assert not onto


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ...]:
    image = st.tuples(st.sampled_from([1, 1, 2]), st.integers(17, 200), st.integers(1, 30), st.integers(1, 30))
    matrix = st.tuples(st.integers(1, 40), st.integers(17, 300))
    return draw(st.one_of(image, image, matrix))


@pytest.mark.slow
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    shape=shapes(), times=st.integers(1, 2), halvings=st.integers(0, 3), relu=st.booleans(),
    name=st.sampled_from(PRESETS),
)  # fmt: skip
def test_sums(shape: tuple[int, ...], times: int, halvings: int, name: str, *, relu: bool) -> None:
    summed(shape, times, halvings, relu=relu, name=name)


@pytest.mark.all
@pytest.mark.timeout(1800)
@settings(max_examples=share(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    shape=shapes(), times=st.integers(1, 2), halvings=st.integers(0, 3), relu=st.booleans(),
    name=st.sampled_from(PRESETS),
)  # fmt: skip
def test_many_sums(shape: tuple[int, ...], times: int, halvings: int, name: str, *, relu: bool) -> None:
    summed(shape, times, halvings, relu=relu, name=name)
