"""Onnxruntime's sums of products are exact, whatever the processor has."""

from pathlib import Path

import numpy as np
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
