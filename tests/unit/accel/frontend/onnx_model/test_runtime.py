"""Onnxruntime's sums of products are exact, whatever the processor has."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat

from accel.frontend.onnx_model.ort_session import session
from tests.helpers.models.operator_models import SIGNED, every_layer, quantised_statically
from tests.reference.host import draw_inputs, run_onnx


def test_products_of_both_signs_do_not_saturate() -> None:
    random = np.random.default_rng(1)
    a = random.integers(0, 256, (5, 64), np.uint8)
    b = random.integers(-128, 128, (64, 16), np.int8)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
        "product",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, a.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, (5, 16))],
        [numpy_helper.from_array(b, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    expected = a.astype(np.int32) @ b.astype(np.int32)
    assert np.abs(expected).max() > 1 << 15
    np.testing.assert_array_equal(session(model).run(None, {"a": a})[0], expected)
    np.testing.assert_array_equal(run_onnx(model, {"a": a})[0], expected)


def test_signed_convolutions_run(tmp_path: Path) -> None:
    model = quantised_statically(every_layer().model(), tmp_path, (SIGNED, SIGNED), QuantFormat.QOperator)
    inputs = draw_inputs(model)
    (found,), (expected,) = session(model).run(None, inputs), run_onnx(model, inputs)
    assert np.abs(found - expected).max() <= 1.001 / 256


@pytest.mark.parametrize("form", ["operators", "QDQ"])
def test_layers_that_share_their_quantised_weight_run(form: str) -> None:
    """Of onnxruntime's exact sums of products one weight became two of one name, and no session was made."""
    constants = {
        "w": np.arange(-128, 128, 4).astype(np.int8).reshape(8, 8),
        "ws": np.float32(0.005),
        "w0": np.int8(0),
        "s": np.float32(0.03),
        "z": np.uint8(120),
    }
    if form == "operators":
        layers = [
            helper.make_node("QLinearMatMul", [x, "s", "z", "w", "ws", "w0", "s", "z"], [y])
            for x, y in (("x_q", "a_q"), ("a_q", "y_q"))
        ]
    else:
        layers = []
        for x, y in (("x_q", "a_q"), ("a_q", "y_q")):
            layers += [
                helper.make_node("DequantizeLinear", [x, "s", "z"], [f"{x}_back"]),
                helper.make_node("DequantizeLinear", ["w", "ws", "w0"], [f"{x}_w"]),
                helper.make_node("MatMul", [f"{x}_back", f"{x}_w"], [f"{y}_real"]),
                helper.make_node("QuantizeLinear", [f"{y}_real", "s", "z"], [y]),
            ]
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["x_q"]),
            *layers,
            helper.make_node("DequantizeLinear", ["y_q", "s", "z"], ["y"]),
        ],
        "shared",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    inputs = draw_inputs(model)
    (found,) = session(model).run(None, inputs)

    def rounded(real: np.ndarray) -> np.ndarray:
        return (np.clip(np.rint(real / constants["s"]) + 120, 0, 255) - 120) * float(constants["s"])

    weight = constants["w"] * float(constants["ws"])
    expected = rounded(rounded(rounded(inputs["x"].astype(np.float64)) @ weight) @ weight)
    assert np.abs(found - expected).max() <= 1.001 * float(constants["s"])
