"""A builder of small ONNX graphs, so that the examples read as lists of layers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[Any]

OPSET = 17
IR_VERSION = 8


class Graph:
    """Collects the nodes, initializers, inputs and outputs of one model."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[int], dtype: int = TensorProto.FLOAT) -> str:
        """Declare a graph input; returns its name."""
        self._inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def output(self, name: str, shape: Sequence[int], dtype: int = TensorProto.FLOAT) -> None:
        """Declare a graph output."""
        self._outputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))

    def constant(self, name: str, value: Array) -> str:
        """Add an initializer; returns its name."""
        self._initializers.append(numpy_helper.from_array(value, name))
        return name

    def placeholder(self, name: str, shape: Sequence[int]) -> str:
        """Add a float32 initializer that has no values until ``draw_weights`` draws them; returns its name."""
        self._initializers.append(TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT))
        return name

    def node(
        self, op: str, name: str, inputs: Sequence[str], output: str | Sequence[str] = "", **attributes: Any
    ) -> str:
        """Add a node called ``name``; returns its first output, which bears the node's name unless it is given."""
        outputs = [output or name] if isinstance(output, str) else list(output)
        self._nodes.append(helper.make_node(op, list(inputs), outputs, name=name, **attributes))
        return outputs[0]

    def dequantize(self, tensor: str, scale: float, zero_point: npt.NDArray[Any]) -> str:
        """Add ``DequantizeLinear`` of ``tensor``; the element type is that of ``zero_point``."""
        inputs = [tensor, *self._parameters(f"{tensor}_dequantized", scale, zero_point)]
        return self.node("DequantizeLinear", f"{tensor}_dequantized", inputs)

    def quantize(self, tensor: str, scale: float, zero_point: npt.NDArray[Any], output: str = "") -> str:
        """Add ``QuantizeLinear`` of ``tensor``; the element type is that of ``zero_point``."""
        inputs = [tensor, *self._parameters(f"{tensor}_quantized", scale, zero_point)]
        return self.node("QuantizeLinear", f"{tensor}_quantized", inputs, output)

    def model(self, opset: int = OPSET) -> onnx.ModelProto:
        """The checked model; every placeholder must have been drawn."""
        model = self.unchecked(opset)
        onnx.checker.check_model(model, full_check=True)
        return model

    def unchecked(self, opset: int = OPSET) -> onnx.ModelProto:
        """The model as it is, which may have placeholders."""
        graph = helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, self._initializers)
        opsets = [helper.make_opsetid("", opset)]
        return helper.make_model(
            graph,
            opset_imports=opsets,
            ir_version=max(IR_VERSION, helper.find_min_ir_version_for(opsets)),
            producer_name="cyclops",
        )

    def _parameters(self, prefix: str, scale: float, zero_point: Array) -> tuple[str, str]:
        return (
            self.constant(f"{prefix}_scale", np.array(scale, np.float32)),
            self.constant(f"{prefix}_zero_point", zero_point),
        )
