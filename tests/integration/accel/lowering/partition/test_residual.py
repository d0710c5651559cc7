"""Residual additions behind their convolution: one launch, exact, in an order that tokens fix."""

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from accel.catalog.load_accelerator import load_accelerator
from accel.program.program_model import Launch
from accel.simulate.engine import simulate
from examples.graph import Graph
from tests.helpers.marking import rest_slow
from tests.helpers.models.build_models import build
from tests.helpers.programs.race_checks import assert_ordered
from tests.reference import dyadic
from tests.reference.host import draw_inputs

ZERO = np.array(0, np.int8)


def block(
    shape: tuple[int, int, int, int],
    kernel: int,
    *,
    exponents: tuple[int, int, int] = (-4, -4, -4),
    swapped: bool = False,
    twice: bool = False,
    relu: bool = True,
) -> onnx.ModelProto:
    """relu(conv(x) + r); ``exponents`` of the scales of conv's result, r, and the sum.

    ``swapped``: r comes first. ``twice``: conv's result is an output too, so it must leave.
    """
    graph = Graph("block")
    random = np.random.default_rng(11)
    channels, pad = shape[1], kernel // 2
    x = graph.dequantize(graph.input("x", shape, TensorProto.INT8), 2.0**-5, ZERO)
    r = graph.dequantize(graph.input("r", shape, TensorProto.INT8), 2.0 ** exponents[1], ZERO)
    weight = graph.constant("w", random.integers(-40, 40, (channels, channels, kernel, kernel)).astype(np.int8))
    bias = graph.constant("b", random.integers(-9000, 9000, channels).astype(np.int32))
    operands = [x, graph.dequantize(weight, 2.0**-7, ZERO), graph.dequantize(bias, 2.0**-12, np.array(0, np.int32))]
    y = graph.quantize(graph.node("Conv", "conv", operands, pads=[pad] * 4), 2.0 ** exponents[0], ZERO, "conv_q")
    if twice:
        graph.output(y, shape, TensorProto.INT8)
    terms = [graph.dequantize(y, 2.0 ** exponents[0], ZERO), r]
    total = graph.node("Add", "add", terms[::-1] if swapped else terms)
    if relu:
        total = graph.node("Relu", "relu", [total])
    graph.output(graph.quantize(total, 2.0 ** exponents[2], ZERO, "y"), shape, TensorProto.INT8)
    return graph.model()


def check(model: onnx.ModelProto, preset: str, *launches: int) -> None:
    """``launches``: how many there may be."""
    program = build(model, load_accelerator(preset))
    found = [step for step in program.steps if isinstance(step, Launch)]
    assert len(found) in launches
    assert_ordered(program)
    inputs = draw_inputs(model)
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)))
    assert not any(simulation.tokens.values()), "a token is left over"
    reference = dyadic.run(model, inputs, balances=True)
    for output, name in zip(model.graph.output, program.outputs, strict=True):
        np.testing.assert_array_equal(simulation.outputs[name], reference[output.name])


@given(st.data())
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.parametrize("preset", rest_slow(["vta", "vta-8", "vta-small"]))
def test_blocks(preset: str, data: st.DataObject) -> None:
    shape = (
        data.draw(st.sampled_from([1, 1, 2])),
        data.draw(st.sampled_from([3, 16, 32, 70])),
        data.draw(st.integers(1, 14)),
        data.draw(st.integers(1, 14)),
    )
    kernel = data.draw(st.sampled_from([1, 3]))
    exponents = tuple(data.draw(st.integers(-6, -2)) for _ in range(3))
    swapped, relu = data.draw(st.booleans()), data.draw(st.booleans())
    model = block(shape, kernel, exponents=(exponents[0], exponents[1], exponents[2]), swapped=swapped, relu=relu)
    check(model, preset, 1, 2)  # small ones may be cheaper apart


@pytest.mark.slow
def test_an_addition_joins_a_convolution_of_some_size() -> None:
    for preset in ("vta", "vta-8"):
        check(block((1, 32, 14, 14), 3), preset, 1)


def test_a_result_that_others_read_leaves() -> None:
    check(block((1, 16, 6, 6), 3, twice=True), "vta", 2)


@pytest.mark.slow
def test_scales_too_far_apart_for_a_weight() -> None:
    """The addend would need an identity of 256."""
    check(block((1, 16, 6, 6), 3, exponents=(-12, -4, -4)), "vta", 2)


def test_the_report_names_both_operators() -> None:
    program = build(block((1, 16, 6, 6), 3), load_accelerator("vta"))
    (launch,) = [step for step in program.steps if isinstance(step, Launch)]
    assert {"conv", "add", "relu"} <= set(launch.nodes)
    assert launch.op == "conv2d"
