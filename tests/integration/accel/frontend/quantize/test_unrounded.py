"""The float network that a quantised one stands for."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import QuantFormat, QuantType

from accel.frontend.legalize.qdq_form import in_qdq_form
from accel.frontend.quantize.unrounded_model import unrounded_model
from accel.verify.output_comparison import sqnr_db
from examples.graph import Graph
from tests.helpers.models.operator_models import (
    SIGNED,
    UNSIGNED,
    every_layer,
    quantised_dynamically,
    quantised_statically,
)
from tests.reference.host import run_onnx
from tests.reference.onnxruntime_quantizer import Samples


@pytest.mark.parametrize("form", QuantFormat)
@pytest.mark.parametrize("types", [(UNSIGNED, SIGNED), (SIGNED, SIGNED)])
def test_it_is_the_network_before_but_for_its_weights(
    types: tuple[QuantType, QuantType], form: QuantFormat, tmp_path: Path
) -> None:
    model = every_layer().model()
    quantised = quantised_statically(model, tmp_path, types, form)
    inputs = Samples(model).get_next()  # of those that set the ranges
    assert inputs is not None
    plain = unrounded_model(in_qdq_form(quantised))
    assert plain is not None
    onnx.checker.check_model(plain, full_check=True)
    assert not {"QuantizeLinear"} & {node.op_type for node in plain.graph.node}
    (before,), (after,) = (run_onnx(one, inputs) for one in (model, plain))
    assert sqnr_db(after, before) > 35


def test_a_quantise_that_saturates_is_a_clip() -> None:
    graph = Graph("saturating")
    y = graph.quantize(graph.input("x", (4,)), 0.5, np.array(2, np.uint8))
    graph.output(graph.dequantize(y, 0.5, np.array(2, np.uint8)), (4,))
    plain = unrounded_model(graph.model())
    assert plain is not None
    (result,) = run_onnx(plain, {"x": np.array([-3, -0.7, 1.23, 200], np.float32)})
    np.testing.assert_array_equal(result, np.array([-1, -0.7, 1.23, 126.5], np.float32))


def test_integers_that_others_read_have_none(tmp_path: Path) -> None:
    graph = Graph("integers")
    y = graph.quantize(graph.input("x", (4,)), 0.5, np.array(2, np.uint8))
    graph.output(graph.dequantize(y, 0.25, np.array(2, np.uint8)), (4,))
    assert unrounded_model(graph.model()) is None
    model = every_layer().model()
    assert unrounded_model(in_qdq_form(quantised_dynamically(model, tmp_path, SIGNED))) is None
    assert unrounded_model(model) is None
