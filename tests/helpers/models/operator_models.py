"""Models of quantised operators: as onnxruntime's quantizer makes them of float models, and one operator at a time."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

from examples.graph import IR_VERSION, Graph
from tests.reference.host import Array
from tests.reference.onnxruntime_quantizer import Samples

SIGNED, UNSIGNED = QuantType.QInt8, QuantType.QUInt8
MICROSOFT = "com.microsoft"


class Network(Graph):
    """A graph of float layers with seeded weights."""

    def __init__(self) -> None:
        super().__init__("network")
        self._random = np.random.default_rng(7)

    def weights(self, name: str, *shape: int) -> str:
        return self.constant(name, (self._random.standard_normal(shape) * 0.3).astype(np.float32))

    def conv(self, name: str, x: str, channels: tuple[int, int], *, groups: int = 1, **attributes: Any) -> str:
        """3 x 3, with a bias, padded by 1; [O, I] are ``channels``."""
        weight = self.weights(f"{name}_w", channels[0], channels[1] // groups, 3, 3)
        operands = [x, weight, self.weights(f"{name}_b", channels[0])]
        return self.node("Conv", name, operands, pads=[1] * 4, group=groups, **attributes)


def every_layer() -> Network:
    """One layer of each kind that the quantizer has a quantised operator for."""
    graph = Network()
    x = graph.node("Relu", "relu", [graph.conv("first", graph.input("x", (1, 3, 12, 12)), (8, 3))])
    deep = graph.conv("depthwise", x, (8, 8), groups=8)
    gate = graph.node("Sigmoid", "sigmoid", [deep])
    x = graph.node("Add", "sum", [x, graph.node("Mul", "gated", [deep, gate])])
    x = graph.node("AveragePool", "average", [x], kernel_shape=[2, 2], strides=[2, 2])
    wide = [x, graph.node("LeakyRelu", "leaky", [graph.conv("wide", x, (4, 8))], alpha=0.1)]
    x = graph.node("Concat", "concat", wide, axis=1)
    x = graph.node("MaxPool", "largest", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    x = graph.node("Flatten", "flat", [graph.node("GlobalAveragePool", "mean", [x])])
    x = graph.node("Gemm", "dense", [x, graph.weights("dense_w", 6, 12), graph.weights("dense_b", 6)], transB=1)
    x = graph.node("MatMul", "product", [x, graph.weights("product_w", 6, 5)])
    graph.output(graph.node("Softmax", "softmax", [x], axis=-1), (1, 5))
    return graph


def quantised_statically(
    model: onnx.ModelProto, folder: Path, types: tuple[QuantType, QuantType], form: QuantFormat, **options: Any
) -> onnx.ModelProto:
    """By onnxruntime, activations and weights of ``types``; options that it calls extra begin with a capital."""
    extra = {name: value for name, value in options.items() if name[0].isupper()}
    onnx.save(model, folder / "float.onnx")
    with warnings.catch_warnings(action="ignore"):
        quantize_static(
            folder / "float.onnx",
            folder / "quantised.onnx",
            Samples(model),
            quant_format=form,
            activation_type=types[0],
            weight_type=types[1],
            extra_options=extra,
            **{name: value for name, value in options.items() if name not in extra},
        )
    return onnx.load(folder / "quantised.onnx")


def quantised_dynamically(model: onnx.ModelProto, folder: Path, weights: QuantType, **options: Any) -> onnx.ModelProto:
    """By onnxruntime, whose activations get their scales at run time."""
    onnx.save(model, folder / "float.onnx")
    quantize_dynamic(
        folder / "float.onnx",
        folder / "quantised.onnx",
        op_types_to_quantize=["Conv", "Gemm", "MatMul"],
        weight_type=weights,
        extra_options={"DefaultTensorType": TensorProto.FLOAT},
        **options,
    )
    return onnx.load(folder / "quantised.onnx")


def one_operator(
    op: str,
    inputs: Sequence[str],
    values: Mapping[str, Array],
    data: Mapping[str, tuple[tuple[int, ...], int]],
    result: int,
    version: int = 17,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of opset ``version`` with one node ``op``, called ``node``.

    ``values`` are its constants, ``data`` the shapes and types of the model's inputs.
    """
    domain = "" if op in ("ConvInteger", "DynamicQuantizeLinear", "MatMulInteger") else MICROSOFT
    node = helper.make_node(op, list(inputs), ["y"], name="node", domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info(name, dtype, shape) for name, (shape, dtype) in data.items()],
        [helper.make_tensor_value_info("y", result, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()],
    )
    opsets = [helper.make_opsetid("", version), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
