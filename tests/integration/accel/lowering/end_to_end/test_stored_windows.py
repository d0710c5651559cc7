"""Max poolings of which a Gemmini's store takes the largest values, compiled and simulated, against numpy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.isa.family_registry import arrangement_of
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_document import parameters_of
from accel.lowering.ir.function_attributes import HOST_REASON
from accel.program.program_model import Launch, Program
from accel.simulate.engine import simulate
from tests.helpers.marking import share
from tests.helpers.models.build_models import linked, lower
from tests.helpers.models.pooled_convolutions import PooledConvolution, pooled_convolution, pooled_convolution_model
from tests.helpers.models.pools import Pool, expected, pool_model
from tests.reference.host import draw_inputs

PRESETS = ("gemmini", "gemmini-8", "gemmini-lean", "gemmini-2025", "gemmini-32")


def assert_images_in_a_bank(program: Program) -> None:
    """The hardware waits for the rows from an image's first one to the end of its bank, and for no others."""
    parameters = parameters_of(program.accelerator)
    bank = parameters.accumulator_rows // parameters.accumulator_banks
    last, seen = -1, 0  # the last row that windows have, from the image's first one on
    for funct, rs1, rs2 in program.words.astype(object):
        if funct == rocc.CONFIG and rs1 & 3 == rocc.CONFIG_ST:
            stride, size, width = rs1 >> 4 & 3, rs1 >> 6 & 3, rs1 >> 56
            rows, columns = (((rs1 >> bit & 0xFF) - 1) * stride + size - 1 for bit in (32, 40))
            last = rows * width + columns if stride else -1
            assert not stride or (rows < rs1 >> 48 & 0xFF and columns < width)  # all windows lie within the image
        elif funct == rocc.MVOUT and last >= 0:
            first, seen = rs2 & rocc.STORE_ROW, seen + 1
            assert first // bank == (first + last) // bank
    assert seen


def check(pool: Pool, accelerator: Accelerator) -> None:
    program = linked(lower(pool_model(pool), accelerator), accelerator, arrangement_of(accelerator))
    launches = [step.name for step in program.steps if isinstance(step, Launch)]
    assert launches in ([["conv"], ["conv", "pool"]] if pool.relu else [["pool"]])
    assert_images_in_a_bank(program)
    inputs = draw_inputs(pool_model(pool))
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)))
    assert simulation.hazards is None or not (simulation.hazards.races or simulation.hazards.errata)
    np.testing.assert_array_equal(simulation.outputs[program.outputs[0]], expected(pool, inputs["x"]))


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    size, stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    pads = [draw(st.integers(0, size - 1)) for _ in range(4)]
    return Pool(
        channels=draw(st.integers(1, 150)),
        height=draw(st.integers(size, 45)),
        width=draw(st.integers(size, 45)),
        kernel=(size, size),
        strides=(stride, stride),
        pads=(pads[0], pads[1], pads[2], pads[3]),
        batch=draw(st.sampled_from([1, 1, 3])),
        ceil=draw(st.booleans()),
        relu=draw(st.booleans()),
    )


def check_pooled(net: PooledConvolution, accelerator: Accelerator) -> list[str]:
    """The launches of a convolution and a pooling, whose result is numpy's."""
    model = pooled_convolution_model(net)
    program = linked(lower(model, accelerator), accelerator, arrangement_of(accelerator))
    launches = [step.name for step in program.steps if isinstance(step, Launch)]
    assert_images_in_a_bank(program)
    inputs = draw_inputs(model)
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)))
    hazards = simulation.hazards
    assert hazards is None or not (hazards.races or hazards.errata or hazards.unwritten)
    np.testing.assert_array_equal(simulation.outputs[program.outputs[0]], pooled_convolution(net, inputs["x"]))
    return launches


