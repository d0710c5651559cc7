"""Whole networks on every preset against numpy integers: residual additions, foreign quantisation, several outputs."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnxruntime.quantization import QuantType

from accel.catalog.load_accelerator import load_accelerator
from accel.errors import CompileError
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.integer_recovery.rounding_bias import ROUNDED
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.quantize.scale_grid import GRIDS, Grid
from accel.program.program_model import HostStep, Launch
from accel.simulate.engine import simulate
from examples.graph import Graph
from examples.resnet8 import resnet8
from tests.helpers.marking import rest_all, rest_slow, rotated
from tests.helpers.models.build_models import build, imported
from tests.helpers.programs.race_checks import assert_ordered
from tests.reference import dyadic
from tests.reference.host import Array, draw_inputs, run_onnx, run_relax
from tests.reference.onnxruntime_quantizer import quantise_by_onnxruntime


def run(model: onnx.ModelProto, preset: str, inputs: dict[str, Array]) -> tuple[list[Array], list[Launch]]:
    program = build(model, load_accelerator(preset))
    assert_ordered(program)
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)))
    launches = [step for step in program.steps if isinstance(step, Launch)]
    return [simulation.outputs[name] for name in program.outputs], launches


@pytest.mark.parametrize("preset", [*rest_slow(["vta", "vta-small"]), *rest_all(["vta-8", "vta-32"], keep=0)])
def test_resnet8(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GRIDS, "power of two", Grid(1))  # float32 holds each sum, so a half is a half in both
    model = quantize_model(resnet8())
    inputs = draw_inputs(model)
    (result,), launches = run(model, preset, inputs)
    fused = [launch.op for launch in launches if any(node.endswith("_add") for node in launch.nodes)]
    assert len(fused) == 3
    if preset != "vta-small":  # whose buffers hold no addend beside a convolution's data
        assert fused == ["conv2d"] * 3, "each addition goes with its convolution"
    assert sum(launch.macs for launch in launches) == 12_501_632  # all of them
    reference = dyadic.run(model, inputs, balances=True)[model.graph.output[0].name]
    np.testing.assert_allclose(result, reference, rtol=1e-5)  # softmax is float on the host
    (exact,) = run_relax(import_integer_model(model, balances=ROUNDED), *inputs.values())
    np.testing.assert_array_equal(result, exact)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("activations", "weights", "options"),
    [
        (QuantType.QUInt8, QuantType.QInt8, {}),
        (QuantType.QInt8, QuantType.QInt8, {"per_channel": True, "symmetric": True}),
        (QuantType.QUInt8, QuantType.QUInt8, {}),
    ],
)
@pytest.mark.parametrize("preset", rest_slow(["vta", "vta-small", "vta-chisel"]))
def test_other_scales_keep_their_macs_on_the_accelerator(
    preset: str, activations: QuantType, weights: QuantType, options: dict[str, bool], tmp_path: Path
) -> None:
    """Where no multiplication requantises, the accumulators leave as four byte planes, and the host does."""
    graph = Graph("two_layers")
    random = np.random.default_rng(3)
    x = graph.input("x", (1, 5, 11, 9))
    for name, channels, filters in (("first", 5, 19), ("second", 19, 7)):
        weight = graph.constant(f"{name}_w", random.normal(0, 0.2, (filters, channels, 3, 3)).astype(np.float32))
        bias = graph.constant(f"{name}_b", random.normal(0, 0.5, filters).astype(np.float32))
        x = graph.node("Conv", name, [x, weight, bias], pads=[1, 1, 1, 1])
        x = graph.node("Relu", f"{name}_relu", [x])
    graph.output(x, (1, 7, 11, 9))
    model = quantise_by_onnxruntime(graph.model(), tmp_path, activations, weights, **options)
    inputs = draw_inputs(model)
    (result,), launches = run(model, preset, inputs)
    assert sum(launch.macs for launch in launches) == 11 * 9 * 9 * (5 * 19 + 19 * 7)
    (exact,) = run_relax(imported(model, load_accelerator(preset)), *inputs.values())
    np.testing.assert_array_equal(result, exact)
    (expected,) = run_onnx(model, inputs)
    step = np.abs(np.diff(np.unique(expected))).min()
    assert np.abs(result - expected).max() <= 2 * step + 1e-6


@pytest.mark.slow
def test_a_result_used_by_host_and_accelerator() -> None:
    """A launch's result feeds another launch packed, and an output unpacked."""
    graph = Graph("fork")
    zero = np.array(0, np.int8)
    random = np.random.default_rng(5)
    values = [graph.dequantize(graph.input("x", (2, 20, 6, 5), TensorProto.INT8), 2.0**-5, zero)]
    for name in ("first", "second"):
        weight = graph.constant(f"{name}_w", random.integers(-60, 60, (20, 20, 1, 1)).astype(np.int8))
        y = graph.node("Conv", name, [values[-1], graph.dequantize(weight, 2.0**-7, zero)])
        quantised = graph.quantize(y, 2.0**-4, zero, f"{name}_q")
        graph.output(quantised, (2, 20, 6, 5), TensorProto.INT8)
        values.append(graph.dequantize(quantised, 2.0**-4, zero))
    model = graph.model()
    inputs = draw_inputs(model)
    program = build(model, load_accelerator("vta"))
    kinds = [type(step) for step in program.steps]
    assert kinds.count(Launch) == 2
    assert kinds[kinds.index(Launch) + 1] is Launch or HostStep in kinds
    results, _ = run(model, "vta", inputs)
    reference = dyadic.run(model, inputs, balances=True)
    for name, result in zip(("first_q", "second_q"), results, strict=True):
        np.testing.assert_array_equal(result, reference[name])


