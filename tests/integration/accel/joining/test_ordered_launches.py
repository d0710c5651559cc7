"""Launches that become one where the machine orders what they do: what goes first, and what is sent among others."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.catalog.load_accelerator import load_accelerator
from accel.isa.family_registry import family_of
from accel.joining.joined_launches import join_launches
from accel.program.program_model import Launch
from accel.report.seam_cycles import cycles_without_seams
from accel.simulate.engine import simulate
from examples.networks import build
from tests.integration.accel.driver.test_random_networks import networks
from tests.integration.accel.joining.test_joined_networks import ran

_MOST = 1.05  # of what single launches allow


def compared(model, name):
    """The joined program, that of separate launches, and the joined report; both are verified, and agree."""
    accelerator = load_accelerator(name)
    (joined, program, outputs), (apart, separate, others) = (
        ran(model, accelerator, way) for way in ("joined", "separate")
    )
    assert joined.verified
    assert apart.verified
    for output in outputs:
        np.testing.assert_array_equal(outputs[output], others[output])
    assert sorted(map(bytes, program.words)) == sorted(map(bytes, separate.words))
    return program, separate, joined


@pytest.mark.slow
def test_weights_go_before_the_data_that_they_wait_for():
    """Catches a layer whose first loads stand behind one that waits for the last store of the layer before."""
    program, separate, joined = compared(build("keyword_spotting"), "npu")
    apart, least = simulate(separate, {}, function=False).cycles, cycles_without_seams(separate)
    assert apart - joined.cycles > 0.75 * (apart - least) > 0
    words = join_launches(separate, family_of(program.accelerator)).words
    np.testing.assert_array_equal(words, program.words)


@pytest.mark.slow
def test_layers_of_a_machine_in_order_are_sent_as_one():
    """Catches instructions of a layer that leave their launch's origin, and launches that are left without any."""
    program, separate, joined = compared(build("resnet8"), "output-stationary")
    assert joined.cycles <= _MOST * cycles_without_seams(separate)
    assert joined.cycles <= 1.1 * joined.bound.cycles
    assert any(step.joined for step in program.steps if isinstance(step, Launch))
    assert all(step.count for step in program.steps if isinstance(step, Launch))


@pytest.mark.all
@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(model=networks(), name=st.sampled_from(["npu", "mvin-mvout", "output-stationary"]))
def test_many_ordered_networks(model, name):
    _, separate, joined = compared(model, name)
    assert joined.cycles <= 1.02 * simulate(separate, {}, function=False).cycles