@st.composite
def pooled_convolutions(draw: st.DrawFn) -> PooledConvolution:
    kernel, channels = draw(st.sampled_from([1, 3, 3, 5])), draw(st.sampled_from([3, 16, 20, 40, 64]))
    pads = [draw(st.integers(0, kernel // 2)) for _ in range(4)]
    depthwise, size = draw(st.integers(0, 6)) == 0, (draw(st.integers(8, 45)), draw(st.integers(8, 45)))
    like = PooledConvolution(Pool(1, 1, 1), channels, size, kernel, draw(st.integers(1, 2)), tuple(pads))  # type: ignore[arg-type]
    high, wide = like.result
    window, stride = draw(st.sampled_from([(2, 2), (3, 2), (3, 1), (2, 1), (3, 3), (1, 2)]))
    around = [draw(st.integers(0, window - 1)) for _ in range(4)]
    pool = Pool(
        channels if depthwise else draw(st.integers(1, 100)), high, wide, (window, window), (stride, stride),
        (around[0], around[1], around[2], around[3]), batch=draw(st.sampled_from([1, 1, 2])), ceil=draw(st.booleans()),
        relu=draw(st.booleans()),
    )  # fmt: skip
    scale, zero = 2.0 ** draw(st.integers(8, 12)), draw(st.sampled_from([0, -128, -6]))
    return replace(like, pool=pool, depthwise=depthwise, scale=scale, zero=zero, seed=draw(st.integers(0, 1000)))


def is_agreed(net: PooledConvolution) -> bool:
    return net.pool.agreed and min(net.result) >= net.pool.kernel[0]


@pytest.mark.slow
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(net=pooled_convolutions().filter(is_agreed), name=st.sampled_from(PRESETS))
def test_convolutions_that_pool(net: PooledConvolution, name: str) -> None:
    check_pooled(net, load_accelerator(name))


@pytest.mark.all
@pytest.mark.timeout(1800)
@settings(max_examples=share(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(net=pooled_convolutions().filter(is_agreed), name=st.sampled_from(PRESETS))
def test_many_convolutions_that_pool(net: PooledConvolution, name: str) -> None:
    check_pooled(net, load_accelerator(name))


@pytest.mark.slow
def test_the_stem_of_a_resnet_is_one_launch() -> None:
    """Its windows overlap, leave the image at the top and left, and its least value is no zero of the store's."""
    pool = Pool(64, 40, 40, pads=(1, 1, 1, 1), relu=True)
    net = PooledConvolution(pool, 3, (80, 80), 7, 2, (3, 3, 3, 3), zero=-128)
    assert check_pooled(net, load_accelerator("gemmini")) == ["conv"]


@pytest.mark.slow
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(pool=pools().filter(lambda pool: pool.agreed), name=st.sampled_from(PRESETS))
def test_windows(pool: Pool, name: str) -> None:
    check(pool, load_accelerator(name))


@pytest.mark.all
@pytest.mark.timeout(1800)
@settings(max_examples=share(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(pool=pools().filter(lambda pool: pool.agreed), name=st.sampled_from(PRESETS))
def test_many_windows(pool: Pool, name: str) -> None:
    check(pool, load_accelerator(name))


@pytest.mark.slow
def test_the_pooling_of_a_resnet() -> None:
    """Its image is larger than a bank, and lies within a border of the least int8 that the convolution leaves alone."""
    check(Pool(64, 56, 56, pads=(1, 1, 1, 1), relu=True), load_accelerator("gemmini"))


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        (Pool(8, 9, 9, (4, 4)), "config_st.pool_size of store_pooled holds 3 at most, and would be 4"),
        (Pool(8, 9, 9, (3, 2)), "store_pooled takes square windows, as far apart both ways"),
        (Pool(8, 9, 9, dilations=(2, 2)), "store_pooled takes windows without dilation"),
        (Pool(8, 9, 9, limit=20), "which clips to -128 and 127, not to -20 and 20"),
    ],
)
def test_what_stays_with_the_host_says_why(pool: Pool, reason: str) -> None:
    module = lower(pool_model(pool), load_accelerator("gemmini"), "partition")
    (said,) = [str(f.attrs[HOST_REASON]) for f in module.functions.values() if HOST_REASON in (f.attrs or {})]
    assert reason in said