@pytest.mark.parametrize(("shifts", "preset"), rotated([(0, 0), (1, 0), (0, 3)], ["vta", "vta-small"]))
def test_residual_additions(shifts: tuple[int, int], preset: str) -> None:
    check_addition((1, 37, 13, 7), preset, shifts)


@pytest.mark.parametrize("shape", [(19,), (5, 40), (3, 7, 20), (2, 3, 4, 5, 6)])
def test_additions_of_any_rank(shape: tuple[int, ...]) -> None:
    check_addition(shape, "vta", (0, 1))


def check_addition(shape: tuple[int, ...], preset: str, shifts: tuple[int, int]) -> None:
    graph = Graph("addition")
    zero = np.array(0, np.int8)
    terms = [
        graph.dequantize(graph.input(name, shape, TensorProto.INT8), 2.0 ** (shift - 5), zero)
        for name, shift in zip("ab", shifts, strict=True)
    ]
    total = graph.node("Relu", "relu", [graph.node("Add", "sum", terms)])
    graph.output(graph.quantize(total, 2.0**-4, zero, "y"), shape, TensorProto.INT8)
    model = graph.model()
    inputs = draw_inputs(model)
    (result,), launches = run(model, preset, inputs)
    assert [launch.op for launch in launches] == ["add"]
    np.testing.assert_array_equal(result, dyadic.run(model, inputs, balances=True)["y"])


def test_outputs_that_are_constants_and_inputs() -> None:
    graph = Graph("constants")
    x = graph.input("x", (2, 3))
    graph.constant("fixed", np.arange(4, dtype=np.float32))
    graph.node("Relu", "relu", [x])
    for name, shape in (("relu", (2, 3)), ("fixed", (4,)), ("x", (2, 3))):
        graph.output(name, shape)
    inputs = draw_inputs(graph.model())
    results, _ = run(graph.model(), "vta", inputs)
    expected = [np.maximum(inputs["x"], 0), np.arange(4, dtype=np.float32), inputs["x"]]
    for result, array in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, array)


def test_a_shape_that_depends_on_the_data_is_refused() -> None:
    graph = Graph("dynamic")
    graph.output(graph.node("NonZero", "nonzero", [graph.input("x", (2, 3))]), (2, 6), TensorProto.INT64)
    with pytest.raises(CompileError, match="depends on the data") as caught:
        build(graph.model(), load_accelerator("vta"))
    assert caught.value.field == "node:nonzero"


@pytest.mark.parametrize("preset", rest_all(["vta-small", "vta"]))
def test_additions_of_matrices(preset: str) -> None:
    graph = Graph("addition")
    zero = np.array(0, np.int8)
    terms = [graph.dequantize(graph.input(name, (5, 70), TensorProto.INT8), 2.0**-5, zero) for name in "ab"]
    graph.output(graph.quantize(graph.node("Add", "sum", terms), 2.0**-4, zero, "y"), (5, 70), TensorProto.INT8)
    inputs = draw_inputs(graph.model())
    (result,), launches = run(graph.model(), preset, inputs)
    assert [launch.op for launch in launches] == ["add"]
    np.testing.assert_array_equal(result, dyadic.run(graph.model(), inputs, balances=True)["y"])


def test_scalars() -> None:
    graph = Graph("scalars")
    graph.output(graph.node("Neg", "negated", [graph.input("x", ())]), ())
    (result,), _ = run(graph.model(), "vta", {"x": np.array(2, np.float32)})
    assert result == np.array(-2, np.float32)
    assert result.shape == ()
