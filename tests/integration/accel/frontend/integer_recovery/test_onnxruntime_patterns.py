"""The usual parts of networks, quantised by onnxruntime to QDQ form in the ways that it knows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import QuantFormat, QuantType
from onnxruntime.quantization.shape_inference import quant_pre_process

from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.integer_recovery.requantization import Requantize
from accel.frontend.read.model_inspection import inspect_model
from tests.helpers.marking import rest_slow
from tests.helpers.models.operator_models import SIGNED, UNSIGNED, Network, quantised_statically
from tests.reference.host import draw_inputs, run_onnx, run_relax

IMAGE = (1, 3, 10, 10)


def first(graph: Network) -> str:
    return graph.node("Relu", "relu", [graph.conv("first", graph.input("x", IMAGE), (8, 3))])


def chain(graph: Network) -> None:
    graph.output(graph.node("Relu", "last", [graph.conv("second", first(graph), (6, 8), strides=[2, 2])]), (1, 6, 5, 5))


def residual(graph: Network) -> None:
    x = first(graph)
    x = graph.node("Relu", "both", [graph.node("Add", "sum", [graph.conv("second", x, (8, 8)), x])])
    graph.output(graph.conv("last", x, (4, 8)), (1, 4, 10, 10))


def depthwise(graph: Network) -> None:
    graph.output(graph.conv("last", graph.conv("deep", first(graph), (8, 8), groups=8), (4, 8)), (1, 4, 10, 10))


def average(graph: Network) -> None:
    x = graph.node("AveragePool", "pool", [first(graph)], kernel_shape=[2, 2], strides=[2, 2])
    graph.output(graph.conv("last", x, (4, 8)), (1, 4, 5, 5))


def classifier(graph: Network) -> None:
    x = graph.node("Flatten", "flat", [graph.node("GlobalAveragePool", "mean", [first(graph)])])
    x = graph.node("Gemm", "dense", [x, graph.weights("dense_w", 5, 8), graph.weights("dense_b", 5)], transB=1)
    graph.output(x, (1, 5))


def concat(graph: Network) -> None:
    x = first(graph)
    x = graph.node("Concat", "joined", [x, graph.conv("second", x, (4, 8))], axis=1)
    graph.output(graph.conv("last", x, (4, 12)), (1, 4, 10, 10))


def product(graph: Network) -> None:
    x = graph.node("MatMul", "first", [graph.input("x", (2, 5, 6)), graph.weights("first_w", 6, 9)])
    x = graph.node("Relu", "relu", [graph.node("Add", "bias", [x, graph.weights("first_b", 9)])])
    graph.output(graph.node("MatMul", "second", [x, graph.weights("second_w", 9, 4)]), (2, 5, 4))


@pytest.mark.parametrize(
    ("build", "requantize", "types", "options"),
    rest_slow(
        [
            (chain, "scale", (SIGNED, SIGNED), {"ActivationSymmetric": True, "AddQDQPairToWeight": True}),
            (residual, "shift", (UNSIGNED, SIGNED), {"per_channel": True}),
            (depthwise, "shift", (UNSIGNED, UNSIGNED), {"reduce_range": True}),
            (average, "scale", (SIGNED, SIGNED), {"per_channel": True}),
            (classifier, "scale", (SIGNED, SIGNED), {"per_channel": True, "ActivationSymmetric": True}),
            (concat, "scale", (SIGNED, SIGNED), {"ActivationSymmetric": True, "DedicatedQDQPair": True}),
            (product, "scale", (UNSIGNED, UNSIGNED), {"QuantizeBias": False}),
        ],
        keep=3,
    ),
)
def test_all_multiplications_are_those_of_integers(
    build: Callable[[Network], None],
    requantize: Requantize,
    types: tuple[QuantType, QuantType],
    options: dict[str, Any],
    tmp_path: Path,
) -> None:
    graph = Network()
    build(graph)
    model = quantised_statically(graph.model(), tmp_path, types, QuantFormat.QDQ, **options)
    imported, inputs = import_integer_model(model, requantize), draw_inputs(model)
    assert sum(imported.macs.values()) == inspect_model(model.SerializeToString()).macs
    (result,), (expected,) = run_relax(imported, *inputs.values()), run_onnx(model, inputs)
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    last = [node for node in model.graph.node if node.op_type == "QuantizeLinear"][-1]
    # a unit that one layer is off is at most a unit or so of the next
    assert np.abs(result - expected).max() <= 2.001 * constants[last.input[1]]
    # the mean of four integers is often halfway between two, where the last bit of a float decides
    assert np.mean(result != expected) < (0.4 if build is average else 0.02)


def test_after_onnxruntimes_own_preparation(tmp_path: Path) -> None:
    graph = Network()
    residual(graph)
    onnx.save(graph.model(), tmp_path / "whole.onnx")
    quant_pre_process(str(tmp_path / "whole.onnx"), str(tmp_path / "ready.onnx"), skip_symbolic_shape=True)
    ready = onnx.load(tmp_path / "ready.onnx")
    model = quantised_statically(ready, tmp_path, (SIGNED, SIGNED), QuantFormat.QDQ, ActivationSymmetric=True)
    imported = import_integer_model(model, "scale")
    assert set(imported.macs) == {"conv2d_first", "conv2d_second", "conv2d_last"}
