"""ConvInteger and MatMulInteger with their scales written out behind them: Cast, Mul, Add, and then a quantise."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.legalize.qdq_form import in_qdq_form
from examples.graph import Graph
from tests.helpers.models.onnxruntime_layers import check_within_a_step
from tests.helpers.models.scaled_layers import composites
from tests.reference.host import draw_inputs, run_onnx, run_relax

CHANNELS = 6


def scaled_integers(op: str, *, per_channel: bool, bias: bool, quantised: bool = True) -> onnx.ModelProto:
    """``op`` on uint8 data with a zero point of 99, as float32 or quantised again."""
    random, graph = np.random.default_rng(3), Graph("scaled")
    image = op == "ConvInteger"
    x = graph.input("x", (1, 4, 6, 6) if image else (5, 8), TensorProto.UINT8)
    shape, along = ((CHANNELS, 4, 3, 3), (1, -1, 1, 1)) if image else ((8, CHANNELS), (1, -1))
    weights = graph.constant("w", random.integers(-127, 128, shape, np.int8))
    operands = [x, weights, graph.constant("x_zero", np.uint8(99)), graph.constant("w_zero", np.int8(0))]
    y = graph.node("Cast", "cast", [graph.node(op, "layer", operands, **({"pads": [1] * 4} if image else {}))], to=1)
    scale = random.uniform(1e-4, 1e-3, CHANNELS if per_channel else 1).astype(np.float32).reshape(along)
    y = graph.node("Mul", "scaled", [graph.constant("scale", scale), y])
    if bias:
        y = graph.node("Add", "biased", [y, graph.constant("b", random.normal(0, 1, scale.shape).astype(np.float32))])
    y = graph.node("Relu", "relu", [y])
    result = (1, CHANNELS, 6, 6) if image else (5, CHANNELS)
    if quantised:
        y = graph.quantize(y, 0.11, np.array(3, np.uint8), "y")
    graph.output(y, result, TensorProto.UINT8 if quantised else TensorProto.FLOAT)
    return graph.model()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("op", ["ConvInteger", "MatMulInteger"])
def test_the_scale_becomes_part_of_the_epilogue(op: str, *, per_channel: bool, bias: bool) -> None:
    model = scaled_integers(op, per_channel=per_channel, bias=bias)
    imported = import_integer_model(in_qdq_form(model), "multiply")
    (function,) = composites(imported).values()
    assert str(function.ret_ty.dtype.dtype) == "int8"
    wanted = {"layer", "cast", "scaled", *(["biased"] if bias else []), "relu"}
    assert set(map(str, function.attrs["nodes"])) == wanted
    check_within_a_step(run_relax(imported, *draw_inputs(model).values()), model)


@pytest.mark.parametrize("op", ["ConvInteger", "MatMulInteger"])
def test_the_host_scales_by_it_where_the_accelerator_cannot(op: str) -> None:
    model = scaled_integers(op, per_channel=True, bias=True)
    imported = import_integer_model(in_qdq_form(model), "scale")
    causes = [str(f.attrs["cause"]) for f in composites(imported).values() if f.attrs["op"] == "requantize"]
    assert causes == ["each channel has a scale of its own"]
    check_within_a_step(run_relax(imported, *draw_inputs(model).values()), model)


@pytest.mark.parametrize("op", ["ConvInteger", "MatMulInteger"])
def test_a_float_result_is_the_models_own(op: str) -> None:
    model = scaled_integers(op, per_channel=True, bias=True, quantised=False)
    imported, inputs = import_integer_model(in_qdq_form(model), "multiply"), draw_inputs(model)
    assert len(imported.macs) == 1
    (result,) = run_relax(imported, *inputs.values())
    np.testing.assert_array_equal(result, run_onnx(model, inputs)[0])
