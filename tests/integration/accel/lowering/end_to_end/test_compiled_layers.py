"""Single layers of random shape, compiled and simulated, against numpy integers and against onnxruntime."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.isa.vta.document.vta_configuration import VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.program.program_model import Launch
from accel.simulate.engine import simulate
from examples.single import Conv, Dense, conv_model, dense_model
from tests.helpers.marking import rest_all, rest_slow, rotated, share
from tests.helpers.models.build_models import build
from tests.helpers.programs.race_checks import assert_ordered
from tests.reference import dyadic
from tests.reference.host import draw_inputs, run_onnx

PRESETS = ["vta", "vta-8", "vta-32", "vta-small"]


def check_layer(model: onnx.ModelProto, accelerator: Accelerator, macs: int) -> None:
    """One launch does all the work, its tokens suffice, and the result is exact."""
    program = build(model, accelerator)
    launches = [step for step in program.steps if isinstance(step, Launch)]
    assert [launch.macs for launch in launches] == [macs]
    inputs = draw_inputs(model)
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)))
    assert not any(simulation.tokens.values()), "a token is left over"
    assert_ordered(program)

    (name,) = program.outputs
    result = simulation.outputs[name]
    np.testing.assert_array_equal(result, dyadic.run(model, inputs, balances=True)[model.graph.output[0].name])
    (expected,) = run_onnx(model, inputs)
    assert np.abs(result.astype(int) - expected.astype(int)).max() <= 1


@st.composite
def convolutions(draw: st.DrawFn) -> Conv:
    kernel = (draw(st.integers(1, 7)), draw(st.integers(1, 7)))
    stride = draw(st.sampled_from([1, 2]))
    pads = tuple(draw(st.integers(0, kernel[side % 2])) for side in range(4))
    smallest = [max(1, kernel[axis] - pads[axis] - pads[axis + 2]) for axis in (0, 1)]
    return Conv(
        channels=draw(st.integers(1, 130)),
        filters=draw(st.integers(1, 130)),
        height=draw(st.integers(smallest[0], 30)),
        width=draw(st.integers(smallest[1], 30)),
        kernel=kernel,
        strides=(stride, stride),
        pads=(pads[0], pads[1], pads[2], pads[3]),
        dilations=draw(st.sampled_from([(1, 1), (1, 1), (1, 1), (2, 2)])) if min(smallest) * 2 < 20 else (1, 1),
        batch=draw(st.sampled_from([1, 1, 1, 3])),
        bias=draw(st.booleans()),
        relu=draw(st.booleans()),
    )


@st.composite
def grouped(draw: st.DrawFn) -> Conv:
    """Depthwise, with a multiplier, or of few large groups."""
    groups, each = draw(st.sampled_from([(1, 40), (2, 20), (3, 50), (20, 3), (40, 1)]).flatmap(lambda most: st.tuples(
        st.integers(1, most[0] + 1), st.tuples(st.integers(1, most[1]), st.integers(1, most[1]))
    )))  # fmt: skip
    layer = draw(convolutions())
    return replace(layer, channels=groups * each[0], filters=groups * each[1], groups=groups)


def conv_macs(layer: Conv) -> int:
    extents = [
        (size + layer.pads[axis] + layer.pads[axis + 2] - layer.dilations[axis] * (layer.kernel[axis] - 1) - 1)
        // layer.strides[axis]
        + 1
        for axis, size in enumerate((layer.height, layer.width))
    ]
    depth = layer.channels // layer.groups * layer.kernel[0] * layer.kernel[1]
    return layer.batch * layer.filters * extents[0] * extents[1] * depth


def fits(layer: Conv) -> bool:
    """Whether the dilated kernel fits the padded image."""
    return all(
        size + layer.pads[axis] + layer.pads[axis + 2] >= layer.dilations[axis] * (layer.kernel[axis] - 1) + 1
        for axis, size in enumerate((layer.height, layer.width))
    )


@pytest.mark.parametrize("preset", rest_all(["vta", "vta-small"]))
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(layer=convolutions().filter(fits), seed=st.integers(0, 99))
def test_convolutions(preset: str, layer: Conv, seed: int) -> None:
    check_layer(conv_model(layer, seed), load_accelerator(preset), conv_macs(layer))


@pytest.mark.slow
@pytest.mark.parametrize("preset", rest_all(["vta-small", "vta"]))
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(layer=grouped().filter(fits), seed=st.integers(0, 99))
def test_grouped_convolutions(preset: str, layer: Conv, seed: int) -> None:
    check_layer(conv_model(layer, seed), load_accelerator(preset), conv_macs(layer))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("preset", PRESETS)
@settings(max_examples=share(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(layer=grouped().filter(fits), seed=st.integers(0, 99))
def test_many_grouped_convolutions(preset: str, layer: Conv, seed: int) -> None:
    check_layer(conv_model(layer, seed), load_accelerator(preset), conv_macs(layer))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("preset", PRESETS)
@settings(max_examples=share(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(layer=convolutions().filter(fits), seed=st.integers(0, 99))
def test_many_convolutions(preset: str, layer: Conv, seed: int) -> None:
    check_layer(conv_model(layer, seed), load_accelerator(preset), conv_macs(layer))


@pytest.mark.parametrize("preset", rest_slow(PRESETS))
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    layer=st.builds(
        Dense,
        rows=st.integers(1, 40),
        depth=st.integers(1, 600),
        columns=st.integers(1, 300),
        bias=st.booleans(),
        relu=st.booleans(),
    ),
    seed=st.integers(0, 99),
)
def test_dense(preset: str, layer: Dense, seed: int) -> None:
    check_layer(dense_model(layer, seed), load_accelerator(preset), layer.rows * layer.depth * layer.columns)


CORNERS = {
    "one pixel": Conv(5, 13, 1, 1),
    "one column": Conv(5, 13, 9, 1, kernel=(7, 7), pads=(3, 3, 3, 3)),
    "a frame of nothing": Conv(20, 13, 9, 9, kernel=(1, 1), pads=(1, 1, 1, 1)),
    "padding on one side only": Conv(1, 1, 1, 1, kernel=(1, 1), pads=(0, 1, 0, 0), bias=False),
    "padding wider than its field": Conv(20, 13, 9, 9, pads=(17, 17, 17, 17)),
    "a prime height": Conv(3, 8, 113, 7, strides=(2, 2)),
    "dilated": Conv(24, 24, 20, 20, dilations=(3, 3)),
    "rounding wider than the immediate": Conv(17, 17, 6, 6, shift=17, bias=False),
    "no shift": Conv(17, 17, 6, 6, shift=0),
    "shift to the left": Conv(2, 2, 6, 6, shift=-2),
}


@pytest.mark.parametrize(("corner", "preset"), rotated(CORNERS, ["vta", "vta-small"]))
def test_corners(corner: str, preset: str) -> None:
    layer = CORNERS[corner]
    check_layer(conv_model(layer), load_accelerator(preset), conv_macs(layer))


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param({"LOG_INP_BUFF_SIZE": 4}, id="one element of data", marks=pytest.mark.slow),
        pytest.param({"LOG_WGT_BUFF_SIZE": 8}, id="one block of weights", marks=pytest.mark.slow),
        pytest.param(
            {"LOG_ACC_BUFF_SIZE": 7, "LOG_UOP_BUFF_SIZE": 5}, id="one accumulator and its bias", marks=pytest.mark.slow
        ),
        pytest.param(
            {"LOG_BATCH": 2, "LOG_BLOCK": 3, "LOG_ACC_BUFF_SIZE": 15}, id="four rows a tile", marks=pytest.mark.all
        ),
        pytest.param({"LOG_BLOCK": 7}, id="weights of 16 KiB an element", marks=pytest.mark.slow),
    ],
)
def test_odd_configurations(sizes: dict[str, int]) -> None:
    accelerator = vta_accelerator(VtaConfig(**sizes), name="odd", title="odd")
    for layer in (Conv(20, 13, 9, 7, batch=3), Conv(3, 8, 7, 9, kernel=(5, 5), strides=(2, 2), pads=(2, 1, 2, 1))):
        check_layer(conv_model(layer), accelerator, conv_macs(layer))
    check_layer(dense_model(Dense(5, 70, 33)), accelerator, 5 * 70 * 33)
