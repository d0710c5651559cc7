"""Additions of any scales and zero points, on machines that multiply, scale, or only shift."""

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.catalog.load_accelerator import load_accelerator
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.integer_recovery.requantization import Requantize
from accel.region.shapes import Addition
from examples.graph import Graph
from tests.helpers.marking import rest_all, share
from tests.helpers.models.onnxruntime_layers import TYPES, check_within_a_step, zero
from tests.helpers.models.scaled_layers import composites
from tests.integration.accel.lowering.end_to_end.test_compiled_epilogues import region
from tests.integration.accel.lowering.end_to_end.test_compiled_multiplication import check
from tests.reference.host import draw_inputs, run_relax

Scales = tuple[float, float, float]
SYMMETRIC = (128, 128, 128)


def addition(
    scales: Scales,
    zeros: tuple[int, int, int] = SYMMETRIC,
    dtype: str = "int8",
    shape: tuple[int, ...] = (1, 20, 6, 5),
    *,
    relu: bool = False,
) -> onnx.ModelProto:
    """``y = a + b``; scales and zero points of a, b and y, the latter above the lowest of their type."""
    graph = Graph("addition")
    terms = [
        graph.dequantize(graph.input(name, shape, TYPES[dtype]), scales[at], zero(dtype, zeros[at]))
        for at, name in enumerate("ab")
    ]
    y = graph.node("Add", "add", terms)
    if relu:
        y = graph.node("Relu", "relu", [y])
    graph.output(graph.quantize(y, scales[2], zero(dtype, zeros[2]), "y"), shape, TYPES[dtype])
    return graph.model()


@pytest.mark.slow
@settings(max_examples=share(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    scales=st.tuples(st.floats(1e-3, 1), st.floats(1e-3, 1)),
    grown=st.floats(0.5, 3),
    zeros=st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255)),
    dtype=st.sampled_from(sorted(TYPES)),
    requantize=st.sampled_from(["shift", "scale", "multiply"]),
    relu=st.booleans(),
)
def test_any_sum_is_within_a_step(
    scales: tuple[float, float],
    grown: float,
    zeros: tuple[int, int, int],
    dtype: str,
    requantize: Requantize,
    *,
    relu: bool,
) -> None:
    model = addition((*scales, max(scales) * grown), zeros, dtype, relu=relu)
    imported = import_integer_model(model, requantize)
    check_within_a_step(run_relax(imported, *draw_inputs(model).values()), model)


@pytest.mark.parametrize("requantize", ["shift", "scale", "multiply"])
@pytest.mark.parametrize("scales", [(0.031, 0.047, 0.06), (0.1, 0.3, 0.31), (0.02, 0.019, 0.022)])
def test_usual_sums_are_integer_whatever_requantises(scales: Scales, requantize: Requantize) -> None:
    (function,) = composites(import_integer_model(addition(scales, (3, 99, 200)), requantize)).values()
    assert function.attrs["op"] == "add"


def levels(model: onnx.ModelProto, preset: str) -> int:
    found = region(model, load_accelerator(preset))
    assert isinstance(found.shape, Addition)
    assert found.epilogue.result == "int8"
    return len(found.shape.levels)


@pytest.mark.parametrize(
    ("preset", "count"),
    rest_all([("vta", 1), ("gemmini", 1), ("vta-chisel", 2), ("vta-8", 1), ("vta-pynq", 2)], keep=3),
)
@pytest.mark.parametrize("zeros", [(3, 99, 200), pytest.param(SYMMETRIC, marks=pytest.mark.slow)])
def test_where_nothing_multiplies_weights_have_two_levels(preset: str, count: int, zeros: tuple[int, int, int]) -> None:
    model = addition((0.031, 0.047, 0.06), zeros)
    assert levels(model, preset) == count
    check(model, load_accelerator(preset))


@pytest.mark.parametrize("preset", ["vta", "vta-chisel", "gemmini"])
def test_scales_a_power_of_two_apart_are_exact_with_any_zero_points(preset: str) -> None:
    model = addition((2.0**-5, 2.0**-3, 2.0**-3), (3, 99, 200), "uint8")
    assert levels(model, preset) == 1
    check(model, load_accelerator(preset))


@pytest.mark.parametrize("shape", [(3, 40), (2, 3, 20), (1, 70, 9, 8), (7,)])
def test_tensors_of_any_shape(shape: tuple[int, ...]) -> None:
    check(addition((0.031, 0.047, 0.06), (3, 99, 200), shape=shape), load_accelerator("vta-chisel"))


def test_sums_at_their_extremes() -> None:
    """Every pair of the largest and the smallest numbers, with the zero points that make them larger."""
    ends = np.array([-128, -127, 126, 127], np.int8)
    a, b = (np.tile(values, (1, 5)).astype(np.int8) for values in (np.repeat(ends, 4), np.tile(ends, 4)))
    for zeros in ((0, 0, 128), (255, 255, 128), (0, 255, 0)):
        scales = (0.031, 0.047, 0.06)
        model = addition(scales, zeros, shape=a.shape)
        exact = (a - (zeros[0] - 128.0)) * np.float32(scales[0]) + (b - (zeros[1] - 128.0)) * np.float32(scales[1])
        wanted = np.clip(np.rint(exact / np.float32(scales[2])) + zeros[2] - 128, -128, 127)
        for requantize in ("shift", "scale", "multiply"):
            (result,) = run_relax(import_integer_model(model, requantize), a, b)
            assert np.abs(result - wanted).max() <= 1
