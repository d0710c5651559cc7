"""First convolutions of few channels: products with the patches of their image."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.catalog.load_accelerator import load_accelerator
from accel.lowering.ir.function_attributes import region_of
from accel.region.kinds import Region
from accel.region.shapes import Convolution
from accel.simulate.engine import simulate
from examples.single import Conv, conv_model
from tests.helpers.marking import rest_slow
from tests.helpers.models.build_models import build, lower, regions
from tests.helpers.programs.race_checks import assert_ordered
from tests.reference import dyadic
from tests.reference.host import draw_inputs


def shape_of(layer: Conv, preset: str = "vta") -> Convolution:
    (function,) = regions(lower(conv_model(layer), load_accelerator(preset), "pack"))
    region = region_of(function)
    assert isinstance(region, Region)
    assert isinstance(region.shape, Convolution)
    return region.shape


def test_taps_fill_the_channels_of_a_tile() -> None:
    """Three channels and 49 taps are 147 channels, which fill 10 blocks of 16 and not 49."""
    shape = shape_of(Conv(3, 64, 56, 56, (7, 7), (2, 2), (3, 3, 3, 3)))
    assert (shape.patches, shape.data.blocks, shape.kernel) == ("channels", 10, (1, 1))
    assert (shape.data.height, shape.data.width) == (28, 28)


@pytest.mark.parametrize("layer", [Conv(16, 16, 14, 14), Conv(8, 16, 14, 14, groups=8), Conv(3, 16, 9, 9, (1, 1))])
def test_nothing_to_gain(layer: Conv) -> None:
    assert shape_of(layer).unfolded is None


@given(
    channels=st.integers(1, 7),
    filters=st.integers(1, 40),
    size=st.tuples(st.integers(4, 20), st.integers(4, 20)),
    kernel=st.tuples(st.integers(1, 4), st.integers(2, 4)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    pads=st.tuples(*[st.integers(0, 2)] * 4),
    batch=st.integers(1, 2),
)
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.parametrize("preset", rest_slow(["vta", "vta-small"]))
def test_results(
    preset: str,
    channels: int,
    filters: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    pads: tuple[int, int, int, int],
    batch: int,
) -> None:
    model = conv_model(Conv(channels, filters, *size, kernel, strides, pads, batch=batch))
    program = build(model, load_accelerator(preset))
    assert_ordered(program)
    inputs = draw_inputs(model)
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)))
    (name,) = program.outputs
    np.testing.assert_array_equal(
        simulation.outputs[name], dyadic.run(model, inputs, balances=True)[model.graph.output[0].name]
    )
