"""QDQ models that onnxruntime's own quantizer makes: other scales, zero points, types."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import QuantType

from accel.frontend.integer_recovery.recover_integers import ImportedModel, import_integer_model
from accel.frontend.integer_recovery.requantization import Requantize
from examples.graph import Graph
from examples.resnet8 import resnet8
from tests.reference.host import draw_inputs, run_onnx, run_relax
from tests.reference.onnxruntime_quantizer import quantise_by_onnxruntime

Quantise = Callable[..., onnx.ModelProto]

SIGNED, UNSIGNED = QuantType.QInt8, QuantType.QUInt8


@pytest.fixture
def quantise(tmp_path: Path) -> Quantise:
    return partial(_quantise, tmp_path)


def _quantise(
    folder: Path, model: onnx.ModelProto, activations: QuantType, weights: QuantType, **options: bool
) -> onnx.ModelProto:
    return quantise_by_onnxruntime(model, folder, activations, weights, **options)


def conv_model() -> onnx.ModelProto:
    random, graph = np.random.default_rng(0), Graph("conv")
    loudness = np.linspace(0.1, 1, 7, dtype=np.float32).reshape(7, 1, 1, 1)
    weight = graph.constant("w", random.standard_normal((7, 5, 3, 3)).astype(np.float32) * loudness)
    bias = graph.constant("b", random.standard_normal(7).astype(np.float32))
    y = graph.node("Conv", "conv", [graph.input("x", (1, 5, 9, 9)), weight, bias], pads=[1] * 4)
    graph.output(graph.node("Relu", "relu", [y]), (1, 7, 9, 9))
    return graph.model()


def matmul_model() -> onnx.ModelProto:
    random, graph = np.random.default_rng(0), Graph("matmul")
    weight = graph.constant("w", random.standard_normal((6, 9)).astype(np.float32))
    graph.output(graph.node("MatMul", "product", [graph.input("x", (2, 5, 6)), weight]), (2, 5, 9))
    return graph.model()


def check(model: onnx.ModelProto, requantize: Requantize = "shift") -> ImportedModel:
    """Within one step of the last scale of onnxruntime's result."""
    inputs = draw_inputs(model)
    imported = import_integer_model(model, requantize)
    (result,) = run_relax(imported, *inputs.values())
    (expected,) = run_onnx(model, inputs)
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    last = [node for node in model.graph.node if node.op_type == "QuantizeLinear"][-1]
    assert np.abs(result - expected).max() <= 1.001 * constants[last.input[1]]
    return imported


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(("activations", "weights"), [(SIGNED, SIGNED), (UNSIGNED, SIGNED), (UNSIGNED, UNSIGNED)])
def test_single_convolutions(
    activations: QuantType, weights: QuantType, quantise: Quantise, *, per_channel: bool, symmetric: bool
) -> None:
    model = quantise(conv_model(), activations, weights, per_channel=per_channel, symmetric=symmetric)
    imported = check(model)
    assert sum(imported.macs.values()) == 9 * 9 * 7 * 5 * 9
    names = {function.attrs["op"] for function in imported.module.functions.values() if function.attrs.get("op")}
    assert names == {"conv2d", "requantize"}
    assert "QuantizeLinear" in {node.op for node in imported.host_nodes.values()}


@pytest.mark.parametrize(("activations", "weights"), [(SIGNED, SIGNED), (UNSIGNED, UNSIGNED)])
def test_matrix_products_of_more_axes(activations: QuantType, weights: QuantType, quantise: Quantise) -> None:
    imported = check(quantise(matmul_model(), activations, weights))
    assert imported.macs == {"dense_product": 2 * 5 * 6 * 9}


@pytest.mark.slow
def test_a_whole_network(quantise: Quantise) -> None:
    imported = check(quantise(resnet8(), UNSIGNED, SIGNED, per_channel=True))
    assert sum(imported.macs.values()) == 12_501_632


@pytest.mark.slow
def test_symmetric_int8_is_all_integer_where_the_accelerator_scales(quantise: Quantise) -> None:
    imported = check(quantise(resnet8(), SIGNED, SIGNED, symmetric=True), "scale")
    found = [function for function in imported.module.functions.values() if function.attrs.get("op")]
    contractions = [function for function in found if function.attrs["op"] in ("conv2d", "dense")]
    assert len(contractions) == 11
    assert {str(function.ret_ty.dtype.dtype) for function in contractions} == {"int8"}
    assert not [function for function in found if function.attrs["op"] == "requantize"]
