"""Max poolings of random shape, compiled and simulated, against numpy."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.isa.vta.document.vta_configuration import Variant, VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.lowering.ir.function_attributes import HOST_REASON
from accel.program.program_model import Launch
from accel.region.pooling import Pooling, pooling_plan, taps
from accel.region.shapes import PackedActivation, SlidingWindow
from accel.region.tile_steps import LaneCapabilities, Merge, Take, iterations_of_steps
from accel.simulate.engine import simulate
from tests.helpers.marking import share
from tests.helpers.models.build_models import linked, lower
from tests.helpers.models.pools import Pool, expected, pool_model
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
_PRESETS = ("vta", "vta-small", "vta-chisel", "vector")
ACCELERATORS = {name: load_accelerator(name) for name in _PRESETS} | {"batched": _BATCHED, "bare": _BARE}


def check(pool: Pool, accelerator: Accelerator) -> None:
    module = lower(pool_model(pool), accelerator)
    program = linked(module, accelerator)
    launches = [step.name for step in program.steps if isinstance(step, Launch)]
    reasons = [str(f.attrs[HOST_REASON]) for f in module.functions.values() if HOST_REASON in (f.attrs or {})]
    wanted = ["conv", "pool"] if pool.relu else ["pool"]
    assert launches == wanted or reasons == [f"no tile of it fits the scratchpads of {accelerator.title}"]
    inputs = draw_inputs(pool_model(pool))
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)))
    assert not any(simulation.tokens.values()), "a token is left over"
    if accelerator.family == "vta":
        assert_ordered(program)
    assert simulation.hazards is None or not simulation.hazards.races
    np.testing.assert_array_equal(simulation.outputs[program.outputs[0]], expected(pool, inputs["x"]))


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    kernel = (draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    dilations = (draw(st.sampled_from([1, 1, 2, 3])), draw(st.sampled_from([1, 1, 2, 3])))
    pads = tuple(draw(st.integers(0, kernel[side % 2] - 1)) for side in range(4))
    least = [max(1, dilations[axis] * (kernel[axis] - 1) + 1 - pads[axis] - pads[axis + 2]) for axis in (0, 1)]
    return Pool(
        channels=draw(st.integers(1, 70)),
        height=draw(st.integers(least[0], least[0] + 14)),
        width=draw(st.integers(least[1], least[1] + 14)),
        kernel=kernel,
        strides=(draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        pads=(pads[0], pads[1], pads[2], pads[3]),
        dilations=dilations,
        batch=draw(st.sampled_from([1, 1, 3])),
        ceil=draw(st.booleans()),
        relu=draw(st.booleans()),
        limit=draw(st.sampled_from([None, None, 20])),
    )


@pytest.mark.slow
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(pool=pools().filter(lambda pool: pool.agreed), name=st.sampled_from(sorted(ACCELERATORS)))
def test_poolings(pool: Pool, name: str) -> None:
    check(pool, ACCELERATORS[name])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=share(50), deadline=None, suppress_health_check=list(HealthCheck))
@given(pool=pools().filter(lambda pool: pool.agreed), name=st.sampled_from(sorted(ACCELERATORS)))
def test_many_poolings(pool: Pool, name: str) -> None:
    check(pool, ACCELERATORS[name])


@pytest.mark.parametrize(
    "pool",
    [
        pytest.param(Pool(64, 28, 28, pads=(1, 1, 1, 1), relu=True), id="as in ResNet", marks=pytest.mark.slow),
        pytest.param(
            Pool(20, 13, 13, (13, 13), (1, 1), (6, 6, 6, 6), relu=True), id="as in a pyramid", marks=pytest.mark.slow
        ),
        pytest.param(Pool(20, 9, 7, (9, 7), (1, 1)), id="global", marks=pytest.mark.all),
        pytest.param(Pool(17, 5, 5, (1, 1), (2, 2)), id="of one element"),
        pytest.param(Pool(17, 4, 1, (2, 2), (1, 1), (0, 1, 0, 1), (1, 2), relu=True), id="a window of padding"),
        pytest.param(Pool(3, 1, 1, (3, 3), (1, 1), (1, 1, 1, 1), relu=True), id="one pixel", marks=pytest.mark.all),
    ],
)
def test_corners(pool: Pool) -> None:
    for accelerator in ACCELERATORS.values():
        check(pool, accelerator)


def test_the_packed_image_passes_without_the_host() -> None:
    text = lower(pool_model(Pool(64, 12, 12, pads=(1, 1, 1, 1), relu=True)), load_accelerator("vta"), "pack").script()
    assert text.count("permute_dims") == 2  # at the input and at the output


@pytest.mark.parametrize("preset", ["output-stationary", "mvin-mvout"])
def test_machines_without_a_maximum_say_so(preset: str) -> None:
    accelerator = load_accelerator(preset)
    module = lower(pool_model(Pool(8, 6, 6)), accelerator, "partition")
    (reason,) = [str(f.attrs[HOST_REASON]) for f in module.functions.values() if HOST_REASON in (f.attrs or {})]
    assert reason == f"{accelerator.title} has no maximum of two accumulators"


@settings(max_examples=200)
@given(size=st.integers(1, 9), stride=st.integers(1, 4), dilation=st.integers(1, 4))
def test_every_tap_has_one_phase(size: int, stride: int, dilation: int) -> None:
    found = sorted(t.phase + shift * stride for t in taps(size, stride, dilation) for shift in t.shifts)
    assert found == [tap * dilation for tap in range(size)]
    for along in taps(size, stride, dilation):
        assert len({b - a for a, b in zip(along.shifts, along.shifts[1:], strict=False)}) <= 1


def test_what_is_shared_is_brought_once() -> None:
    data = PackedActivation(1, 4, 112, 112, 112, 112)
    pooling = Pooling(data, SlidingWindow((3, 3), (2, 2), (1, 1), (1, 1, 1, 1)), 56, 56, direct=False)
    plan = pooling_plan(pooling, 8, 28, LaneCapabilities(pair=True, difference=True, direct=False))
    assert len(plan.boxes) == 1
    assert len([step for step in plan.steps if isinstance(step, Merge)]) == 2
    assert len([step for step in plan.steps if isinstance(step, Take)]) == 1 + 2 * 4
    apart = pooling_plan(pooling, 8, 28, LaneCapabilities(pair=True, difference=False, direct=False))
    assert iterations_of_steps(plan.steps, 4) < iterations_of_steps(apart.steps, 4)
